"""Renders the console's pages: HTML in which every text is data.

All values are escaped. Characters that could change the direction or the look of the text around them are shown
as �, so that what a memory says stands where it is said. A field of a form holds its text as it is (`exact`): what
one does not touch must come back unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, tzinfo
from pathlib import Path
from typing import cast
from urllib.parse import quote, urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

HERE = Path(__file__).parent
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
# A browser reads a reference as the very character; control characters stand as they are, for they steer nothing.
_BY_REFERENCE = re.compile("[\r\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_NO_CHARACTERS = re.compile("[\x00\ud800-\udfff]")
_NAVIGATION = (
    ("/", "Now", None),
    ("/ask", "Ask", "recall"),
    ("/memories", "Memories", None),
    ("/graph", "Graph", None),
    ("/profiles", "Profiles", None),
    ("/replays", "Replays", "operate"),
)
_WORDS: Mapping[str, str] = {
    "ok": "answered",
    "empty": "nothing found",
    "degraded": "answered, without a source",
    "failed": "failed",
    "refused": "refused",
    "expired": "came too late",
    "invalid": "not understood",
}


def shown(value: object) -> object:
    """A value as a page shows it: None is nothing, and no text can steer what is around it."""
    if isinstance(value, Markup):
        return value
    if value is None:
        return ""
    return _CONTROLS.sub("\N{REPLACEMENT CHARACTER}", value) if isinstance(value, str) else value


def exact(value: object) -> Markup:
    """A value as a field of a form holds it: every character as it is, for HTML escaped."""
    text = _NO_CHARACTERS.sub("\N{REPLACEMENT CHARACTER}", "" if value is None else str(value))
    return Markup(_BY_REFERENCE.sub(lambda found: f"&#{ord(found[0])};", str(escape(text))))  # noqa: S704 (escaped)


def when(value: datetime | float | None, *, seconds: bool = True, clock: tzinfo = UTC) -> str:
    if value is None:
        return ""
    moment = datetime.fromtimestamp(value, clock) if isinstance(value, int | float) else value.astimezone(clock)
    return f"{moment:%Y-%m-%d %H:%M:%S}" if seconds else f"{moment:%Y-%m-%d %H:%M}"


def milliseconds(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:,.0f} ms" if value >= 10 else f"{value:.1f} ms"


def percent(value: float | None) -> str:
    return "–" if value is None else f"{value:.0%}" if value in (0, 1) or value >= 0.1 else f"{value:.1%}"


def outcome_words(outcome: str) -> str:
    return _WORDS.get(outcome, outcome)


def capitalize_first(text: str) -> str:
    return text[:1].upper() + text[1:]


def counted(count: int, one: str) -> str:
    return f"{count:,} {one if count == 1 else f'{one}s'}"


def value_words(value: object) -> str:
    """A value of JSON in words: the elements of a list with commas between them; nothing of what is empty."""
    if isinstance(value, Mapping):
        told = cast("Mapping[str, object]", value)
        return "; ".join(f"{name}: {text}" for name, one in told.items() if (text := value_words(one)))
    if isinstance(value, list | tuple):
        return ", ".join(filter(None, map(value_words, cast("Sequence[object]", value))))
    return "" if value is None or value is False else "yes" if value is True else str(value)


def decision_path(decision_id: str) -> str:
    return f"/decisions/{quote(decision_id, safe='')}"


def memory_path(tenant: str, memory_id: str) -> str:
    return f"/memory?{urlencode({'tenant': tenant, 'id': memory_id})}"


def templates() -> Environment:
    """The templates of the console."""
    made = Environment(
        loader=FileSystemLoader(HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    known = {"pages_of_nav": _NAVIGATION, "decision_path": decision_path, "memory_path": memory_path}
    cast("dict[str, object]", made.globals).update(known)
    filters: dict[str, object] = {
        "exact": exact,
        "when": when,
        "ms": milliseconds,
        "percent": percent,
        "outcome": outcome_words,
        "counted": counted,
        "told": value_words,
        "capitalize_first": capitalize_first,
    }
    cast("dict[str, object]", made.filters).update(filters)
    return made
