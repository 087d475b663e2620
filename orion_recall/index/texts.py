"""Texts of a memory in the index: what is embedded, whole or in passages, and what is indexed by keyword.

Date and speaker belong in both: "what did Ana say in May?" is asked of them as much as of the text. A turn is
often only understood with the one before it ("Yes, on Friday!"), so a second keyword form holds both.

A memory longer than the embedding model sees has its first passage in its own point and a point for each of the
others, with the memory's key, its scope and vectors. Those belong to a tenant of their own, so that only searches
by vectors of memories, which ask for both tenants, find or count them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from itertools import chain
from typing import Any, Final

from orion_recall.foreground import FOREGROUND
from orion_recall.text.normal import in_usual_forms
from orion_recall.text.passages import MOST_PASSAGES, Span, passages
from orion_recall.values import Change, Memory, MemoryView

OF: Final = "of"
"""The field of a passage's point that has the key of its memory."""

MOST_TEXTS: Final = 256
"""Texts that are embedded and written in one go, unless a memory alone has more."""

_IS_PASSAGE: Final = 1 << 63
_NUMBERS: Final = (1 << 5) - 1
# Characters that are cut within some milliseconds; for more of them the loop, where recalls wait, is left.
_ON_THE_LOOP: Final = 50_000
_AT_A_TIME: Final = 4
# More say less of each, and leave less of the model's window to the text.
_MOST_TAGS: Final = 8
# U+FFFD is in no tenant's name.
_TENANT: Final = "\ufffdpassages of "
_SCOPE: Final = ("session", "user", "agent", "run", "speaker", "kind", "tags", "ts", "told")

Found = Sequence[tuple[int, float]]
"""Points found by a dense search, best first: key and score."""


def dense_head(memory: Memory | MemoryView, restated: str | None = None) -> str:
    """What is embedded before the text, or before each passage of it: who said it and when, its first tags, its
    title, and the text restated with the names and days that it leaves open."""
    said = ", ".join(part for part in (memory.speaker, _day(memory.ts), *memory.tags[:_MOST_TAGS]) if part)
    return "".join(f"{part}: " for part in (said, memory.title, restated) if part)


def dense_form_of_view(memory: MemoryView) -> str:
    """The text that is embedded of a memory that no index holds: as of one that is embedded as a whole."""
    return in_usual_forms(dense_head(memory) + memory.text)


def keyword_form(memory: Memory) -> str:
    """The text whose words are indexed."""
    day = _day(memory.ts)
    kind = memory.kind if memory.kind_confidence is None else None
    parts = (memory.title, memory.speaker, day, memory.text, memory.restated, " ".join(memory.tags), kind)
    return " ".join(part for part in parts if part)


def context_form(change: Change) -> str:
    """The keyword form of a turn with the texts of its neighbours."""
    beside = [turn.text for turn in (change.previous, change.following) if turn is not None]
    return " ".join((keyword_form(change.memory), *beside))


@lru_cache(maxsize=1024)
def _day(moment: float | None) -> str | None:
    if moment is None:
        return None
    try:
        when = datetime.fromtimestamp(moment, UTC)
    except (OverflowError, ValueError, OSError):
        return None
    return f"{when.day} {when:%B} {when.year}"


def tenants_of(tenant: str) -> tuple[str, str]:
    """The tenant of the memories, and that of their further passages."""
    return tenant, _TENANT + tenant


def passage_key(memory: int, number: int) -> int:
    """The key of a passage's point; that of the memory for the first passage."""
    # The last five of a memory's 63 bits give way to the number, and a 64th says what it is.
    return memory if number == 0 else _IS_PASSAGE | (memory & ~_NUMBERS) | number


def _memory(key: int) -> int:
    """The memory that a point belongs to, to be compared: its key without the last five bits."""
    return key & ~(_IS_PASSAGE | _NUMBERS)


def spans_of(memory: Memory) -> tuple[Span, ...]:
    """The passages of a memory's text; none where it is embedded as a whole."""
    return _spans(memory.text, dense_head(memory, memory.restated))


