"""Memory in layers: a source that keeps to the scope it is given, and questions to it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from orion_recall.contracts.recall import CascadeStepV1
from orion_recall.interfaces import in_scope
from orion_recall.models.tokenizer import TokenCounter
from orion_recall.profile import Profile
from orion_recall.recall.cascade import CascadeRun
from orion_recall.recall.pipeline import Recalled, recall
from orion_recall.text.normal import memory_key
from orion_recall.values import Hit, MemoryView, SearchRequest, SourceName
from tests.samples.recall_fakes import NOW, profile, query, sources, view

DAY = 86_400.0


class LayeredSource:
    """Finds the memories that the scope lets it see; `slow` kinds take for ever."""

    def __init__(
        self, name: SourceName, found: Iterable[tuple[MemoryView, float]], *, slow: Iterable[str] = ()
    ) -> None:
        self.name: SourceName = name
        self.found = sorted(found, key=lambda one: -one[1])
        self.slow = frozenset(slow)
        self.requests: list[SearchRequest] = []

    async def search(self, request: SearchRequest) -> Sequence[Hit]:
        self.requests.append(request)
        if self.slow.intersection(request.scope.kinds):
            await asyncio.Event().wait()
        return [
            Hit(memory_key("default", memory.id), score)
            for memory, score in self.found
            if in_scope(memory, request.scope)
        ][: request.limit]


def of_kind(kind: str, *names: str, ts: float | None = NOW - DAY, **fields: Any) -> list[MemoryView]:
    return [view(name, kind=kind, ts=ts, **fields) for name in names]


FACTS_ALONE = {
    "sources": ["vector", "lexical"],
    "kinds": ["world", "observation"],
    "weight": 0.9,
    "then": ["episodic", "graph", "procedural"],
}


def cascading(*, layers: Mapping[str, Any] | None = None, **changes: Any) -> Profile:
    """A profile whose layers are apart from each other; changes are those of its `cascade` section.

    As shipped, but that the semantic layer has facts alone, and that no relevance is asked for."""
    own = {"semantic": FACTS_ALONE, **(layers or {})}
    return profile(cascade={"enabled": True, "min_relevance": 0.0, "layers": own, **changes})


async def asked(
    tokens: TokenCounter,
    found: Mapping[MemoryView, float],
    by: Profile,
    *,
    arms: Iterable[SourceName] = ("vector",),
    slow: Iterable[str] = (),
    timeout_s: float = 2.0,
    **fields: Any,
) -> tuple[Recalled, list[LayeredSource]]:
    """The recall of memories that are as close to the question as `found` says, and what its sources were asked."""
    layered = [LayeredSource(name, found.items(), slow=slow) for name in arms]
    made = sources(tokens, layered, *found)  # pyright: ignore[reportArgumentType]
    recalled = await recall(query(**fields), by, made, now=NOW, timeout_s=timeout_s)
    return recalled, layered


def ids(recalled: Recalled) -> list[str]:
    return [item.scored.memory.id for item in recalled.selection.items]


def descent_of(recalled: Recalled) -> CascadeRun:
    assert recalled.cascade is not None
    return recalled.cascade


def path(recalled: Recalled) -> list[tuple[str, int]]:
    """The layers that were asked, each with its depth."""
    return [(step.layer, step.depth) for step in steps(recalled) if step.not_asked is None]


def steps(recalled: Recalled) -> tuple[CascadeStepV1, ...]:
    return descent_of(recalled).path
