"""Whether a memory succeeds an older one: a decision by rules, with a confidence.

Three questions: are both about the same thing, does the newer one say that something is new, and do they tell
different values of one kind? A shared subject is needed always.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from orion_recall.memory.succession.evidence import (
    FAMILY_STEMS,
    TELLING,
    Evidence,
    confirms,
    evidence_of,
    leaves_another,
    tells_same_post,
)
from orion_recall.memory.succession.nearness import UNKNOWN, Nearness
from orion_recall.memory.succession.people import by_others, is_of_another_person, is_own_value, speaker_weight
from orion_recall.memory.succession.reasons import seen_in
from orion_recall.memory.succession.span import Reading, Span
from orion_recall.memory.told_changes.occurrences import KINDS_OF_NAMES
from orion_recall.memory.told_changes.terms import stem
from orion_recall.memory.told_changes.word_families import EVENTS, NEED_A_SUBJECT, ONE_VALUED
from orion_recall.memory.told_changes.word_lists import STATES, CueKind

SUCCEEDS = 0.5
"""From this confidence a candidate counts as a succession; below it is a likeness alone."""
LEAST = 0.3
"""Candidates below this confidence are not kept."""

_CUE: Mapping[CueKind | None, float] = {
    "amount": 1.1,
    "switch": 1.1,
    "change": 1.0,
    "shift": 1.0,
    "handover": 0.9,
    "end": 0.8,
    "present": 0.5,
    "weak": 0.1,
    None: -0.4,
}
_HANDOVER: frozenset[CueKind] = frozenset(("handover",))
_CHANGE: frozenset[CueKind] = frozenset(("change",))
_NO_CUES: frozenset[CueKind] = frozenset()
_ENDS: frozenset[CueKind] = frozenset(("end", "change"))
_MOVING: frozenset[CueKind] = frozenset(("shift", "change"))
_LASTING: frozenset[CueKind] = frozenset(("change", "switch", "handover", "amount"))
_IS_SO: frozenset[CueKind] = frozenset(("present", "weak"))
_ALIKE, _SAME, _LEAST_SHARED = 0.5, 0.6, 0.3
_RESTATES = 0.4
_NEAR = 3
_MOST_SPANS = 24
UNTOLD = 0.45
"""The most that a likeness gets where nothing says that something is new."""
_CLOCK = re.compile(r"\d{1,2}(?::\d\d)?")
_MANY_HAVE = frozenset(("number", "name"))
_MOVED_WEIGHT = -0.3
_NOTHING: frozenset[str] = frozenset()


class Judgement(NamedTuple):
    """How confident it is that the newer memory succeeds the older one, in [0, 1], and what speaks for it."""

    confidence: float
    reason: str


def judge(new: Reading, old: Reading, near: Nearness = UNKNOWN) -> Judgement | None:
    """The judgement on a pair; None where nothing speaks for a succession."""
    if new.tenant != old.tenant or new.id == old.id or new.asks or old.asks or new.text_hash == old.text_hash:
        return None
    if new.at is None or old.at is None or new.at <= old.at:
        return None
    if new.assistant and (len(new.spans) > 1 or new.whole.people.addresses):
        return None  # it repeats and advises: what is new is said by whom it talks to
    best: Judgement | None = None
    news, olds = _compared(new, old)
    for span in news:
        for other in olds:
            one = _judged(span, other, new, old, near)
            if one is not None and (best is None or one.confidence > best.confidence):
                best = one
    return best


def _compared(new: Reading, old: Reading) -> tuple[Sequence[Span], Sequence[Span]]:
    """The spans that are compared: all, but of long lists the first ones that tell something, and what is near."""
    if len(new.spans) * len(old.spans) <= _MOST_SPANS**2:
        return new.spans, old.spans
    news = [span for span in new.spans if span.change.cues or span.values][:_MOST_SPANS]
    about = _NOTHING.union(*(span.weights.keys() for span in news))
    return news, [span for span in old.spans if not about.isdisjoint(span.weights)][:_MOST_SPANS]


def _judged(new: Span, old: Span, one: Reading, other: Reading, near: Nearness) -> Judgement | None:
    seen = evidence_of(new, old, one, other, near)
    is_alike = near.cosine is not None and near.cosine >= _ALIKE
    of_kind = not new.families & ONE_VALUED or bool(seen.functional - (set() if seen.strong else NEED_A_SUBJECT))
    is_nearest = near.cosine is None or near.rank == 1
    # Whoever swaps a day for another has not changed what he said of a third.
    other_day = seen.timed_clash and not seen.cites
    replaces = "switch" in seen.cues and of_kind and is_nearest and not other_day
    if (
        new.change.contradicts(old.values)
        or _is_of_others(new, old)
        or is_of_another_person(new, old, one, other, seen)
        or leaves_another(new, old, seen)
        or confirms(new, old, seen)
        or not (
            seen.strong
            or seen.functional
            or seen.cites
            or seen.concerned
            or seen.other_state
            or is_alike
            or replaces
        )
    ):
        return None
    z = -2.6 + _CUE[_strongest(seen.cues)] + (0.3 if len(seen.cues - {"weak", "present"}) > 1 else 0.0)
    z += _subject_weight(new, seen, near, replaces=replaces)
    z += _change_weight(new, old, seen, near)
    z += speaker_weight(new, old, one, other, seen)
    z -= 0.15 * math.log2(len(one.spans) * len(other.spans))  # of many spans two fit by chance
    z += 0.5 if is_own_value(new, old, one, other, seen, near) else 0.0
    # What is moved is the same however far its texts are from each other.
    moved = "shift" in seen.cues and seen.told and seen.timed_clash
    z += max(near.weight, _MOVED_WEIGHT) if moved else near.weight
    confidence = round(1 / (1 + math.exp(-1.6 * z)), 3)
    if not seen.cues & TELLING and not seen.concerned and not _tells_otherwise(new, old, seen, near):
        confidence = min(confidence, UNTOLD)  # however near: nothing says that something is new
    elif _shares_a_name_alone(new, old, seen) or _tells_the_same(new, seen):
        confidence = min(confidence, UNTOLD)
    elif (
        _ends_what_happened(old, seen)
        or _is_of_one_time(new, old, seen)
        or not (replaces or _is_anchored(new, old, one, other, seen, near))
    ):
        confidence = min(confidence, UNTOLD)  # something is new, but not what the older one tells
    phrases = [text for kind, text in new.change.phrases.items() if kind in seen.cues and kind != "weak"]
    shared = [(new.written.get(term, term), old.written.get(term, term)) for term in sorted(seen.strong)]
    return Judgement(confidence, seen_in(seen.cues, phrases, shared, seen.clash))


def _is_of_others(new: Span, old: Span) -> bool:
    """Whether both tell of such a thing, but each of another's: the meeting with Acme, and that with Bolt."""
    if new.people.kin_of_others and old.weights.keys().isdisjoint(map(stem, new.people.kin_of_others)):
        return True  # her brother's flat, not hers
    if new.names & old.names - KINDS_OF_NAMES:
        return False
    if new.posts.are_of_others(old.posts):
        return True
    return any(whose.isdisjoint(old.named_after.get(thing, whose)) for thing, whose in new.named_after.items())


