"""Times and codes that the newer text tells in place of the older one's, with no word of a change."""

from __future__ import annotations

from collections.abc import Sequence

from orion_recall.memory.succession.nearness import Nearness
from orion_recall.memory.succession.span import Reading, Span
from orion_recall.memory.told_changes.codes import is_another_code
from orion_recall.memory.told_changes.terms import stem
from orion_recall.memory.told_changes.word_lists import CueKind

_NEAREST = 3
_ALIKE = 0.5
_NOTHING: frozenset[str] = frozenset()
_OTHER_TIME: frozenset[CueKind] = frozenset(("change", "shift", "switch"))
_ADDING = frozenset(map(stem, ("adding", "added", "extra", "joining")))


def corrected_kinds(new: Span, old: Span, one: Reading, strong: Sequence[str]) -> list[str]:
    """The types of times that the newer one tells in place of the older one's, of the same thing.

    "We rehearse on Wednesdays, not Tuesdays" is of the speaker's own Tuesdays; naming the choir, it is of others'.
    """
    if old.recurrence.comes_again and not new.recurrence.comes_again:
        return []
    things = set(strong)
    if new.people.are_others(old.people):
        said = list(new.written)
        if "i" in said or "we" not in said or not new.people.actors <= {one.first_name}:
            return []
        things -= {*said[said.index("we") + 1 :][:1]}  # "we swim": others swim as well
    corrected = new.change.corrected
    kept = [kind for kind, had in corrected.items() if had & old.values.get(kind, _NOTHING)]
    return [kind for kind in kept if things and not (new.values[kind] - corrected[kind]) & old.values[kind]]


def is_other_code(
    new: Span, old: Span, one: Reading, other: Reading, near: Nearness, strong: Sequence[str]
) -> bool:
    """Whether the newer one tells another number of a telephone or a lock, and not for today only."""
    if new.codes.for_today or old.codes.for_today or (near.rank is not None and near.rank > _NEAREST):
        return False
    of_one = bool(one.first_name) and (one.speaker == other.speaker or stem(one.first_name) in old.written)
    return is_another_code(new.codes, old.codes, of_one=of_one, shares=bool(strong))


def is_other_weekday(
    new: Span,
    old: Span,
    one: Reading,
    other: Reading,
    near: Nearness,
    *,
    strong: Sequence[str],
    clash: Sequence[str],
) -> bool:
    """Whether one speaker tells other days of the week, or another hour on them, of what is nearest in meaning.

    "We keep our supervision on Wednesdays at 11" and then "The council eats my Wednesdays. Mondays 9:30 then."
    """
    if near.rank != 1 or near.cosine is None or near.cosine < _ALIKE or {"weekday", "clock"}.isdisjoint(clash):
        return False
    if one.speaker != other.speaker or not one.speaker or new.change.adds:
        return False
    if new.recurrence.one_time or old.recurrence.one_time:
        return False
    days, before = new.values.get("weekday", _NOTHING), old.values.get("weekday", _NOTHING)
    if not days or not before or new.values.get("date") or old.values.get("date"):
        return False
    if not (strong or new.change.cues & _OTHER_TIME) and before.isdisjoint(days):
        return False  # the choir's Sundays after the packer's Mondays
    return (
        _ADDING.isdisjoint(new.written)
        and _ADDING.isdisjoint(old.written)
        and not frozenset(map(stem, before)) <= old.happened
    )
