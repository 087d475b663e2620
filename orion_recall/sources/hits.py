"""What hits of several sources share: ids, keys and size limits of external memories; damaged copies."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice

from orion_recall.contracts.memory import MAX_TEXT_CHARS
from orion_recall.errors import PartialSourceError
from orion_recall.interfaces import Copy
from orion_recall.text.normal import number_of, storable
from orion_recall.values import Hit


def cited_id(store: str, own_id: str) -> str:
    """The cited id of a memory in a mapped store: `notes:0`. A store's name has no colon."""
    return f"{store}:{own_id}"


def mapped_key(store: str, tenant: str, own_id: str) -> int:
    """The key of a memory in a mapped store, which no memory of the service's own index has."""
    return number_of(f"mapped\x1f{store}\x1f{tenant}", own_id)


MOST_TEXT = MAX_TEXT_CHARS
# Of a title or an address. An id that is longer is none: cut, two could be one.
MOST_LINE = 4096
# For a tag, a speaker, a kind, a tenant, a session and a user.
MOST_NAME = 512
MOST_TAGS = 256


def tags_of(values: Iterable[object]) -> tuple[str, ...]:
    tags = (storable(str(value)[:MOST_NAME]) for value in values if value is not None and value != "")
    return tuple(islice(tags, MOST_TAGS))


def whole(hits: Sequence[Hit], copy: Copy) -> Sequence[Hit]:
    """The hits. PartialSourceError with them where the copy that they are from is damaged, or behind."""
    if copy.damage is not None:
        raise PartialSourceError(f"the {copy.kind} is damaged: {copy.damage}", hits)
    if copy.stalled is not None:
        raise PartialSourceError(f"the {copy.kind} is behind, and is not written: {copy.stalled}", hits)
    return hits
