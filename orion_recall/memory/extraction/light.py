"""Light extraction: the names, the times and the plain statements of a text, with no model; and extractors.

A closed grammar of English statements; the same text gives the same result, in time linear in its length.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import NamedTuple, Protocol

from orion_recall.foreground import FOREGROUND
from orion_recall.memory.extraction.relations import UNKNOWN, Antecedent, find_statements
from orion_recall.memory.extraction.sentences import MAX_NAME_CHARS, read_sentences, squeezed
from orion_recall.values import Neighbour, Statement, TimeMention
from orion_recall.when.told import told_times

MAX_ENTITIES, MAX_STATEMENTS, MAX_TIMES = 24, 12, 12
# Of the turn before, what is nearest.
_MAX_KNOWN, _MAX_CONTEXT_CHARS = 64, 600


@dataclass(frozen=True, slots=True, kw_only=True)
class Extraction:
    """Entities as written, quoted ones first, then capitalised, then given, with both ends of every statement.

    `by` is the extractor, and `note` why it is not the chosen one. With `lacks_context` the turn before may tell
    whom a pronoun means. `restated` is the text in a sentence that is understood by itself, `replaces` the ids of
    shown memories that are true no more.
    """

    entities: tuple[str, ...] = ()
    statements: tuple[Statement, ...] = ()
    times: tuple[TimeMention, ...] = ()
    by: str = "light"
    note: str | None = None
    lacks_context: bool = False
    restated: str | None = None
    replaces: tuple[str, ...] = ()


class EarlierMemory(NamedTuple):
    """A memory of the same owner that was said before, at epoch seconds."""

    id: str
    text: str
    at: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Passage:
    """A text; `at`, in epoch seconds, is its own time, `known` names that are given, `previous` the turn before.

    An extractor that reads around it gets the turns before that one, too, oldest first, and `earlier` memories with
    names of the text, nearest first.
    """

    text: str
    speaker: str | None = None
    known: tuple[str, ...] = ()
    at: float | None = None
    previous: Neighbour | None = None
    before: tuple[Neighbour, ...] = ()
    earlier: tuple[EarlierMemory, ...] = ()

    @property
    def turns(self) -> tuple[Neighbour, ...]:
        """The turns before it, oldest first."""
        return self.before if self.previous is None else (*self.before, self.previous)


def light(passage: Passage, note: str | None = None) -> Extraction:
    """The names in a text, and what it plainly says about them; with a note why no other extractor read it.

    "I" and "we" are the speaker; "she" and "he" are the one person named before, in the text itself, else in the
    turn before it (`previous`), else its speaker. Names that are given (and the speaker) are recognised in lower
    case as well.
    """
    text, previous = passage.text, passage.previous
    given, voice = usable_names(passage.known)[:_MAX_KNOWN], usable_name(passage.speaker)
    antecedent = _antecedent(previous, voice)
    meant_before = antecedent.name
    quoted, capitalised, stated = dict[str, str](), dict[str, str](), dict[Statement, None]()
    for sentence in read_sentences(text, [*given, voice or ""]):
        for unit in sentence.units:
            found = quoted if unit.quoted else capitalised
            if unit.kind == "name" and len(found) < MAX_ENTITIES:
                found.setdefault(unit.folded, unit.text)
        if len(stated) < 2 * MAX_STATEMENTS:
            stated.update(dict.fromkeys(find_statements(sentence, voice, antecedent)))
        antecedent.read(sentence)
    ends = dict.fromkeys(end for edge in stated for end in (edge.subject, edge.object))
    lacks_context = previous is None and UNKNOWN in ends
    ends.pop(UNKNOWN, None)
    named = {*quoted, *capitalised}
    others = [end for end in ends if end.casefold() not in named and end not in (meant_before, voice, *given)]
    meant = [end for end in ends if end == meant_before]
    entities = choose_entities([*quoted.values(), *capitalised.values(), *others, *meant, *given], voice)
    return Extraction(
        entities=entities,
        statements=spelt(stated, entities),
        times=find_times(text, passage.at),
        note=None if note is None else note[:300],
        lacks_context=lacks_context,
    )


def find_times(text: str, at: float | None) -> tuple[TimeMention, ...]:
    """The times named in a text in its order; relative words of a memory without a time (`at`) name none."""
    try:
        said = None if at is None else datetime.fromtimestamp(at, UTC)
    except (OverflowError, ValueError, OSError):
        return ()
    return tuple(told_times(text, said, most=MAX_TIMES))


def usable_names(names: Iterable[str]) -> list[str]:
    return [name for name in map(squeezed, names) if 0 < len(name) <= MAX_NAME_CHARS]


def usable_name(name: str | None) -> str | None:
    return next(iter(usable_names([name or ""])), None)


def choose_entities(names: Iterable[str], voice: str | None) -> tuple[str, ...]:
    """The first names that differ in more than case; a place is kept for the speaker."""
    speaker = {} if voice is None else {voice.casefold(): voice}
    chosen: dict[str, str] = {}
    for name in names:
        if len(chosen) + len(speaker) == MAX_ENTITIES:
            break
        if name.casefold() not in speaker:
            chosen.setdefault(name.casefold(), name)
    return (*chosen.values(), *speaker.values())


def spelt(
    statements: Iterable[Statement], entities: Sequence[str], most: int = MAX_STATEMENTS
) -> tuple[Statement, ...]:
    """The first statements whose ends are entities, spelt like those."""
    spelling = {name.casefold(): name for name in entities}
    kept = dict.fromkeys(
        Statement(subject=subject, relation=one.relation, object=target)
        for one in statements
        if (subject := spelling.get(one.subject.casefold())) is not None
        and (target := spelling.get(one.object.casefold())) is not None
        and subject != target
    )
    return tuple(kept)[:most]


def _antecedent(previous: Neighbour | None, voice: str | None) -> Antecedent:
    antecedent = Antecedent(voice)
    if previous is None:
        return antecedent
    spoke = usable_name(previous.speaker)
    for sentence in read_sentences(previous.text[-_MAX_CONTEXT_CHARS:], [spoke or "", voice or ""]):
        antecedent.read(sentence)
    if antecedent.name == UNKNOWN and spoke is not None and spoke.casefold() != (voice or "").casefold():
        antecedent.name = spoke
    return antecedent


class Extractor(Protocol):
    """Finds what memories say. Every passage is answered in its place, if need be by light extraction.

    `at_once` calls may run side by side, each with `batch` passages; one longer than `longest_s` counts as gone.
    """

    @property
    def name(self) -> str: ...
    @property
    def at_once(self) -> int: ...
    @property
    def batch(self) -> int: ...
    @property
    def longest_s(self) -> float: ...

    async def extract(self, passages: Sequence[Passage]) -> list[Extraction]: ...


class LightExtractor:
    """Extraction by rules and word lists (`light`), with the turn before, which is not known when one is stored."""

    name, at_once, batch, longest_s = "light", 1, 50, 60.0

    async def extract(self, passages: Sequence[Passage]) -> list[Extraction]:
        return await asyncio.to_thread(lambda: [light(one) for one in FOREGROUND.throttled(passages, 4)])
