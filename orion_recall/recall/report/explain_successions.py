"""What an explanation says of successions: what a memory is taken as replaced by, or as replacing, and why."""

from __future__ import annotations

from collections.abc import Callable
from datetime import tzinfo

from orion_recall.memory.succession.decide import SUCCEEDS
from orion_recall.memory.succession.reasons import plain
from orion_recall.recall.bundle.render import day_of
from orion_recall.scoring.candidates import SURE, Outdated, ScoredCandidate
from orion_recall.text.normal import one_line
from orion_recall.values import SuccessionLink

NEWER: dict[str, str] = {
    "noted": "may replace it",
    "alike": "has words, or kinds of words, in common with it",
    "news": "says that something has changed, and the question asks about now",
    "time": "shares rare words with it and names another time",
    "amount": "shares rare words with it and names another amount",
    "number": "shares rare words with it and names another number",
}
"""How a memory that is newer than another one has passed it."""


def succession_words(
    item: ScoredCandidate, now: float, may_name: Callable[[int], bool], zone: tzinfo, *, has_moved: bool
) -> list[str]:
    """What it is taken as replaced by, and what it is taken as replacing, the surest; a likeness alone where it
    `has_moved` the memory.

    Where it is not marked as outdated, for this question or not yet, what is newer is named all the same. What is
    less sure is only named where it `has_moved` the memory.
    """
    later = [one for one in item.memory.succeeded_by if one.at <= now and _is_certain(one) and may_name(one.key)]
    told: list[str] = []
    if item.outdated is not None:
        told.append(_outdated(item.outdated, now, may_name, zone))
    elif (newer := max(later, key=_confidence, default=None)) is not None:
        taken = "marked as replacing it" if newer.by == "hand" else f"{_taken(newer)} newer about the same thing"
        told.append(f"{one_line(newer.id)} is {taken} ({_why(newer)})")
    links = [one for one in item.memory.succeeds if may_name(one.key)]
    than = item.newer_than
    if has_moved and than is not None and may_name(than.key) and not any(is_sure(one) for one in links):
        why = "".join(f" ({_likeness(link)})" for link in links if link.key == than.key and than.how == "noted")
        told.append(f"moved up, as it is newer than {one_line(than.id)} and {NEWER[than.how]}{why}")
    named = [one for one in links if _is_certain(one) or (has_moved and is_sure(one))]
    if (older := max(named, key=_confidence, default=None)) is not None:
        taken = "marked as replacing" if older.by == "hand" else f"{_taken(older)} newer about the same thing as"
        told.append(f"{taken} {one_line(older.id)} ({_why(older)})")
    return told


def is_sure(link: SuccessionLink) -> bool:
    """Whether it counts as a succession, not as a likeness alone."""
    return link.by == "hand" or link.confidence >= SUCCEEDS


def _is_certain(link: SuccessionLink) -> bool:
    """Whether nearly all that is recognised with such confidence is right, or a person said so."""
    return link.by == "hand" or link.confidence >= SURE


def _confidence(link: SuccessionLink) -> float:
    return link.confidence


def _outdated(by: Outdated, now: float, may_name: Callable[[int], bool], zone: tzinfo) -> str:
    """What a memory is taken as replaced by, and from when on where the newer one tells that: as its mark says."""
    link, ahead = by.link, by.until > now
    day = day_of(by.until, zone)
    tells_day = ahead or by.or_earlier or day != day_of(link.at, zone)
    from_day = f" from {day} on{', or earlier,' if by.or_earlier else ''}" if tells_day else ""
    taken, later = ("marked as", "") if link.by == "hand" else (_taken(link), ", said later about the same thing")
    if not may_name(link.key):
        return f"{taken} replaced{from_day}"
    return f"{taken} replaced{from_day} by {one_line(link.id)}{later} ({_why(link)})"


def _taken(link: SuccessionLink) -> str:
    """How sure a recognised succession is, in words, as its mark says."""
    return "taken as" if link.confidence >= SURE else "perhaps"


def _why(link: SuccessionLink) -> str:
    made = "a person said so" if link.by == "hand" else one_line(plain(link.reason))
    sure = f"confidence {link.confidence:.3g}"
    return f"{sure}, {made}" if made else sure


def _likeness(link: SuccessionLink) -> str:
    """What two texts that are only alike have in common: a change told in one may be of another thing."""
    shared = [part for part in plain(link.reason).split("; ") if part.startswith("both say ")]
    return one_line("; ".join((f"confidence {link.confidence:.3g}", *shared)))
