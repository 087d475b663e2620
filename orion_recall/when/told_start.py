"""The told start and end of what a statement says, where it tells them: "from 1 November", "until Christmas"."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from functools import lru_cache
from typing import Final

from orion_recall.when.told import told_times

_READ_CHARS: Final = 1000
_BEGINS: Final = re.compile(
    r"\b(?P<open>since)\s+"
    r"|\b(?:from|starting|beginning|commencing|effective|as\s+(?:of|from))\s+(?:(?:on|from|in|as\s+of)\s+)?",
    re.IGNORECASE,
)
_ENDS: Final = re.compile(r"\b(?:until|till|til|up\s+to)\s+(?:the\s+end\s+of\s+)?", re.IGNORECASE)
_TIME: Final = re.compile(r"(?:(?!\bat\b)[^,;.!?\s]+\s*){1,6}")
# "From 3 May until 5 June" says when something is, and not from when on.
_GOES_ON: Final = re.compile(r"\s+(?:to|till|until|through|and|[-–—])(?=\s|\d)", re.IGNORECASE)


def told_start(text: str, said: float) -> float | None:
    """The beginning of the only time from which on the first 1,000 characters say that something is so; else None.

    In epoch seconds. `said` is when it was said; its days are those of UTC.
    """
    return _start(text[:_READ_CHARS], said)


@lru_cache(maxsize=1024)
def _start(text: str, said: float) -> float | None:
    try:
        now = datetime.fromtimestamp(said, UTC)
    except (OverflowError, ValueError, OSError):
        return None
    starts = {start for cue in _BEGINS.finditer(text) if (start := _after(cue, text, now)) is not None}
    return starts.pop() if len(starts) == 1 else None


def _after(cue: re.Match[str], text: str, now: datetime) -> float | None:
    """The beginning of the time that stands right behind the cue; None where none does, or where its end follows.

    It is read alone, since the clause may tell clock times as well.
    """
    if (words := _TIME.match(text, cue.end())) is None:
        return None
    led = f"{cue['open'] or 'from'} {words[0]}"
    found = told_times(led, now, most=1)
    if not found or found[0].weekly or not led.startswith(found[0].text):
        return None
    return None if _GOES_ON.search(found[0].text) or _GOES_ON.match(led, len(found[0].text)) else found[0].since


@lru_cache(maxsize=1024)
def tells_end(text: str, said: float) -> bool:
    """Whether the first 1,000 characters say until when something is so: "the lease runs until November"."""
    try:
        now = datetime.fromtimestamp(said, UTC)
    except (OverflowError, ValueError, OSError):
        return False
    for cue in _ENDS.finditer(text[:_READ_CHARS]):
        words = _TIME.match(text, cue.end())
        led = f"until {words[0]}" if words is not None else ""
        if any(not one.weekly and led.startswith(one.text) for one in told_times(led, now, most=1)):
            return True
    return False
