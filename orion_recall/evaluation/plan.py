"""The plan of an evaluation run, and the summary of a run that has ended."""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from orion_recall.evaluation.baselines import Baseline
from orion_recall.evaluation.dataset import JudgedQuery
from orion_recall.evaluation.snapshots import Snapshots
from orion_recall.evaluation.vectors import VectorCache
from orion_recall.profile import Profile
from orion_recall.values import Outcome


class Progress(Protocol):
    """Receives the progress of a run."""

    def begins(self, what: str, total: int) -> None: ...

    def advanced(self, done: int) -> None: ...


class Cache:
    """The folder kept between runs: document vectors, and snapshots of filled stores."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.vectors, self.snapshots = VectorCache(folder), Snapshots(folder)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The plan of a run: the queries in order, the file of memories, and the profile.

    A `baseline` replaces the profile's sources. `without_evidence`: what answers a query is left out of its search.
    """

    memories: Path
    queries_file: Path
    queries: Sequence[JudgedQuery]
    profile: Profile
    cache: Cache | None
    baseline: Baseline | None = None
    without_evidence: bool = False


@dataclass(slots=True, kw_only=True)
class RunSummary:
    """The summary of a run.

    `from_cache`: index and graph are those of an earlier run. `silent` has the sources that failed, with the count
    and the first reason of each. `late_off` is why there was no late interaction although the profile has it.
    `query_ms`, `stage_ms` and `source_ms` are milliseconds by percentile: p50, p95, p99.
    """

    profile: str
    profile_hash: str
    model: str = ""
    queries: int = 0
    memories: int = 0
    conversations: int = 0
    evidence_unknown: int = 0
    timeline: bool = False
    from_cache: bool = False
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
    """Records in the summary how many seconds the block took."""
    began = time.perf_counter()
    yield
    summary.seconds[what] = round(time.perf_counter() - began, 2)
