"""Size limits of rows read from external stores: about the size of an own memory."""

from __future__ import annotations

from collections.abc import Iterable

from orion_recall.contracts.memory import MAX_TEXT_CHARS
from orion_recall.text.normal import storable

MOST_TEXT = MAX_TEXT_CHARS
# Of a title or an address. An id that is longer is none: cut, two could be one.
MOST_LINE = 4096
# For a tag, a speaker, a kind, a tenant, a session and a user.
MOST_NAME = 512
MOST_TAGS = 256


def tags_of(values: Iterable[object]) -> tuple[str, ...]:
    """The first tags, as text, without empty ones."""
    tags: list[str] = []
    for value in values:
        if len(tags) == MOST_TAGS:
            break
        if value is not None and value != "":
            tags.append(storable(str(value)[:MOST_NAME]))
    return tuple(tags)
