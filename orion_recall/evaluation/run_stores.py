"""The plan of a run and its stores: embedded, in a folder of their own, filled with the memories of its file."""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Protocol

from orion_recall.errors import SourceError
from orion_recall.evaluation.dataset import JudgedQuery
from orion_recall.evaluation.vectors import VectorCache
from orion_recall.interfaces import Projection
from orion_recall.profile import Profile
from orion_recall.serving.backends import Opened
from orion_recall.settings import Settings
from orion_recall.text.keyword_weights import KeywordWeights
from orion_recall.values import Change, Memory, Neighbour, Outcome

# Prefixes of the settings that a run keeps: models, profiles and the timeline. Addresses of other stores must not
# be among them: the memories of the evaluation would be written there.
_KEPT_SETTINGS = tuple(
    "model embedder embedding_precision token_vectors tei keyword_weights reranker timeline postgres profiles node "
    "log".split()
)
_AT_ONCE = 200


class Progress(Protocol):
    """Receives the progress of a run."""

    def begins(self, what: str, total: int) -> None: ...

    def advanced(self, done: int) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """The ids of every conversation's memories, and the time of each conversation's newest memory (epoch seconds).

    A conversation without any date is not in `newest`.
    """

    ids: Mapping[str, Sequence[str]]
    newest: Mapping[str, float]

    @classmethod
    def of(cls, memories: Sequence[Memory]) -> Contents:
        ids: dict[str, list[str]] = {}
        newest: dict[str, float] = {}
        for memory in memories:
            ids.setdefault(memory.tenant, []).append(memory.id)
            moment = memory.ts
            if moment is not None:
                newest[memory.tenant] = max(moment, newest.get(memory.tenant, moment))
        return cls(ids=ids, newest=newest)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The plan of a run: the queries in order, the file of memories, and the profile.

    `keywords` are other constants of the keyword index than those of the settings.
    """

    memories: Path
    queries_file: Path
    queries: Sequence[JudgedQuery]
    profile: Profile
    cache: VectorCache | None = None
    keywords: KeywordWeights | None = None


@dataclass(slots=True, kw_only=True)
class RunSummary:
    """The summary of a run.

    `silent` has the sources that failed, with the count and the first reason of each. `late_off` is why there was
    no late interaction although the profile has it. `query_ms`, `stage_ms` and `source_ms` are milliseconds by
    percentile: p50, p95, p99.
    """

    profile: str
    profile_hash: str
    model: str = ""
    queries: int = 0
    memories: int = 0
    conversations: int = 0
    evidence_unknown: int = 0
    timeline: bool = False
    unsure: int = 0
    vectors_embedded: int = 0
    vectors_from_cache: int = 0
    outcomes: Counter[Outcome] = field(default_factory=Counter[Outcome])
    silent: dict[str, tuple[int, str]] = field(default_factory=dict[str, tuple[int, str]])
    late_off: str | None = None
    seconds: dict[str, float] = field(default_factory=dict[str, float])
    query_ms: dict[str, float] = field(default_factory=dict[str, float])
    stage_ms: dict[str, dict[str, float]] = field(default_factory=dict[str, dict[str, float]])
    source_ms: dict[str, dict[str, float]] = field(default_factory=dict[str, dict[str, float]])


def private_settings(settings: Settings, data_dir: Path) -> Settings:
    """The settings of a run: defaults, but for those that a run keeps."""
    untouched = {
        name: option.get_default(call_default_factory=True)
        for name, option in Settings.model_fields.items()
        if not name.startswith(_KEPT_SETTINGS)
    }
    return settings.changed(**untouched | {"data_dir": data_dir, "tenants": ("*",)})


def index_and_graph(opened: Opened) -> tuple[Projection, Projection]:
    """Index and graph; SourceError when one of them could not be opened."""
    if opened.index is None or opened.graph is None:
        raise SourceError("; ".join(opened.broken.values()))
    return opened.index, opened.graph


def changes(memories: Sequence[Memory]) -> list[Change]:
    """One change for each memory, in order, with its neighbouring turns by time, then by place in the file.

    The outbox repeats a turn when its neighbours change; here all neighbours are known, so once is enough.
    """
    sessions: dict[tuple[str, str], list[int]] = {}
    for place, memory in enumerate(memories):
        if memory.session_id is not None:
            sessions.setdefault((memory.tenant, memory.session_id), []).append(place)
    times = [memory.ts for memory in memories]
    before: dict[int, Memory] = {}
    after: dict[int, Memory] = {}
    for places in sessions.values():
        # As in the record: undated ones come first.
        places.sort(key=lambda place: (-math.inf if times[place] is None else times[place], place))
        for one, other in pairwise(places):
            after[one], before[other] = memories[other], memories[one]
    return [
        Change(
            position=place + 1,
            memory=memory,
            previous=_neighbour(before.get(place)),
            following=_neighbour(after.get(place)),
        )
        for place, memory in enumerate(memories)
    ]


async def fill(
    projections: Sequence[Projection], steps: Sequence[Change], advanced: Callable[[int], None] | None = None
) -> None:
    """Applies every change to every projection, concurrently. `advanced` is called with the number done."""
    for start in range(0, len(steps), _AT_ONCE):
        batch = steps[start : start + _AT_ONCE]
        await asyncio.gather(*(projection.apply(batch) for projection in projections))
        if advanced is not None:
            advanced(start + len(batch))


def _neighbour(memory: Memory | None) -> Neighbour | None:
    return None if memory is None else Neighbour(id=memory.id, text=memory.text, speaker=memory.speaker)