def _is_anchored(new: Span, old: Span, one: Reading, other: Reading, seen: Evidence, near: Nearness) -> bool:
    """Whether what the newer one says is new is what the older one tells.

    It is by a date that it cites, by who leaves, by a value of the same attribute, or by the subject of the
    sentence that says the change. Of long texts and of one common word alone that is not enough.
    """
    telling = seen.cues & TELLING
    is_of_post = other.whole.posts.is_role and (seen.concerned or tells_same_post(new, other.whole))
    hands_no_post_over = telling == _HANDOVER and not (other.whole.posts.headed or is_of_post or seen.other_state)
    if seen.cites or seen.corrects or (seen.concerned and not hands_no_post_over):
        return True
    if hands_no_post_over:
        return False
    if not new.posts.qualified <= old.weights.keys():
        return False  # the landlord of others
    if new.posts.is_role and not old.posts.qualified <= new.weights.keys():
        return False
    was_over = "end" in other.whole.change.cues
    if "end" in telling and telling <= {"end", "handover"} and was_over and not seen.timed_clash:
        return False  # both say that it is over
    about = frozenset(seen.strong) & seen.changed
    things = about.intersection(seen.things)
    if len(one.spans) > 1 or len(other.spans) > 1:
        return bool(things) and (seen.restates or seen.timed_clash)
    if not (new.change.cancels and len(seen.things) > 1) and by_others(new, old, one, other, seen):
        return False
    if seen.other_state:
        return True
    if is_own_value(new, old, one, other, seen, near):
        return True
    nearest = near.cosine is None or (near.rank == 1 and near.cosine >= _ALIKE)
    of_many = bool(seen.functional) and seen.functional <= NEED_A_SUBJECT
    if of_many and not things and near.cosine is not None and near.cosine < _SAME:
        return False  # everything has a price: both must tell of the same thing
    if of_many and not things and new.named and old.named and new.named.isdisjoint(old.named):
        return False  # the wedding of others
    if seen.restates and (things or nearest or not seen.functional <= NEED_A_SUBJECT):
        return True
    again = about and new.recurrence.comes_again and old.recurrence.comes_again  # the choir's Wednesdays
    if (
        telling & _MOVING
        and seen.timed_clash
        and nearest
        and (again or ("shift" in telling and (things or seen.functional)))
    ):
        return True
    if _renews(new, old, seen, near):
        return True
    changed = {family for family in seen.families if FAMILY_STEMS[family] & seen.changed}
    if telling and changed & seen.functional - NEED_A_SUBJECT:
        return True
    if "shift" in telling and seen.timed_clash and changed & EVENTS:
        return True
    if about.intersection(seen.told) and (seen.clash or len(about) > 1):
        return True
    return bool(things) and near.is_first


