from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orion_recall.recall.confidence.factors import (
    completeness,
    confidence,
    confidences,
    consistency,
    level,
    source_quality,
)
from orion_recall.scoring.candidates import ScoredCandidate
from orion_recall.sources.record import MemoryUse
from orion_recall.values import Question
from tests.samples.recall_fakes import NOW, profile, scored

HOUR = 3600.0
SHARE = st.floats(0, 1)


def question(text: str = "what is the gearbox of the harbour crane?") -> Question:
    return Question(text=text, dense_text=text, keyword_text=text, terms=frozenset(), now=NOW, text_hash="")


def item(name: str, text: str | None = None, *, cosine: float | None = None, **fields: Any) -> ScoredCandidate:
    made = scored(name, text, **fields)
    if cosine is not None:
        made.candidate.scores["vector"] = cosine
    return made


def of(*items: ScoredCandidate, **fields: Any) -> list[Any]:
    return list(confidences(items, items, question(), profile(), **fields).values())


@pytest.mark.parametrize(
    ("factors", "overall", "word"),
    [
        ((0.45, 0.85, 0.92, 0.70, 0.60), 0.673, "medium"),
        ((0.35, 0.70, 0.80, 0.50, 0.40), 0.5325, "medium"),
        ((1.0, 0.0, 0.0, 0.0, 0.0), 0.35, "low"),
        ((0.0, 1.0, 0.0, 0.0, 0.0), 0.25, "low"),
        ((0.0, 0.0, 1.0, 0.0, 0.0), 0.15, "low"),
        ((0.0, 0.0, 0.0, 1.0, 0.0), 0.15, "low"),
        ((0.0, 0.0, 0.0, 0.0, 1.0), 0.1, "low"),
        ((1.0, 1.0, 1.0, 1.0, 1.0), 1.0, "high"),
        ((0.0, 0.0, 0.0, 0.0, 0.0), 0.0, "low"),
    ],
)
def test_the_founding_formula_with_worked_numbers(factors: tuple[float, ...], overall: float, word: str):
    relevance, quality, recency, consistent, complete = factors
    made = confidence(
        relevance=relevance, quality=quality, recency=recency, consistency=consistent, completeness=complete
    )
    assert (made.overall, made.level) == (overall, word)
    assert made[2:] == factors


@given(st.tuples(SHARE, SHARE, SHARE, SHARE, SHARE))
def test_confidence_is_between_the_lowest_and_the_highest_of_its_factors(factors: tuple[float, ...]):
    relevance, quality, recency, consistent, complete = factors
    made = confidence(
        relevance=relevance, quality=quality, recency=recency, consistency=consistent, completeness=complete
    )
    assert min(factors) - 1e-6 <= made.overall <= max(factors) + 1e-6
    assert made.level == level(made.overall)


def test_the_levels_begin_at_a_half_and_at_three_quarters():
    assert [level(value) for value in (0.0, 0.499999, 0.5, 0.749999, 0.75, 1.0)] == [
        "low", "low", "medium", "medium", "high", "high",
    ]  # fmt: skip


def test_an_item_of_a_recall_has_all_five_factors():
    crane = item(
        "m1", "the crane", cosine=0.6, ts=NOW - 72 * HOUR, kind="experience", speaker="Bo", session_id="s",
        entities=("crane",), tags=("harbour",),
    )  # fmt: skip
    crane.candidate.ranks["lexical"] = 3
    (made,) = of(crane, repeated={crane.candidate.key})
    # 0.21 + 0.225 + 0.075 + 0.15 + 0.1
    assert made == (0.76, "high", 0.6, 0.9, 0.5, 1.0, 1.0)


def test_relevance_is_the_cosine_and_never_less_than_nothing():
    near, far, missed = of(item("a", cosine=0.8), item("b", cosine=-0.2), item("c"))
    assert (near.semantic_relevance, far.semantic_relevance) == (0.8, 0.0)
    assert missed.semantic_relevance == 0.0, "no closer than the farthest that was reached"
    *_, missed = of(item("a", cosine=0.8), item("b", cosine=0.3), item("c"))
    assert missed.semantic_relevance == 0.3


