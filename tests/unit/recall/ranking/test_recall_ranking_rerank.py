from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from orion_recall.errors import ModelError
from orion_recall.models.tokenizer import TokenCounter
from orion_recall.recall.pipeline import recall
from orion_recall.recall.ranking.reports import RerankReport
from orion_recall.recall.ranking.rerank import rerank
from orion_recall.recall.report.decision import RequestFacts, decision
from orion_recall.recall.report.reply import reply
from orion_recall.recall.types import Recalled
from orion_recall.scoring.candidates import ScoredCandidate
from orion_recall.sources.breaker import Breaker
from tests.samples.recall_fakes import NOW, FakeSource, hit, profile, query, scored, sources, view


class Judge:
    """Gives the scores it is given, by the first word of the text that has one."""

    def __init__(self, *, error: ModelError | None = None, silent: bool = False, **scores: float) -> None:
        self.known, self.error, self.silent = scores, error, silent
        self.asked: list[tuple[str, list[str]]] = []

    async def scores(self, query: str, texts: Sequence[str]) -> list[float]:
        self.asked.append((query, list(texts)))
        if self.silent:
            await asyncio.Event().wait()
        if self.error is not None:
            raise self.error
        return [next(self.known[word] for word in text.split() if word in self.known) for text in texts]


def ranked(*scores: float) -> list[ScoredCandidate]:
    """Candidates a, b, c … whose only part is the fusion."""
    return [
        ScoredCandidate(candidate=one.candidate, memory=one.memory, score=score, parts={"fusion": score})
        for name, score in zip("abcdef", scores, strict=False)
        for one in [scored(name, f"{name} says", speaker="Ana", title="Log")]
    ]


async def judged(
    items: Sequence[ScoredCandidate], judge: Judge | None, *, breaker: Breaker | None = None, **wanted: Any
) -> tuple[list[ScoredCandidate], RerankReport]:
    timeout_s = wanted.pop("timeout_s", 5.0)
    made = profile(
        ranking={"fusion": 1.0, "similarity": 0.0, "recency": 0.0},
        rerank={"enabled": True, "timeout_ms": 1000, **wanted},
    )
    return await rerank(items, "what?", made, judge, breaker or Breaker(), timeout_s=timeout_s)


def names(items: Sequence[ScoredCandidate]) -> list[str]:
    return [item.memory.id for item in items]


async def test_the_score_is_one_part_more_under_its_own_weight():
    judge = Judge(a=0.1, b=0.9)
    items, report = await judged(ranked(0.8, 0.6), judge, weight=1.0)
    assert names(items) == ["b", "a"]
    assert [item.score for item in items] == [0.75, 0.45]
    assert items[0].parts == {"fusion": 0.6, "rerank": 0.9}
    assert (report.status, report.count, report.error) == ("ok", 2, None)
    assert judge.asked == [("what?", ["Log: Ana: a says", "Log: Ana: b says"])]


FOUNDING: dict[str, Any] = {
    "ranking": {"fusion": 0.2, "similarity": 0.0, "time": 0.1, "recency": 0.1},
    "rerank": {"enabled": True, "weight": 0.6, "timeout_ms": 1000},
}


async def test_the_founding_weighted_sum_gives_the_scores_that_it_gives_by_hand():
    dated = replace(ranked(1.0)[0], parts={"fusion": 1.0, "time": 0.5, "recency": 0.25})
    undated = replace(ranked(1.0, 0.8)[1], parts={"fusion": 0.8, "recency": 0.5})
    judge = Judge(a=0.9, b=0.4)
    items, report = await rerank([dated, undated], "what?", profile(**FOUNDING), judge, Breaker(), timeout_s=5)
    assert report.status == "ok"
    assert [(item.memory.id, item.score) for item in items] == [
        ("a", 0.815),  # 0.6 * 0.9 + 0.2 * 1.0 + 0.1 * 0.5 + 0.1 * 0.25
        ("b", 0.5),  # (0.6 * 0.4 + 0.2 * 0.8 + 0.1 * 0.5) / 0.9: it has no part of time
    ]


async def test_without_an_answer_of_the_reranker_recency_does_not_outvote_what_is_left(tokens: TokenCounter):
    new, old = view("new", ts=NOW), view("old", ts=NOW - 1000 * 72 * 3600)
    arm = FakeSource("vector", [hit("old", 0.9), hit("new", 0.8)])
    recalled = await recall(query(), profile(**FOUNDING), sources(tokens, [arm], new, old), now=NOW, timeout_s=5)
    assert recalled.reranking is not None
    assert recalled.reranking.status == "failed"
    for item in recalled.ranked:
        by_hand = (0.2 * item.parts["fusion"] + 0.075 * item.parts["recency"]) / 0.275
        assert item.score == pytest.approx(by_hand, abs=1e-6)
    assert names(recalled.ranked) == ["new", "old"]


async def test_a_weight_of_nothing_changes_no_order():
    items, _ = await judged(ranked(0.8, 0.6), Judge(a=0.0, b=1.0), weight=0.0)
    assert [(item.memory.id, item.score) for item in items] == [("a", 0.8), ("b", 0.6)]