def _shares_a_name_alone(new: Span, old: Span, seen: Evidence) -> bool:
    """Whether both only name the same place, firm or other, and nothing but "now" tells a change.

    "She owns the pier at Lower Quay now" changes nothing of "We leave Lower Quay in May". No attribute is shared
    but by words of the name, and the name is not the subject of both.
    """
    shared = frozenset(seen.strong)
    if not shared or not _says_what_is_so(new, seen) or not shared <= new.names & old.names or seen.cites:
        return False
    places = [place for place, root in enumerate(new.written) if root in shared]
    is_subject = frozenset(map(stem, new.people.actors & old.people.actors)) & shared
    if is_subject or not places or places[-1] - places[0] >= len(places):
        return False
    by_name = {family for family in seen.families if FAMILY_STEMS[family] & shared}
    attributes = {
        family
        for family in seen.families
        if family not in by_name or all(FAMILY_STEMS[family] & one.weights.keys() - shared for one in (new, old))
    }
    return not attributes and set(seen.clash) <= {"name"}


def _tells_the_same(new: Span, seen: Evidence) -> bool:
    """Whether the newer one only says what is so now, and the older one told nothing else.

    "I'm now in the choir" after "I've joined the choir".
    """
    says_state = "change" in seen.cues and _says_what_is_so(new, seen)
    return says_state and not (seen.clash or seen.other_state or seen.concerned or seen.restates)


def _says_what_is_so(new: Span, seen: Evidence) -> bool:
    """Whether nothing but "now" and the like tells a change."""
    is_state = "change" not in seen.cues or new.change.phrases.get("change") in STATES
    return is_state and seen.cues - _IS_SO <= {"change"}


def _is_of_one_time(new: Span, old: Span, seen: Evidence) -> bool:
    """Whether the newer one moves or ends one time of what comes again: "the November meeting is cancelled"."""
    now, before, said = new.recurrence, old.recurrence, new.change.phrases.get("change", "")
    if before.one_day and not before.comes_again and now.comes_again and seen.timed_clash:
        return True  # "no lunch this Thursday" is over by itself
    if now.one_time and said == "instead" and not seen.clash:
        return True  # "pool closed tonight, go to the library instead"
    if not before.comes_again or now.comes_again:
        return False
    # "Too rough for a swim, we ate limpets instead" and "No quiz for me tonight" are of that day.
    of_that_day = now.one_time and said.startswith("no ") and said.endswith((" for me", " for us"))
    if seen.cues & TELLING == _CHANGE and not seen.timed_clash and (said == "instead" or of_that_day):
        return True
    lasting = seen.cues & _LASTING
    if lasting == _CHANGE and said == "instead":
        lasting = _NO_CUES  # "no yoga today, I ate cake instead"
    return now.one_time and not lasting


