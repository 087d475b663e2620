"""Reports of the two optional ranking steps: reranking and late interaction."""

from __future__ import annotations

from dataclasses import dataclass

from orion_recall.values import SourceStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class RerankReport:
    """The report of reranking, where the profile has it on: memories judged, milliseconds, why the order stayed.

    `judged` are the keys of those memories.
    """

    status: SourceStatus
    count: int = 0
    ms: float = 0.0
    error: str | None = None
    judged: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class LateInteractionReport:
    """The report of late interaction, where the profile has it on: memories compared, milliseconds, and any error.

    `off`: embedder or index do not offer it.
    """

    status: SourceStatus
    count: int = 0
    ms: float = 0.0
    error: str | None = None
