"""BM25 with decay over a real index: the worked examples of the analysis of retrieval."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from serving import NoProgress

from orion_recall.evaluation.dataset import read_queries
from orion_recall.evaluation.trials import Plan, Run, Trials, trials
from orion_recall.evaluation.tune import at, grid_of, sweep
from orion_recall.interfaces import MemoryIndex
from orion_recall.models.sparse import SparseEncoder
from orion_recall.profile import Profile
from orion_recall.settings import Settings
from orion_recall.values import Hit, SearchRequest, SourceName

pytestmark = pytest.mark.slow

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
TOPICS = ("tides", "bread", "violins", "tax forms", "bicycles", "moss", "kites", "pumps")


def turn(name: str, text: str, *, days: float, session: str) -> dict[str, str]:
    told = (NOW - timedelta(days=days)).isoformat()
    return {
        "memory_id": name,
        "conversation_id": "talk",
        "session_id": session,
        "turn_datetime": told,
        "speaker": "Ana",
        "text": text,
    }


# Fifty turns of one session in which few speak of what is asked, and as many words on a heron in three sessions.
WARM = [
    turn(f"w{place}", f"We read about {TOPICS[place % 8]} and computing today.", days=2.0, session="warm")
    for place in range(48)
] + [
    turn("qc", "Quantum computing needs cold qubits.", days=2.0, session="warm"),
    turn("q", "The quantum lab moved to Delft.", days=2.0, session="warm"),
]
COLD = [
    turn("march", "The heron nests at the old weir.", days=240, session="s1"),
    turn("october", "The heron nests by the lower pond.", days=21, session="s2"),
    turn("november", "The heron nests on the north pier.", days=1, session="s3"),
]
QUERIES = [
    {"query_id": "quantum", "query": "quantum computing", "evidence": ["qc"]},
    {"query_id": "heron", "query": "Where does the heron nest?", "evidence": ["november"]},
]


def decaying(**changes: object) -> Profile:
    """BM25 with decay and nothing else."""
    values = {
        "profile": "decay.test", "vector_top_k": 0, "lexical_top_k": 100, "rdf_top_k": 0, "max_per_source": 12,
        "max_total_items": 12, "render_budget_tokens": 256, "enable_query_expansion": False, "rank_pool": 100,
        "time_decay_lambda_per_hour": 0.01, "fusion": {"method": "bm25_decay"},
        "ranking": {"fusion": 1.0, "similarity": 0.0, "recency": 0.0},
    }  # fmt: skip
    return Profile.model_validate(values | changes)


class OwnWords:
    """BM25 of a memory's own words: the shipped keyword source also counts those of its neighbours."""

    name: SourceName = "lexical"

    def __init__(self, index: MemoryIndex) -> None:
        self._index, self._sparse = index, SparseEncoder()

    async def search(self, request: SearchRequest) -> Sequence[Hit]:
        terms = self._sparse.encode_query(request.question.text)
        own, _ = await self._index.search_sparse(terms, request.scope, request.limit)
        return [Hit(key, score) for key, score in own]


@asynccontextmanager
async def told(folder: Path, profile: Profile) -> AsyncGenerator[Trials]:
    memories, queries = folder / "memories.jsonl", folder / "queries.jsonl"
    memories.write_text("".join(json.dumps(one) + "\n" for one in WARM + COLD), "utf-8")
    common = {"conversation_id": "talk", "query_date": NOW.isoformat(), "category": "any"}
    queries.write_text("".join(json.dumps(one | common) + "\n" for one in QUERIES), "utf-8")
    plan = Plan(memories=memories, queries_file=queries, queries=read_queries(queries), profile=profile, cache=None)
    settings = Settings.read()
    async with trials(plan, settings, NoProgress()) as opened:
        assert opened.opened.index is not None
        sources = replace(opened.opened.sources, by_name={"lexical": OwnWords(opened.opened.index)})
        yield Trials(plan, replace(opened.opened, sources=sources), opened.contents, NoProgress())


@pytest.fixture
async def tried(tmp_path: Path) -> AsyncGenerator[Trials]:
    async with told(tmp_path, decaying()) as opened:
        yield opened


async def ranked(tried: Trials, profile: Profile) -> dict[str, tuple[str, ...]]:
    run: Run = await tried.run(profile, what="test")
    return {name: line.ranked for name, line in run.items()}


async def test_the_rarer_word_ranks_higher_and_both_words_highest(tried: Trials) -> None:
    first = (await ranked(tried, decaying()))["quantum"]
    assert first[:2] == ("qc", "q"), "both words, then `quantum`, then `computing`"
    assert set(first[2:]) and all(name.startswith("w") for name in first[2:])


async def test_of_equal_matches_the_recent_session_comes_first(tried: Trials) -> None:
    herons = (await ranked(tried, decaying()))["heron"]
    assert herons[:3] == ("november", "october", "march")


async def test_the_decay_comes_before_the_limit_of_candidates(tried: Trials) -> None:
    """Fifty older turns fill the pool by words alone; what is newer and says less of it is ranked all the same."""
    few = {"rank_pool": 10, "time_decay_lambda_per_hour": 0.1, "recency_floor": 0.0}
    late = turn(
        "late", "Much later, computing was mentioned in a long talk on rivers and boats.", days=0, session="l"
    )
    WARM.append(late)
    try:
        async with told(Path(tried.plan.memories.parent), decaying(**few)) as again:
            found = (await ranked(again, decaying(**few)))["quantum"]
            plain = (await ranked(again, at(decaying(**few), {"fusion.method": "rrf"})))["quantum"]
    finally:
        WARM.remove(late)
    assert found[0] == "late"
    assert plain[0] == "qc"


async def test_rates_are_compared_by_a_sweep(tried: Trials) -> None:
    points = grid_of(["time_decay_lambda_per_hour=0.001,0.01,0.1", "recency_floor=0"])
    found = await sweep(tried.plan, points, Settings.read(), NoProgress(), by="map")
    assert {one.name for one in found[1:]} == {
        f"time_decay_lambda_per_hour={rate} recency_floor=0" for rate in (0.001, 0.01, 0.1)
    }
    means = [one.scores.means["map"].mean for one in found[1:]]
    assert means == sorted(means, reverse=True)
    assert means[0] >= 0.75
