"""What a reading holds: a memory and its spans, each with its subject words, values, actors and cues of change."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from orion_recall.memory.told_changes.actors import People
from orion_recall.memory.told_changes.change import Change
from orion_recall.memory.told_changes.codes import Codes
from orion_recall.memory.told_changes.occurrences import Recurrence
from orion_recall.memory.told_changes.plans import Plan
from orion_recall.memory.told_changes.posts import Posts
from orion_recall.memory.told_changes.statements import Statement
from orion_recall.memory.told_changes.thing_places import Things


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A part of a text, by what it tells.

    `weights` are those of its subject words, by their stems; `families` are theirs, `values` what it tells by type,
    and `written` the words by their stems as they are written. `names` are the stems of names, `named` the names
    themselves with that of a speaker who presents himself, and `named_after` the names of what things are of.
    `happened` are the stems of what it tells in no other way than as having happened. `once`: it tells of a
    transaction.
    """

    weights: Mapping[str, float]
    families: frozenset[str]
    values: Mapping[str, frozenset[str]]
    written: Mapping[str, str]
    names: frozenset[str]
    named: frozenset[str]
    named_after: Mapping[str, frozenset[str]]
    change: Change
    people: People
    posts: Posts
    recurrence: Recurrence
    things: Things
    codes: Codes
    statements: tuple[Statement, ...]
    plan: Plan
    happened: frozenset[str]
    once: bool


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