# Kept for as long as one page is written: they are asked for at several steps.
_spans = lru_cache(maxsize=MOST_TEXTS)(passages)


def dense_forms(memory: Memory) -> list[str]:
    """The texts that are embedded: one for each passage, one for a text that fits as a whole."""
    head, spans = dense_head(memory, memory.restated), spans_of(memory) or ((0, len(memory.text)),)
    return [in_usual_forms(head + memory.text[start:end]) for start, end in spans]


def flat(spans: Sequence[Span]) -> tuple[int, ...]:
    """The spans as a point's payload has them: starts and ends in turn."""
    return tuple(chain.from_iterable(spans))


def passage_payload(memory: int, payload: Mapping[str, Any]) -> dict[str, Any]:
    """The payload of a passage's point, by that of its memory."""
    scope = {name: payload[name] for name in _SCOPE if name in payload}
    return {"tenant": _TENANT + payload["tenant"], OF: memory} | scope


async def in_parts(changes: Sequence[Change]) -> list[Sequence[Change]]:
    """The changes in order, in parts of about `MOST_TEXTS` texts to embed: long ones are many texts each."""
    if sum(len(change.memory.text) for change in changes) <= _ON_THE_LOOP:
        return list(_parts(changes))
    return await asyncio.to_thread(lambda: list(_parts(FOREGROUND.throttled(changes, _AT_A_TIME))))


def _parts(changes: Iterable[Change]) -> Iterator[list[Change]]:
    part, texts = list[Change](), 0
    for change in changes:
        more = max(1, len(spans_of(change.memory))) if change.memory.is_live else 1
        if texts and texts + more > MOST_TEXTS:
            yield part
            part, texts = [], 0
        part.append(change)
        texts += more
    yield part


class MemorySearch:
    """Dense searches for memories among all their passages, of one index."""

    def __init__(self) -> None:
        self._points_each = 1  # points asked for each memory that is wanted: as many as the last search needed

    async def best(
        self,
        limit: int,
        search: Callable[[int], Awaitable[Found]],
        memories_of: Callable[[Sequence[int]], Awaitable[Mapping[int, int]]],
    ) -> list[tuple[int, float]]:
        """The first `limit` memories that `search` finds: key and best score, best first.

        `search` gives at most so many points, and is repeated with more as long as they are of too few memories.
        `memories_of` gives the memories of passages, by key, where only passages of one were found.
        """
        wanted = self._points_each * limit
        while len(best := _best(found := await search(wanted))) < limit and len(found) >= wanted:
            wanted *= 2
            self._points_each = max(self._points_each, min(wanted // limit, MOST_PASSAGES))
        first = list(best.values())[:limit]
        unknown = [key for key, _ in first if key & _IS_PASSAGE]
        memories: Mapping[int, int] = await memories_of(unknown) if unknown else {}
        return [(memories.get(key, key), score) for key, score in first]


def _best(found: Found) -> dict[int, tuple[int, float]]:
    """The best score of each memory, with its key, where that was found, or else that of its best passage."""
    best: dict[int, tuple[int, float]] = {}
    for key, score in found:
        memory = _memory(key)
        if memory not in best:
            best[memory] = key, score
        elif not key & _IS_PASSAGE:
            best[memory] = key, best[memory][1]
    return best


def points_of(keys: Sequence[int], numbers: Mapping[int, int]) -> dict[int, int]:
    """The keys of the memories by those of the points that are compared: of each the passage of that number."""
    if not numbers:
        return dict(zip(keys, keys, strict=True))
    return {passage_key(key, numbers.get(key, 0)): key for key in keys}


def nearest(found: Found, keys: Sequence[int]) -> dict[int, int]:
    """The number of the nearest passage of each memory of the keys, where that is not the first."""
    numbers: dict[int, int] = {}
    for key, _ in found:
        numbers.setdefault(_memory(key), key & _NUMBERS if key & _IS_PASSAGE else 0)
    return {key: number for key in keys if (number := numbers.get(_memory(key), 0))}
