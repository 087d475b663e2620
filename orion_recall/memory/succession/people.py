"""Whose change it is: whether both memories tell of one person, and of what their speakers say of themselves."""

from __future__ import annotations

from orion_recall.memory.succession.evidence import Evidence
from orion_recall.memory.succession.nearness import Nearness
from orion_recall.memory.succession.span import Reading, Span
from orion_recall.memory.told_changes.terms import stem
from orion_recall.memory.told_changes.word_families import EVENTS, PERSONAL
from orion_recall.memory.told_changes.word_lists import CueKind

_OTHER_TIME: frozenset[CueKind] = frozenset(("change", "shift", "switch"))
_FROM_THEN_ON = ("from", "as of", "as from", "with effect", "starting")
_FAR = 99


def is_of_another_person(new: Span, old: Span, one: Reading, other: Reading, seen: Evidence) -> bool:
    """Whether each tells of one person where he lives or works: "Idris moved to Kaunas", "Lars moved to Ghent"."""
    if new.people.are_namesakes(old.people):
        return True
    if (
        seen.concerned
        or "handover" in seen.cues
        or PERSONAL.isdisjoint(seen.functional)
        or "owner" in seen.functional
    ):
        return False
    if new.people.addresses and "money" in seen.clash:
        return False  # a landlord tells what the rent will be
    actors, before = new.people.actors, old.people.actors
    if not actors or not before or actors & (before | old.named) or before & new.named:
        return False
    return actors <= new.named | {one.first_name} and before <= old.named | {other.first_name}


def by_others(new: Span, old: Span, one: Reading, other: Reading, seen: Evidence) -> bool:
    """Whether each of two speakers tells it of himself."""
    if (
        one.speaker == other.speaker
        or new.families & old.families & EVENTS
        or (seen.told and (seen.timed_clash or "money" in seen.clash))
    ):
        return False
    return _is_of_self(new, one) and _is_of_self(old, other)


def _is_of_self(span: Span, reading: Reading) -> bool:
    """Whether its speaker tells of himself, or of what is his."""
    return span.people.owned or reading.first_name in span.people.actors


def speaker_weight(new: Span, old: Span, one: Reading, other: Reading, seen: Evidence) -> float:
    """Whether it is about the same people."""
    if new.things.come_back(old.things) and one.first_name and stem(one.first_name) in old.things.lent:
        return 0.4  # who had it brings it back
    z = 0.0
    if one.speaker and other.speaker:
        z += 0.2 if one.speaker == other.speaker else -0.2
    kin, before = new.people.kin, old.people.kin
    if kin != before:
        is_same = kin & before or (not kin and (seen.concerned or new.names & old.names))
        z -= 0.3 if is_same else 1.2
    return z if seen.corrects else z + _actor_fit(new, old, one, other, seen.cues)


def _actor_fit(
    new: Span, old: Span, one: Reading, other: Reading, cues: frozenset[CueKind] | set[CueKind]
) -> float:
    """What speaks against it: others act, or the same words are said by another person of himself."""
    if new.people.actors & old.people.actors:
        return 0.2
    if not new.people.are_others(old.people):
        return 0.0
    if cues & {"handover", "end", "shift"} or new.families & old.families & EVENTS:
        return 0.0
    if one.speaker == other.speaker and _is_of_self(new, one) and _is_of_self(old, other):
        return 0.0
    return -0.4 if new.people.addresses else -1.0


def is_own_value(new: Span, old: Span, one: Reading, other: Reading, seen: Evidence, near: Nearness) -> bool:
    """Whether one speaker tells another time or amount, near in meaning to what he told before, and that it is new.

    "We rehearse on Wednesdays at six" and then "People voted, it's Fridays from this week": no word is shared.
    """
    if one.speaker != other.speaker or not one.speaker or (near.rank or _FAR) > 2 or new.recurrence.one_time:
        return False
    if new.change.moving and not any(thing in old.weights for thing in new.change.moving):
        return False
    if seen.timed_clash and seen.cues & _OTHER_TIME:
        return True
    says = new.change.phrases.get("change", "")
    return not {"money", "number"}.isdisjoint(seen.clash) and says.startswith(_FROM_THEN_ON)
