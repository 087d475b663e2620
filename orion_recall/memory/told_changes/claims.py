"""What a text tells only as having happened: the events of a day, in which nothing is had, planned or done again.

Only what somebody has, plans or does again can end. "Sold three paddles off the back of the car" claims no car, and
what happened on that day stays as it was when the car is gone.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from orion_recall.memory.told_changes.occurrences import comes_again
from orion_recall.memory.told_changes.terms import stem
from orion_recall.text.normal import STOP_WORDS, without_possessive
from orion_recall.when.direction import tells_nothing, tells_only_past

# What began with these goes on: who joined a choir is in it.
_BEGINNINGS: Final = frozenset(
    """
        joined started began became hired adopted opened married rented leased subscribed installed inherited took
        taken chose chosen picked switched hung kept left gave given learnt learned built planted found hooked
        borrowed lent employed founded settled
    """.split()
)
_GOES_ON: Final = frozenset("this that these those it it's he she they his her their him them".split())
_DAYS: Final = frozenset("day night evening afternoon morning weekend trip party outing".split())
_MOST_OF_HEADING = 6
_OF_DAY: Final = frozenset("today tonight yesterday".split())
_OF_THIS: Final = frozenset("morning afternoon evening".split())


def happened_in(stated: Sequence[Sequence[str]], folded: str) -> frozenset[str]:
    """The stems of what the sentences, each as its folded words, tell in no other way than as having happened."""
    if comes_again(folded):
        return frozenset()
    of_a_day = bool(stated) and _heads_a_day(stated[0])
    over, lasting = set[str](), set[str]()
    for said in stated:
        stems = {stem(without_possessive(word)) for word in said if word not in STOP_WORDS}
        is_of_day = of_a_day or _is_of_day(said)
        if "today's" in said or _only_happened(said) or (is_of_day and tells_nothing(said)):
            over |= stems
            continue
        lasting |= stems
        if not _GOES_ON.isdisjoint(said):
            lasting |= over  # "It took three tries to start. I love that car."
    return frozenset(over - lasting)


def _only_happened(said: Sequence[str]) -> bool:
    return tells_only_past(said) and _BEGINNINGS.isdisjoint(said)


def _is_of_day(said: Sequence[str]) -> bool:
    """Whether the sentence tells of the day on which it was said: "Pam is at the till this morning"."""
    return not _OF_DAY.isdisjoint(said) or any(
        first == "this" and second in _OF_THIS for first, second in pairwise(said)
    )


def _heads_a_day(said: Sequence[str]) -> bool:
    """Whether the sentence names what kind of day it was, and says no more: "Moving day"."""
    return len(said) <= _MOST_OF_HEADING and not _DAYS.isdisjoint(said) and tells_nothing(said)
