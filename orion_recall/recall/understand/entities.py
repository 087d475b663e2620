"""The names in a question, found by the same rules as names in memories.

What is quoted comes first, then what has capitals, then what is known here and written in lower case.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Literal, NamedTuple

from orion_recall.memory.extraction.sentences import Unit, read_sentences
from orion_recall.models.language import DEFAULT, Language

EntityKind = Literal["quoted", "capitalised", "known"]

MOST_ENTITIES = 16
_READ_CHARS = 1_000
# German writes every noun with a capital.
_CAPITALS_SAY_NOTHING: Collection[Language] = ("german",)


class NamedEntity(NamedTuple):
    """A name as the question spells it, and the rule that found it."""

    name: str
    kind: EntityKind


def entities(text: str, known: Collection[str] = (), *, language: Language = DEFAULT) -> tuple[NamedEntity, ...]:
    """The names in the first 1,000 characters, each once whatever its case, at most 16, as they come in each kind.

    `known` are names that the text mentions and that are known in its scope, spelt as there: only they are found
    in lower case, and where capitals tell nothing (German) only they and what is quoted are found.
    """
    folded = {name.casefold(): name for name in known}
    found: dict[EntityKind, dict[str, str]] = {"quoted": {}, "capitalised": {}, "known": {}}
    text = text[:_READ_CHARS]
    with_capitals = language not in _CAPITALS_SAY_NOTHING
    units = list(_names(text, known))
    for unit in units:
        if unit.quoted:
            found["quoted"].setdefault(unit.folded, unit.text)
        elif with_capitals and not unit.text.islower():
            found["capitalised"].setdefault(unit.folded, unit.text)
    for unit in units if with_capitals else _names(text.lower(), known):
        if unit.folded in folded:
            found["known"].setdefault(unit.folded, folded[unit.folded])
    chosen: dict[str, NamedEntity] = {}
    for kind, names in found.items():
        for name, spelt in names.items():
            chosen.setdefault(name, NamedEntity(spelt, kind))
    return tuple(chosen.values())[:MOST_ENTITIES]


def _names(text: str, known: Collection[str]) -> Iterator[Unit]:
    for sentence in read_sentences(text, known, headings=False):
        yield from (unit for unit in sentence.units if unit.kind == "name")