def _ends_what_happened(old: Span, seen: Evidence) -> bool:
    """Whether what the newer one says to be over or different is in the older one only as part of an event.

    That the car is gone changes nothing of the day on which paddles were sold off its back.
    """
    if not seen.cues & TELLING or seen.cues & TELLING - _ENDS or seen.other_state or seen.cites:
        return False
    if not _MANY_HAVE.issuperset(seen.clash):
        return False
    about = seen.changed.intersection(seen.strong) or frozenset(seen.strong)
    return bool(about) and about <= old.happened


def _renews(new: Span, old: Span, seen: Evidence, near: Nearness) -> bool:
    """Whether the nearest text is of what the newer one calls new: "new fluid protocol, number 4"."""
    is_same = bool(new.change.renewed) and near.rank == 1 and new.change.renewed <= old.weights.keys()
    return is_same and (bool(seen.clash) or len(seen.things) > 1)


def _subject_weight(new: Span, seen: Evidence, near: Nearness, *, replaces: bool) -> float:
    """Whether both are about the same thing."""
    z = 0.8 * min(seen.subject, 2.5) + 0.8 * seen.likeness
    z += 0.3 * min(len(seen.families), 2) + (0.5 if seen.functional or seen.other_state else 0.0)
    if not (seen.told or seen.functional or seen.cites or seen.other_state or replaces):
        ends = "end" in seen.cues and bool(seen.strong) and near.is_first
        z -= 0.3 if seen.concerned or seen.timed_clash or ends else 0.9
    is_near = near.cosine is None or (near.rank is not None and near.rank <= _NEAR)
    moved = "shift" in seen.cues and bool(seen.told) and (is_near or seen.timed_clash)
    same_place = near.rank is not None and near.rank <= 2 and near.cosine is not None and near.cosine >= _ALIKE
    sure = seen.functional or seen.cites or seen.concerned or seen.other_state
    if not (sure or moved or same_place or replaces or seen.likeness >= _RESTATES):
        z -= 0.7
    if seen.functional and seen.functional <= NEED_A_SUBJECT and not seen.things and not seen.cites:
        z -= 0.0 if near.rank == 1 and "secret" not in seen.functional else 0.8
    return z


def _change_weight(new: Span, old: Span, seen: Evidence, near: Nearness) -> float:
    """Whether the newer one says that something is new, or tells another value."""
    z = 0.35 * min(len(seen.clash) + seen.other_state, 2) + (0.4 if _restated(new, old, seen) else 0.0)
    if not seen.cues & TELLING and not _tells_otherwise(new, old, seen, near):
        z -= 1.5
    if new.once and not seen.cues & TELLING:
        z -= 0.6
    if "shift" in seen.cues and seen.told and seen.timed_clash:
        z += 0.6
    if "handover" in seen.cues and not seen.concerned and not old.posts.is_role:
        z -= 0.5
    if new.change.adds and not seen.cues & {"change", "switch", "end", "handover"}:
        z -= 1.2
    z += 1.3 * (seen.cites or seen.corrects)
    return z + 0.9 * seen.concerned + 1.2 * (seen.concerned and old.posts.is_role)


def _restated(new: Span, old: Span, seen: Evidence) -> bool:
    return seen.restates and seen.likeness >= _LEAST_SHARED and not (new.once or old.once)


def _tells_otherwise(new: Span, old: Span, seen: Evidence, near: Nearness) -> bool:
    """Whether it tells another value of the same thing, or says of the very same thing what is so now."""
    if new.change.wishes:
        return False  # the value may be what is wished for
    if seen.other_state:
        return True
    if _restated(new, old, seen) and seen.things:
        return True
    if _renews(new, old, seen, near):
        return True
    same = bool(seen.told or seen.functional - NEED_A_SUBJECT)
    return "present" in seen.cues and same and bool(seen.clash) and near.is_first


def _strongest(cues: frozenset[CueKind] | set[CueKind]) -> CueKind | None:
    return max(cues, key=lambda cue: _CUE[cue], default=None)