async def test_only_the_best_are_judged_and_none_of_the_others_passes_them():
    judge = Judge(a=0.0, b=0.2)
    items, report = await judged(ranked(0.9, 0.8, 0.79, 0.1), judge, top_n=2, weight=3.0)
    assert [len(texts) for _, texts in judge.asked] == [2]
    assert report.count == 2
    assert names(items) == ["b", "a", "c", "d"]
    assert [item.score for item in items] == sorted((item.score for item in items), reverse=True)
    assert items[2].parts["rerank"] == 0.0


async def test_equal_scores_keep_the_total_order():
    items, _ = await judged(ranked(0.5, 0.5, 0.5), Judge(a=0.3, b=0.3, c=0.3))
    assert names(items) == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("judge", "wanted", "status", "said"),
    [
        (None, {}, "failed", "no reranker is configured: set ORION_RERANKER"),
        (Judge(error=ModelError("gone")), {}, "failed", "gone"),
        (Judge(silent=True), {"timeout_ms": 20}, "late", "no answer within 20 ms"),
        (Judge(silent=True), {"timeout_s": 0.01}, "late", "no answer within 10 ms"),
        (Judge(), {"timeout_s": -0.1}, "late", "no time was left"),
    ],
)
async def test_without_an_answer_the_order_stays_and_the_reason_is_told(
    judge: Judge | None, wanted: dict[str, Any], status: str, said: str
):
    before = ranked(0.8, 0.6)
    items, report = await judged(before, judge, **wanted)
    assert items == before
    assert (report.status, report.count) == (status, 0)
    assert said in (report.error or "")


async def test_a_reranker_that_keeps_failing_is_left_alone_for_a_while():
    judge, breaker = Judge(error=ModelError("gone")), Breaker()
    reports = [(await judged(ranked(0.8), judge, breaker=breaker))[1] for _ in range(6)]
    assert len(judge.asked) == 3
    assert reports[-1].error == "left alone after: gone"
    breaker.retry_at = time.monotonic()
    judge.error, judge.known = None, {"a": 0.5}
    assert (await judged(ranked(0.8), judge, breaker=breaker))[1].status == "ok"
    assert (await judged(ranked(0.8), judge, breaker=breaker))[1].status == "ok"


async def test_nothing_found_is_nothing_to_judge():
    judge = Judge()
    assert (await judged([], judge))[1].status == "empty"
    assert judge.asked == []


async def asked(tokens: TokenCounter, judge: Judge | None, **wanted: Any) -> Recalled:
    """A recall of three memories of which the vector search likes the first best."""
    memories = [view(name, f"{name} is what {name} says of {name}") for name in ("ann", "bob", "cat")]
    arm = FakeSource("vector", (hit("ann", 0.9), hit("bob", 0.8), hit("cat", 0.7)))
    made = sources(tokens, [arm], *memories, reranker=judge)
    return await recall(query(options={}), profile(**wanted), made, now=NOW)


async def test_a_recall_follows_the_reranker_where_its_profile_wants_it(tokens: TokenCounter):
    judge = Judge(ann=0.0, bob=0.1, cat=1.0)
    recalled = await asked(tokens, judge, rerank={"enabled": True, "weight": 10.0})
    assert [item.scored.memory.id for item in recalled.selection.items] == ["cat", "bob", "ann"]
    assert list(recalled.stage_ms) == [
        "understand", "search", "fuse", "fetch", "score", "rerank", "rank", "select",
    ]  # fmt: skip
    answer = reply(query(options={}), recalled, latency_ms=1.0, profile="test.v1", decision_id="d")
    stats = (answer.bundle.stats.sources or {})["rerank"]
    assert (stats.status, stats.count) == ("ok", 3)
    assert (answer.bundle.items[0].score_parts or {})["rerank"] == 1.0
    kept = decision(
        RequestFacts(decision_id="d", corr_id="c"), outcome=recalled.outcome, latency_ms=1.0, recalled=recalled
    )
    assert kept.sources["rerank"].status == "ok"
    assert kept.selected[0].parts["rerank"] == 1.0
    assert "rerank" not in kept.backend_counts


async def test_the_least_score_is_of_the_score_that_the_reranker_had_a_part_in(tokens: TokenCounter):
    judge = Judge(ann=0.0, bob=0.0, cat=1.0)
    recalled = await asked(tokens, judge, rerank={"enabled": True, "weight": 100.0}, min_score=0.5)
    assert [item.scored.memory.id for item in recalled.selection.items] == ["cat"]
    assert recalled.selection.dropped == {"below_min_score": 2}


async def test_a_profile_that_wants_none_asks_none_and_says_nothing(tokens: TokenCounter):
    judge = Judge(ann=0.0, bob=0.1, cat=1.0)
    recalled = await asked(tokens, judge)
    assert judge.asked == []
    assert recalled.reranking is None
    kept = decision(RequestFacts(decision_id="d", corr_id="c"), outcome="ok", latency_ms=1.0, recalled=recalled)
    assert "rerank" not in kept.sources


async def test_wanting_a_reranker_where_there_is_none_is_said_and_costs_nothing_else(tokens: TokenCounter):
    recalled = await asked(tokens, None, rerank={"enabled": True})
    assert recalled.outcome == "ok"
    assert [item.scored.memory.id for item in recalled.selection.items] == ["ann", "bob", "cat"]
    kept = decision(RequestFacts(decision_id="d", corr_id="c"), outcome="ok", latency_ms=1.0, recalled=recalled)
    assert kept.sources["rerank"].status == "failed"
    assert "ORION_RERANKER" in (kept.sources["rerank"].error or "")
