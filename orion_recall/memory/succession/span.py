"""What a reading holds: a memory and its spans, each with its subject words, values, actors and cues of change."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from orion_recall.memory.told_changes.clauses import CANCELS, Heard
from orion_recall.memory.told_changes.codes import Codes
from orion_recall.memory.told_changes.endings import Aims
from orion_recall.memory.told_changes.occurrences import Habit
from orion_recall.memory.told_changes.plans import Plan
from orion_recall.memory.told_changes.posts import Handed, Thing
from orion_recall.memory.told_changes.statements import Statement
from orion_recall.memory.told_changes.thing_places import Placed
from orion_recall.memory.told_changes.word_lists import CueKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A part of a text: its subject words with their weights, families, values by type, and cues of change.

    `changed` are the stems of what the sentences say a change of (`changed_in`); `replaced` the values that are
    named as those before ("0.86 instead of 0.79"), `corrected` such times by type ("not Mondays"). `wishes`: it
    tells a wish, too. `phrases` are those of the cues, and `written` the words by their stems, both as they are
    written. `headed` and `taken` are the stems of what somebody heads, and of what somebody takes over; `handed`
    is what somebody hands on to another, `habits` what comes again, with its pace, `placed` things with their
    places, `lent` the stems of what was lent and to whom, and `returned` those of things that came back.
    `qualified` are the stems of whose post or rent is meant (`qualified_in`), `named_after` the
    names of what things are of, `surnames` the names after a name. `happened` are the stems of what it tells in no
    other way than as having happened, `ending` those of the subjects of its ends, None where one is not known,
    and `moving` those of what is moved to another time. `comes_again`: it tells of
    what is every week or so; `one_time`: of one time of something.
    """

    weights: Mapping[str, float]
    families: frozenset[str]
    values: Mapping[str, frozenset[str]]
    cues: frozenset[CueKind]
    adds: bool
    actors: frozenset[str]
    leaving: frozenset[str]
    renewed: frozenset[str]
    kin: frozenset[str]
    kin_of_others: frozenset[str]
    owned: bool
    names: frozenset[str]
    named: frozenset[str]
    addresses: bool
    once: bool
    role: bool
    changed: frozenset[str]
    changed_besides: frozenset[str]
    replaced: frozenset[str]
    corrected: Mapping[str, frozenset[str]]
    left: frozenset[str]
    aims: Aims
    wishes: bool
    phrases: Mapping[Heard, str]
    written: Mapping[str, str]
    headed: frozenset[Thing]
    taken: frozenset[Thing]
    handed: Handed | None
    habits: tuple[Habit, ...]
    placed: tuple[Placed, ...]
    lent: frozenset[str]
    returned: frozenset[str]
    statements: tuple[Statement, ...]
    plan: Plan
    qualified: frozenset[str]
    may_tell_price: bool
    comes_again: bool
    one_time: bool
    one_day: bool
    named_after: Mapping[str, frozenset[str]]
    happened: frozenset[str]
    codes: Codes
    ending: frozenset[str] | None
    moving: frozenset[str]
    surnames: Mapping[str, frozenset[str]]

    @property
    def cancels(self) -> bool:
        """Whether it says that something is cancelled."""
        return self.phrases.get("end", "").partition(" ")[0] in CANCELS


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """One memory, read: its spans, its speaker and time (epoch seconds), and what it must not be compared for."""

    id: str
    tenant: str
    speaker: str
    at: float | None
    text_hash: str
    spans: tuple[Span, ...]
    whole: Span
    asks: bool
    assistant: bool
    terms: frozenset[str] = field(default_factory=frozenset[str])

    @property
    def first_name(self) -> str:
        """The first word of the speaker's name, "" without a speaker."""
        return next(iter(self.speaker.split()), "")
