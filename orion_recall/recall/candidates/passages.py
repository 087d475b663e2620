"""The best passage of each candidate with a long text: it is compared, read for an answer, and shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from orion_recall.errors import ModelError, SourceError
from orion_recall.tasks import in_time
from orion_recall.text.passages import FIRST_PASSAGES
from orion_recall.values import MemoryView, Question


class FindsPassages(Protocol):
    """Finds the passages nearest to a question: see `sources.vector_lexical.NearestPassages`."""

    async def numbers(self, question: Question, tenant: str, keys: Sequence[int]) -> Mapping[int, int]: ...


async def nearest_passages(
    question: Question,
    tenant: str,
    keys: Sequence[int],
    found_by: FindsPassages | None,
    *,
    timeout_s: float,
    is_away: bool,
) -> Mapping[int, int]:
    """The numbers of the best passages, by key, where those are not the first. Raises nothing.

    An error or delay leaves the first passages. `is_away`: the index has just not answered, and is not asked again.
    """
    if found_by is None or is_away or not keys or timeout_s <= 0:
        return FIRST_PASSAGES
    try:
        return await in_time(found_by.numbers(question, tenant, keys), timeout_s)
    except (SourceError, ModelError, TimeoutError):
        return FIRST_PASSAGES


def with_passages(memories: Mapping[int, MemoryView], numbers: Mapping[int, int]) -> Mapping[int, MemoryView]:
    """The memories, each with the number of its best passage."""
    if not numbers:
        return memories
    return {
        key: memory._replace(passage=numbers[key]) if key in numbers else memory for key, memory in memories.items()
    }
