"""How much is read of a row of a store of others: about as much as an own memory may hold."""

from __future__ import annotations

from collections.abc import Iterable

from orion_recall.contracts.memory import MAX_TEXT_CHARS
from orion_recall.text.normal import storable

MOST_TEXT = MAX_TEXT_CHARS
# Of a title or an address. An id that is longer is none: cut, two could be one.
MOST_LINE = 4096
# Of a tag, a speaker, a kind, and of whom or what a row belongs to.
MOST_NAME = 512
MOST_TAGS = 256


def tags_of(values: Iterable[object]) -> tuple[str, ...]:
    """The first tags, as text; what is empty is none."""
    tags: list[str] = []
    for value in values:
        if len(tags) == MOST_TAGS:
            break
        if value is not None and value != "":
            tags.append(storable(str(value)[:MOST_NAME]))
    return tuple(tags)
