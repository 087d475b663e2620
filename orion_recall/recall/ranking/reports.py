"""Reports of the two optional ranking steps: reranking and late interaction."""

from __future__ import annotations

from dataclasses import dataclass

from orion_recall.values import SourceStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class RerankReport:
    """How reranking did, where the profile wants it: memories judged, milliseconds, and why the order stayed."""

    status: SourceStatus
    count: int = 0
    ms: float = 0.0
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LateReport:
    """How late interaction did, where the profile wants it: memories compared, milliseconds, and why there is none.

    `off`: embedder or index do not offer it.
    """

    status: SourceStatus
    count: int = 0
    ms: float = 0.0
    error: str | None = None
