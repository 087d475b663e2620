"""Light extraction: the names, the times and the plain statements of a text, with no model.

Rules and closed word lists only, English statements; the same text gives the same result, in time linear in
its length.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from orion_recall.memory.extraction.persons import UNKNOWN, Persons
from orion_recall.memory.extraction.relations import find_statements
from orion_recall.memory.extraction.times import find_times
from orion_recall.memory.extraction.units import MAX_NAME_CHARS, read_sentences, squeezed
from orion_recall.values import Neighbour, Statement, TimeMention

MAX_ENTITIES = 24
MAX_STATEMENTS = 12
_MAX_KNOWN = 64
# What is nearest to the turn after it.
_MAX_CONTEXT_CHARS = 600


@dataclass(frozen=True, slots=True, kw_only=True)
class Extraction:
    """Entities as written, quoted ones first, then capitalised, then given; the speaker is one of them.

    Both ends of every statement are among the entities. `by` is the extractor whose result it is, and `note` why
    it is not the one that was chosen. With `lacks_context` the turn before may tell whom a pronoun means.
    """

    entities: tuple[str, ...] = ()
    statements: tuple[Statement, ...] = ()
    times: tuple[TimeMention, ...] = ()
    by: str = "light"
    note: str | None = None
    lacks_context: bool = False


def extract(
    text: str,
    speaker: str | None = None,
    given_entities: Sequence[str] = (),
    *,
    at: float | None = None,
    previous: Neighbour | None = None,
) -> Extraction:
    """The names in a text, and what it says about them in words of a closed list.

    At most 24 entities of 80 characters and 12 statements. "I" and "we" are the speaker; "she" and "he" are the
    person named last, in the text itself, else in the turn before it (`previous`), else its speaker; "it" is the
    one thing that the sentence before names, "my sister" whoever was said to be that. Names that are given (and the
    speaker) are recognised in lower case as well; two spellings that differ in case are one entity, spelt as it
    comes first in the order above. `at`, in epoch seconds, is what "yesterday" is relative to.
    """
    given = usable_names(given_entities)[:_MAX_KNOWN]
    voice = next(iter(usable_names([speaker or ""])), None)
    persons = _persons_before(previous, voice)
    quoted: dict[str, str] = {}
    capitalised: dict[str, str] = {}
    stated: dict[Statement, None] = {}
    for sentence in read_sentences(text, [*given, *usable_names([voice or ""])]):
        for unit in sentence.units:
            found = quoted if unit.quoted else capitalised
            if unit.kind == "name" and len(found) < MAX_ENTITIES:
                found.setdefault(unit.text.casefold(), unit.text)
        if len(stated) < 2 * MAX_STATEMENTS:
            stated.update(dict.fromkeys(find_statements(sentence, voice, persons)))
    ends = {end for edge in stated for end in (edge.subject, edge.object)}
    # Whom a pronoun means may be named in the turn before only.
    meant = sorted(ends.intersection(persons.from_before)) if previous is not None else []
    named = {*quoted, *capitalised, *(name.casefold() for name in (*meant, *given, voice or ""))}
    # What no unit is: "the billing service", and the two names of "everyone calls Robert Bobo".
    other = [end for end in _ends_in_order(stated) if end.casefold() not in named and end != UNKNOWN]
    entities = choose_entities([*quoted.values(), *capitalised.values(), *other, *meant, *given], voice)
    return Extraction(
        entities=entities,
        statements=spelt(stated, entities),
        times=find_times(text, at),
        lacks_context=previous is None and UNKNOWN in ends,
    )


def _ends_in_order(statements: Iterable[Statement]) -> Iterator[str]:
    for statement in statements:
        yield statement.subject
        yield statement.object


def usable_names(names: Iterable[str]) -> list[str]:
    """Names on one line each, without those that are empty or too long."""
    squeezed_names = [squeezed(name) for name in names]
    return [name for name in squeezed_names if 0 < len(name) <= MAX_NAME_CHARS]


def choose_entities(names: Iterable[str], voice: str | None) -> tuple[str, ...]:
    """The first names that differ in more than case; a place is kept for the speaker."""
    chosen: dict[str, str] = {}
    if voice is not None:
        chosen[voice.casefold()] = voice
    for name in names:
        if len(chosen) == MAX_ENTITIES:
            break
        chosen.setdefault(name.casefold(), name)
    if voice is not None:
        chosen[voice.casefold()] = chosen.pop(voice.casefold())
    return tuple(chosen.values())


def _persons_before(previous: Neighbour | None, voice: str | None) -> Persons:
    """Whom the turn before was about."""
    if previous is None:
        return Persons(voice)
    spoke = next(iter(usable_names([previous.speaker or ""])), None)
    persons = Persons(spoke)
    for sentence in read_sentences(previous.text[-_MAX_CONTEXT_CHARS:], [spoke or "", voice or ""]):
        for _ in find_statements(sentence, spoke, persons):
            pass
    persons.follow(voice, turn_before=spoke)
    return persons


def spelt(
    statements: Iterable[Statement], entities: Sequence[str], most: int = MAX_STATEMENTS
) -> tuple[Statement, ...]:
    """The first statements whose ends are entities, spelt like those."""
    spelling = {name.casefold(): name for name in entities}
    kept: dict[Statement, None] = {}
    for statement in statements:
        subject = spelling.get(statement.subject.casefold())
        target = spelling.get(statement.object.casefold())
        if subject is not None and target is not None and subject != target:
            kept[Statement(subject=subject, relation=statement.relation, object=target)] = None
    return tuple(kept)[:most]
