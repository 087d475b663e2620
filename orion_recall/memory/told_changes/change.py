"""What a text says to be new, over, moved or left: its phrases of change, and what they are about."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Final

from orion_recall.memory.told_changes.clauses import (
    CANCELS,
    changed_in,
    first_phrases,
    left_in,
    shift_phrase,
    up_to_change,
    without_absences,
)
from orion_recall.memory.told_changes.endings import Aims, aims_of
from orion_recall.memory.told_changes.stated import Stated
from orion_recall.memory.told_changes.terms import stem
from orion_recall.memory.told_changes.values import clock_value, corrected_in, may_tell_price
from orion_recall.memory.told_changes.what_ends import heads_of_ends, things_moved
from orion_recall.memory.told_changes.wishes import is_wish
from orion_recall.memory.told_changes.word_lists import NEW, CueKind, Heard
from orion_recall.text.normal import STOP_WORDS, words

_INSTEAD: Final = re.compile(r"\b(?:instead of|rather than|up from|down from) (?:[€$£]\s?)?(?P<value>\d[\d.,:]*)")
_CLOCK: Final = re.compile(r"\d{1,2}(?::\d\d)?")
_ARRIVES: Final = frozenset("came comes arrived arrives starts started works runs went goes got gets".split())
_KNOWN: Final = frozenset("the that this your his her their its".split())
_MOST_RENEWED: Final = 3
_NOTHING: Final = frozenset[str]()


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """The change that a text says.

    `cues` are the kinds of its phrases of change, `phrases` these as they are written. `adds`: something comes
    beside what was there. `subjects` are the stems of what the sentences say a change of (`changed_in`),
    `subjects_besides_ends` the same without what is only over. `renewed` are the stems of what is called new,
    `left` the words of what is left, `ending` the stems of the subjects of its ends, None where one is not known,
    and `moving` those of what is moved to another time. `replaced` are the values that are named as those before
    ("0.86 instead of 0.79"), `corrected` such times by type ("not Mondays"). `wishes`: it tells a wish, too.
    """

    cues: frozenset[CueKind]
    phrases: Mapping[Heard, str]
    adds: bool
    aims: Aims
    subjects: frozenset[str]
    subjects_besides_ends: frozenset[str]
    renewed: frozenset[str]
    left: frozenset[str]
    ending: frozenset[str] | None
    moving: frozenset[str]
    replaced: frozenset[str]
    corrected: Mapping[str, frozenset[str]]
    wishes: bool
    may_tell_price: bool

    @property
    def cancels(self) -> bool:
        """Whether it says that something is cancelled."""
        return self.phrases.get("end", "").partition(" ")[0] in CANCELS

    @property
    def leaves(self) -> bool:
        """Whether it says that somebody leaves, or hands something over."""
        return "leaves" in self.phrases or "handover" in self.cues

    def contradicts(self, values: Mapping[str, frozenset[str]]) -> bool:
        """Whether what is named as the value before ("0.86 instead of 0.79") is none of an older text's values."""
        told = _NOTHING.union(*(values.get(kind, _NOTHING) for kind in ("money", "number", "date")))
        clocks = {clock_value(*one.split(":")) for one in self.replaced if _CLOCK.fullmatch(one)}
        return bool(self.replaced) and self.replaced.isdisjoint(told) and clocks.isdisjoint(values.get("clock", ()))


def change_in(folded: str, said: Sequence[str], stated: Stated, *, hands_over: bool) -> Change:
    """The change of a folded text, whose words are `said`. `hands_over`: somebody gets another's post."""
    phrases, aims = first_phrases(stated.phrases), aims_of(stated.words, stated.phrases)
    if "shift" in phrases and (of_new_time := shift_phrase(stated.texts)) is not None:
        phrases["shift"] = of_new_time
    heard: frozenset[Heard] = frozenset((*phrases, "handover")) if hands_over else frozenset(phrases)
    parts = up_to_change(stated.texts)
    of_parts = stated.words if parts == stated.texts else [words(without_absences(one)) for one in parts]
    # Read a second time only where somebody leaves: nothing else asks for it.
    besides_ends = changed_in(stated.words, besides="end") if aims.departing else ()
    return Change(
        cues=frozenset(one for one in heard if one != "adds" and one != "leaves"),
        phrases=phrases,
        adds="adds" in heard,
        aims=aims,
        subjects=frozenset(map(stem, changed_in(of_parts))),
        subjects_besides_ends=frozenset(map(stem, besides_ends)),
        renewed=_renewed(said),
        left=left_in(folded),
        ending=heads_of_ends(stated.texts, [one.get("end", "") for one in stated.phrases]),
        moving=things_moved(stated.words, [one.get("shift", "") for one in stated.phrases]),
        replaced=frozenset(one["value"].rstrip(".,:") for one in _INSTEAD.finditer(folded)),
        corrected=corrected_in(stated.texts) if "not" in said else {},
        wishes=is_wish(folded),
        may_tell_price=may_tell_price(folded),
    )


def _renewed(said: Sequence[str]) -> frozenset[str]:
    """The stems of what is called new: "a new mobile number". "The new flat" is known already."""
    found: set[str] = set()
    for before, (place, word) in zip(("", *said), enumerate(said), strict=False):
        if word in NEW and before not in _KNOWN:
            named = takewhile(
                lambda one: one not in STOP_WORDS and one not in _ARRIVES,
                said[place + 1 : place + 1 + _MOST_RENEWED],
            )
            found.update(map(stem, named))
    return frozenset(found)
