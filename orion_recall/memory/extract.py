"""Light extraction: the names and the plain statements of a text, with no model.

Rules and closed word lists only, English statements; the same text gives the same result, in time linear in
its length.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from orion_recall.memory.relations import find_statements
from orion_recall.memory.units import MAX_NAME_CHARS, read_sentences, squeezed
from orion_recall.values import Statement

MAX_ENTITIES = 24
MAX_STATEMENTS = 12
_MAX_KNOWN = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Extraction:
    """Entities as written, quoted ones first, then capitalised, then given; the speaker is one of them.

    Both ends of every statement are among the entities.
    """

    entities: tuple[str, ...] = ()
    statements: tuple[Statement, ...] = ()


def extract(text: str, speaker: str | None = None, given_entities: Sequence[str] = ()) -> Extraction:
    """The names in a text, and what it says about them in words of a closed list.

    At most 24 entities of 80 characters and 12 statements. "I" and "we" are the speaker. Names that are
    given (and the speaker) are recognised in lower case as well; two spellings that differ in case are one
    entity, spelt as it comes first in the order above.
    """
    given = _usable(given_entities)[:_MAX_KNOWN]
    voice = _usable([speaker])[0] if speaker is not None and _usable([speaker]) else None
    quoted: dict[str, str] = {}
    capitalised: dict[str, str] = {}
    stated: dict[Statement, None] = {}
    for sentence in read_sentences(text, [*given, *_usable([voice or ""])]):
        for unit in sentence.units:
            found = quoted if unit.quoted else capitalised
            if unit.kind == "name" and len(found) < MAX_ENTITIES:
                found.setdefault(unit.text.casefold(), unit.text)
        if len(stated) < 2 * MAX_STATEMENTS:
            stated.update(dict.fromkeys(find_statements(sentence, voice)))
    entities = _choose([*quoted.values(), *capitalised.values(), *given], voice)
    return Extraction(entities=entities, statements=_spelt(stated, entities))


def _usable(names: Iterable[str]) -> list[str]:
    squeezed_names = [squeezed(name) for name in names]
    return [name for name in squeezed_names if 0 < len(name) <= MAX_NAME_CHARS]


def _choose(names: Iterable[str], voice: str | None) -> tuple[str, ...]:
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


def _spelt(statements: Iterable[Statement], entities: Sequence[str]) -> tuple[Statement, ...]:
    """The first statements whose ends are entities, spelt like those."""
    spelling = {name.casefold(): name for name in entities}
    kept: dict[Statement, None] = {}
    for statement in statements:
        subject = spelling.get(statement.subject.casefold())
        target = spelling.get(statement.object.casefold())
        if subject is not None and target is not None and subject != target:
            kept[Statement(subject=subject, relation=statement.relation, object=target)] = None
    return tuple(kept)[:MAX_STATEMENTS]
