"""What one look at memory found: by whom, ranked, and what was left out on the way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from orion_recall.recall.dropped import Dropped
from orion_recall.values import Candidate, LateReport, MemoryView, RerankReport, ScoredCandidate, SourceReport


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """One look, before caps and budget.

    `within` are the further lists of the named time. `pool` is what went on after fusion, `scored` what of it may
    be shown, `ranked` what of that neither repeats another nor has too low a score; both best first. `reranking`
    and `late` are None where the profile does not want any.
    """

    reports: tuple[SourceReport, ...]
    within: tuple[SourceReport, ...]
    pool: Sequence[Candidate]
    memories: Mapping[int, MemoryView]
    scored: Sequence[ScoredCandidate]
    ranked: tuple[ScoredCandidate, ...]
    dropped: Dropped
    reranking: RerankReport | None = None
    late: LateReport | None = None

    @property
    def keys(self) -> set[int]:
        """The keys of all that any source found."""
        return {hit.key for report in (*self.reports, *self.within) for hit in report.hits}

    @property
    def told_again(self) -> set[int]:
        """The keys of those in whose favour another memory was left out, which says the same."""
        return {why.for_key for why in self.dropped.each.values() if why.for_key is not None}
