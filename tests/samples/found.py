"""Search passes that found given texts, to judge whether anything in them answers."""

from __future__ import annotations

from collections.abc import Mapping

from orion_recall.recall.pass_result import Dropped, PassResult
from orion_recall.recall.understand.question import Understanding, understand
from orion_recall.scoring.candidates import Candidate, ScoredCandidate
from orion_recall.values import SourceName, SourceReport, SourceStatus
from tests.samples.recall_fakes import NOW, key, profile, query, view

Scores = tuple[float, float, float]
"""Late interaction, cosine and keyword score."""


def asked(fragment: str, *speakers: str) -> Understanding:
    """The question as it is understood where these speak."""
    return understand(query(fragment), profile(), now=NOW, speakers=frozenset(speakers))


def found(
    texts: Mapping[str, Scores], *, late: bool = True, lexical: SourceStatus = "ok", speaker: str | None = None
) -> PassResult:
    """A pass that found these texts; without `late`, late interaction was off."""
    items: list[ScoredCandidate] = []
    closeness: dict[int, float] = {}
    for place, (text, (near, cosine, keyword)) in enumerate(texts.items()):
        name = f"m{place}"
        scores: dict[SourceName, float] = {"vector": cosine, "lexical": keyword}
        candidate = Candidate(key=key(name), scores=scores)
        items.append(
            ScoredCandidate(candidate=candidate, memory=view(name, text, speaker=speaker), score=0.5, parts={})
        )
        if late:
            closeness[candidate.key] = near
    reports = (SourceReport(source="vector", status="ok"), SourceReport(source="lexical", status=lexical))
    return PassResult(
        reports=reports,
        within=(),
        pool=[item.candidate for item in items],
        memories={item.candidate.key: item.memory for item in items},
        scored=items,
        ranked=tuple(items),
        dropped=Dropped(),
        closeness=closeness,
    )
