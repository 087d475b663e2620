"""The plan of an evaluation run, and the summary of a run that has ended."""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from orion_recall.evaluation.dataset import JudgedQuery
from orion_recall.evaluation.vectors import VectorCache
from orion_recall.index.text_forms import event_time
from orion_recall.profile import Profile
from orion_recall.text.keyword_weights import KeywordWeights
from orion_recall.values import Memory, Outcome


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
            moment = event_time(memory)
            if moment is not None:
                newest[memory.tenant] = max(moment, newest.get(memory.tenant, moment))
        return cls(ids=ids, newest=newest)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The plan of a run: the queries in order, the file of memories, and the profile.

    `without_evidence`: what answers a query is left out of its search. `keywords` are other constants of the
    keyword index than those of the settings.
    """

    memories: Path
    queries_file: Path
    queries: Sequence[JudgedQuery]
    profile: Profile
    cache: VectorCache | None = None
    without_evidence: bool = False
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


@contextlib.contextmanager
def timed(summary: RunSummary, what: str) -> Generator[None]:
    began = time.perf_counter()
    yield
    summary.seconds[what] = round(time.perf_counter() - began, 2)
