"""Plans that come true: what a text says to be so now, whether it tells a plan, and what its amounts are of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from orion_recall.memory.told_changes.terms import families_of, stem
from orion_recall.memory.told_changes.values import WEEKDAYS
from orion_recall.memory.told_changes.word_lists import GENERAL_WORDS, Heard
from orion_recall.text.normal import STOP_WORDS, without_possessive
from orion_recall.when.vocabulary import MONTHS

_PLANNED: Final = frozenset(
    "signed booked reserved found will i'll we'll he'll she'll they'll plan plans planned planning move moves "
    "moving going".split()
)
_IS_SO: Final = frozenset(("present", "weak"))
_NOT: Final = frozenset("not no never nobody nothing none without used".split())


class Plan(NamedTuple):
    """What a text tells of plans and amounts, as stems.

    `now` are the stems of the sentences that say that something is so now, empty where one is negated or says
    another change as well. `planned`: the text tells a plan, and negates nothing. `priced` are the stems of the
    sentences that tell figures, without the words of a family, and `families` the families of those words.
    """

    now: frozenset[str]
    planned: bool
    priced: frozenset[str]
    families: frozenset[str]


def plan_of(stated: Sequence[Sequence[str]], phrases: Sequence[Mapping[Heard, str]]) -> Plan:
    """The plan of a text by its sentences, each as its folded words with its phrases of change."""
    now, priced, families, is_other = set[str](), set[str](), set[str](), False
    for said, heard in zip(stated, phrases, strict=True):
        if "present" in heard:
            is_other |= not heard.keys() <= _IS_SO or _negates(said)
            now |= _stems(said)
        if any(word[:1].isdigit() for word in said):
            for word, following in pairwise((*said, "")):
                found = families_of(without_possessive(word)) | families_of(word, following)
                families |= found
                if not found and not word[:1].isdigit():
                    priced |= _stems([word])
    planned = any(not _PLANNED.isdisjoint(said) for said in stated) and not any(map(_negates, stated))
    return Plan(frozenset(() if is_other else now), planned, frozenset(priced), frozenset(families))


def came_true(new: Plan, old: Plan, told: Mapping[str, float]) -> bool:
    """Whether the newer one says to be so now what the older one planned; `told` has the stems of the older one."""
    return len(new.now) > 1 and old.planned and new.now <= told.keys()


def is_of_another_amount(new: Plan, old: Plan) -> bool:
    """Whether the figures of the two are of different things: a rent of one, a deposit of another."""
    if not new.families | new.priced or not old.families | old.priced or not new.priced.isdisjoint(old.priced):
        return False
    # "It costs 900" tells no thing of its own: it may be of the other's.
    return new.families.isdisjoint(old.families) or bool(new.priced and old.priced)


def _negates(said: Sequence[str]) -> bool:
    return any(word in _NOT or word.endswith("n't") for word in said)


def _stems(said: Sequence[str]) -> set[str]:
    return {
        stem(without_possessive(word))
        for word in said
        if word not in STOP_WORDS
        and (word not in GENERAL_WORDS or word in WEEKDAYS or word in MONTHS or word[:1].isdigit())
    }