def test_a_reranker_knows_better_than_the_cosine():
    judged = item("a", cosine=0.2)
    judged = ScoredCandidate(
        candidate=judged.candidate, memory=judged.memory, score=judged.score, parts={"rerank": 0.9}
    )
    assert of(judged)[0].semantic_relevance == 0.9


def test_without_a_dense_search_relevance_is_the_share_of_the_questions_words():
    needs, mends, nothing, told = of(
        item("a", "The harbour crane needs a gearbox.", source="rdf"),
        item("b", "Bo mends it.", title="The cranes", source="rdf"),
        item("c", "The shed is painted.", source="rdf"),
        item("d", "He does.", source="rdf", statements=("Bo - works at - Harbour",)),
    )
    assert needs.semantic_relevance == 1.0
    assert [one.semantic_relevance for one in (mends, nothing, told)] == pytest.approx([1 / 3, 0, 1 / 3], abs=1e-6)
    (empty,) = confidences([item("a", "the crane")], [], question("what is it?"), profile()).values()
    assert empty.semantic_relevance == 0.0


def test_quality_is_the_kinds_and_a_little_more_when_several_sources_found_it():
    kinds = ("world", "experience", "observation", "procedure", "plan", "task", "opinion", "incident", None)
    worth = [source_quality(kind, sources=1) for kind in kinds]
    assert worth == [0.9, 0.85, 0.85, 0.8, 0.7, 0.7, 0.6, 0.7, 0.7]
    assert source_quality("world", sources=2) == pytest.approx(0.95)
    assert source_quality("world", sources=4) == pytest.approx(0.95)


def test_what_is_repeated_or_confirmed_is_consistent_and_what_is_disputed_is_not():
    assert consistency((), is_repeated=False) == 0.7
    assert consistency((), is_repeated=True) == 1.0
    assert consistency(("harbour", "verified"), is_repeated=False) == 1.0
    assert consistency(("disputed", "verified"), is_repeated=True) == 0.3


def test_completeness_counts_five_things():
    assert completeness(scored("a").memory) == 0.0
    assert completeness(scored("a", ts=0.0).memory) == 0.2
    assert completeness(scored("a", title="t", speaker="s").memory) == 0.2
    assert completeness(scored("a", uri="u", session_id="s").memory) == 0.2
    assert completeness(scored("a", ts=1.0, title="t", source_ref="x", entities=("e",), tags=("t",)).memory) == 1.0


def test_recency_is_that_of_the_profile():
    fresh, old, undated = confidences(
        items := [item("a", ts=NOW), item("b", ts=NOW - 1e9), item("c")], items, question(),
        profile(time_decay_half_life_hours=24, recency_floor=0.1),
    ).values()  # fmt: skip
    assert [one.recency for one in (fresh, old, undated)] == [1.0, 0.1, 0.5]


@pytest.mark.parametrize(
    ("sender", "use", "quality"),
    [
        (None, MemoryUse(), 0.9),
        (1.0, MemoryUse(), 0.9),
        (0.5, MemoryUse(), 0.72),  # 0.9 x (0.6 + 0.4 x 0.5)
        (0.0, MemoryUse(), 0.54),
        (None, MemoryUse(used=1), 0.966667),  # 0.9 + 0.4 x (2/3 - 1/2)
        (None, MemoryUse(wrong=1), 0.833333),
        (None, MemoryUse(used=2, wrong=2), 0.9),
        (None, MemoryUse(accesses=3), 0.92),  # 0.9 + 0.01 x log2(4)
        (None, MemoryUse(accesses=1_000_000), 0.95),
        (None, MemoryUse(used=1000), 1.0),
    ],
)
def test_the_quality_of_a_source_counts_its_sender_feedback_and_answers(
    sender: float | None, use: MemoryUse, quality: float
):
    assert source_quality("world", sources=1, sender=sender, use=use) == pytest.approx(quality, abs=1e-6)


def test_the_use_of_a_memory_and_its_senders_confidence_reach_its_items():
    sure, doubted = item("a", kind="world", cosine=0.5), item("b", kind="world", cosine=0.5, confidence=0.5)
    first, second = of(sure, doubted, uses={"a": MemoryUse(wrong=1)})
    assert (first.source_quality, second.source_quality) == pytest.approx((0.833333, 0.72), abs=1e-6)
