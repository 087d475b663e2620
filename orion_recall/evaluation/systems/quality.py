"""How well each system finds: the measures over all judged queries, and over two kinds of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from orion_recall.evaluation.dataset import JudgedQuery
from orion_recall.evaluation.measures import Wanted, judged, measure
from orion_recall.evaluation.systems.registry import SYSTEMS, Corpus
from orion_recall.evaluation.trials import Run, Trials
from orion_recall.profile import Profile
from orion_recall.text.normal import content_words
from orion_recall.values import Memory

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
    corpus, found = Corpus.of(memories, trials.opened), list[Quality]()
    queries = judged(trials.plan.queries)
    differing = in_other_words(queries, memories)
    for system in SYSTEMS:
        source = system.make(corpus)
        run = await trials.with_sources({source.name: source}).run(system.profile, what=system.label)
        found.append(_quality(system.name, system.label, run, queries, differing))
    for profile in profiles:
        run = await trials.run(profile, what=profile.profile)
        found.append(_quality(profile.profile, profile.profile, run, queries, differing))
    return found


def _quality(
    name: str, label: str, run: Run, queries: Sequence[JudgedQuery], differing: Sequence[JudgedQuery]
) -> Quality:
    temporal = [query for query in queries if query.category == "temporal"]
    means = _means(run, queries)
    return Quality(
        name=name,
        label=label,
        queries=len(queries),
        means={measure: means[measure] for measure in MEASURES},
        temporal=_means(run, temporal)["recall@5"] if temporal else None,
        other_words=_means(run, differing)["recall@5"] if differing else None,
    )


def _means(run: Run, queries: Sequence[JudgedQuery]) -> Mapping[str, float]:
    measured = measure(run, queries, Wanted(depths=(5,)))
    return dict(zip(measured.measures, measured.values.mean(axis=0).tolist(), strict=True))


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
