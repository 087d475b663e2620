"""The names that a question leaves to what was said before it.

names_in_context("Mira moved to Bergen.\\nThat is far.", ("when", "did", "she", "move"), ()) -> ("Bergen", "Mira")
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from orion_recall.memory.extraction.sentences import read_sentences
from orion_recall.models.language import DEFAULT, Language
from orion_recall.recall.understand.entities import NamedEntity

# Where English points to somebody or something that was named before.
_POINTING = frozenset(
    "he him his she her hers it its they them their theirs there then that this those these one ones".split()
)
_READ_CHARS = 2_000
_MOST_NAMES = 3


def names_in_context(
    context: str | None,
    said: Sequence[str],
    named: Collection[NamedEntity],
    known: Collection[str] = (),
    *,
    language: Language = DEFAULT,
) -> tuple[str, ...]:
    """At most three names, those said last first; none where the question has a name or points to nothing.

    `said` are the folded words of the question, `named` its own names, `known` names in its scope. Of the context
    the last 2,000 characters are read; English only.
    """
    if not context or named or language != DEFAULT or _POINTING.isdisjoint(said):
        return ()
    names: dict[str, str] = {}
    for sentence in reversed(list(read_sentences(context[-_READ_CHARS:], known))):
        for unit in reversed(sentence.units):
            if unit.kind == "name":
                names.setdefault(unit.folded, unit.text)
    return tuple(names.values())[:_MOST_NAMES]
