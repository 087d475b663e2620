"""Why a succession was recognised: the words as they are written, and the kinds of change in plain words."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping

from orion_recall.memory.told_changes.word_lists import CueKind

_VALUE = "value"
_PLAIN: Mapping[str, str] = {
    "end": "something is over",
    "handover": "somebody takes over",
    "shift": "another time",
    "switch": "one thing in place of another",
    "amount": "a higher or lower amount",
    "change": "something is different from now on",
    "present": "it is so now",
    _VALUE: "another value",
}
_TYPES: Mapping[str, str] = {
    "money": "amount of money",
    "clock": "time of day",
    "date": "date",
    "month": "month",
    "weekday": "weekday",
    "address": "address",
    "name": "name",
    "number": "number",
}
_QUOTED = re.compile(r'"([^"]+)"')
_SAME_HOUR = frozenset(("same time", "same hour"))
_FAMILIES = "both are about: "
_MOST = 4


def seen_in(
    cues: Collection[CueKind],
    phrases: Iterable[str],
    shared: Iterable[tuple[str, str]],
    clash: Iterable[str],
) -> str:
    """What is kept with a succession: its cues, a colon, and what was seen, as it is written.

    `shared` are the words of both, as the newer and the older one write them.
    """
    said = ", ".join(f'"{phrase}"' for phrase in dict.fromkeys(phrases))
    words = ", ".join(_both(*forms) for forms in list(shared)[:_MOST])
    others = ", ".join(_TYPES.get(kind, kind) for kind in clash)
    parts = [
        f"it says {said}" if said else "",
        f"both say {words}" if words else "",
        f"another {others}" if others else "",
    ]
    return f"{'/'.join(sorted(cues)) or _VALUE}: {'; '.join(part for part in parts if part)}"


def _both(newer: str, older: str) -> str:
    """One word as both write it, or as each does: that they differ in capitals alone is not told."""
    return f'"{newer}"' if newer.casefold() == older.casefold() else f'"{newer}" or "{older}"'


def other_values(reason: str) -> frozenset[str]:
    """The types of the values that differ, which the kept reason ends with: money, clock, date and so on."""
    said = reason.rpartition("another ")[2].split(", ")
    return frozenset(kind for kind, words in _TYPES.items() if words in said)


def phrases_said(reason: str) -> tuple[str, ...]:
    """The phrases of change that a kept reason quotes, folded: "sold" of `it says "sold"`."""
    _, says, seen = reason.partition("it says ")
    return tuple(_QUOTED.findall(seen.partition("; ")[0])) if says else ()


def plain(reason: str) -> str:
    """The kept reason in plain words; one that has no cues before its colon stays as it is."""
    cues, colon, seen = reason.partition(":")
    kinds = cues.split("/")
    if not colon or not all(kind in _PLAIN or kind == "weak" for kind in kinds):
        return reason
    told = [text for kind, text in _PLAIN.items() if kind in kinds and kind != _VALUE]
    if not _SAME_HOUR.isdisjoint(phrases_said(reason)):
        told = ["another day" if text == _PLAIN["shift"] else text for text in told]
    # Reasons that were kept before have names of word families, too, which say little to people.
    parts = [part for part in seen.strip().split("; ") if part and not part.startswith(_FAMILIES)]
    if told:
        parts.append(f"read as: {', '.join(told)}")
    return "; ".join(parts) or f"read as: {_PLAIN[_VALUE]}"
