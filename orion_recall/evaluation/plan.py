"""What a run is to do, and what it was."""

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
    """Who is told how far a run is."""

    def begins(self, what: str, total: int) -> None: ...

    def advanced(self, done: int) -> None: ...


class Cache:
    """What is kept from one run to the next, in one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.vectors, self.snapshots = VectorCache(folder), Snapshots(folder)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What to run: the queries in order, the memories' file, and how to recall.

    A `baseline` searches in the place of the profile's sources.
    """

    memories: Path
    queries_file: Path
    queries: Sequence[JudgedQuery]
    profile: Profile
    cache: Cache | None
    baseline: Baseline | None = None


@dataclass(slots=True, kw_only=True)
class RunSummary:
    """What a run was.

    `from_cache`: index and graph are those of an earlier run. `silent` are the sources that failed, how often, and
    the first reason of each. `late_off` is why there was no late interaction, where the profile wants it.
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


@contextlib.contextmanager
def timed(summary: RunSummary, what: str) -> Generator[None]:
    """Notes how many seconds the block took."""
    began = time.perf_counter()
    yield
    summary.seconds[what] = round(time.perf_counter() - began, 2)
