"""The systems of the analysis of retrieval beside profiles: how well they find, over the same judged queries.

like        SQL's LIKE '%word%', what the analysis starts from
bm25_decay  BM25 times exp(-lambda * age)
vector      nearest by the embedding of the question
rrf         the hybrid: vector and keywords fused by rank
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from orion_recall.evaluation.baselines import BaselineName, Baselines
from orion_recall.evaluation.dataset import JudgedQuery
from orion_recall.evaluation.measures import Wanted, judged, measure
from orion_recall.evaluation.trials import Run, Trials
from orion_recall.profile import Profile
from orion_recall.text.normal import content_words
from orion_recall.values import Memory

SYSTEMS: Mapping[BaselineName, str] = {
    "like": "LIKE",
    "bm25_decay": "BM25 with decay",
    "vector": "Semantic",
    "rrf": "Hybrid by RRF",
}
"""What each baseline is called."""
MEASURES = ("precision@5", "recall@5", "mrr", "map")


@dataclass(frozen=True, slots=True, kw_only=True)
class Quality:
    """One system's means by measure, and its recall@5 of two kinds of queries (None: there are none).

    `temporal` are those of the category of that name; `other_words` share no word with their evidence.
    """

    name: str
    label: str
    queries: int
    means: Mapping[str, float]
    temporal: float | None
    other_words: float | None


async def compare_quality(
    trials: Trials, memories: Sequence[Memory], profiles: Sequence[Profile]
) -> Sequence[Quality]:
    """The quality of every system, then of every profile, over the plan's judged queries."""
    queries, baselines = judged(trials.plan.queries), Baselines.of(trials.opened, trials.contents)
    differing = in_other_words(queries, memories)
    found: list[Quality] = []
    for name, label in SYSTEMS.items():
        run = {query.id: await baselines.line(name, query) for query in queries}
        found.append(_quality(name, label, run, queries, differing))
    for profile in profiles:
        run = await trials.run(profile, what=profile.profile)
        found.append(_quality(profile.profile, profile.profile, run, queries, differing))
    return found


def in_other_words(queries: Sequence[JudgedQuery], memories: Sequence[Memory]) -> Sequence[JudgedQuery]:
    """The queries of which no content word occurs in their evidence or its speaker's name."""
    words = {
        (one.tenant, one.id): frozenset(content_words(f"{one.speaker or ''} {one.title or ''} {one.text}"))
        for one in memories
    }
    return [
        query
        for query in queries
        if all(
            words.get((query.conversation, name), frozenset()).isdisjoint(content_words(query.text))
            for name in query.evidence
        )
    ]


def _quality(
    name: str, label: str, run: Run, queries: Sequence[JudgedQuery], differing: Sequence[JudgedQuery]
) -> Quality:
    def means(of: Sequence[JudgedQuery]) -> Mapping[str, float]:
        measured = measure(run, of, Wanted(depths=(5,)))
        return dict(zip(measured.measures, measured.values.mean(axis=0).tolist(), strict=True))

    temporal = [query for query in queries if query.category == "temporal"]
    of_all = means(queries)
    return Quality(
        name=name,
        label=label,
        queries=len(queries),
        means={measure: of_all[measure] for measure in MEASURES},
        temporal=means(temporal)["recall@5"] if temporal else None,
        other_words=means(differing)["recall@5"] if differing else None,
    )
