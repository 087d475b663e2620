"""Plain baselines: the index asked for the raw question, fused by hand, without any rule of the recall."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
import pytest

from orion_recall.evaluation.baselines import BUNDLE, BaselineName, Baselines, decay, fused
from orion_recall.evaluation.dataset import Contents
from orion_recall.models.sparse import SparseEncoder
from orion_recall.text.normal import memory_key, text_hash
from orion_recall.values import MemoryView, Scope
from tests.samples.evaluation_samples import judged_query

TEXTS = {
    "crane": "Ana: The crane is broken.",
    "boat": "Bo: I sold the boat.",
    "dinner": "Ana: We had soup for dinner.",
}
NOW = 1_000_000_000.0
AGES_H = {"crane": 0.0, "boat": 1.0, "dinner": 10_000.0}
VECTOR = [("boat", 0.9), ("crane", 0.4), ("dinner", -0.2)]
WORDS = [("dinner", 3.0), ("boat", 2.5)]


@dataclass
class Index:
    """An index with the hits of one question; it keeps what it was asked."""

    asked: list[tuple[object, Scope, int]] = field(default_factory=list[tuple[object, Scope, int]])

    async def search_dense(
        self, vector: Sequence[float], scope: Scope, limit: int, least: float
    ) -> list[tuple[int, float]]:
        self.asked.append((vector, scope, limit))
        return [(memory_key("c", name), score) for name, score in VECTOR if score >= least][:limit]

    async def search_sparse(self, terms: object, scope: Scope, limit: int) -> list[list[tuple[int, float]]]:
        self.asked.append((terms, scope, limit))
        of_context = [(memory_key("c", "crane"), 99.0)]
        return [[(memory_key("c", name), score) for name, score in WORDS][:limit], of_context]

    async def fetch(self, keys: Sequence[int]) -> Mapping[int, MemoryView]:
        views = {
            memory_key("c", name): MemoryView(
                id=name, text=text, text_hash=text_hash(text), ts=NOW - AGES_H[name] * 3600
            )
            for name, text in TEXTS.items()
        }
        return {key: views[key] for key in keys if key in views}


class Embedder:
    """Embeds a question as the number of its letters."""

    async def embed_query(self, text: str) -> Any:
        return np.array([float(len(text))])


def baselines(index: Index) -> Baselines:
    contents = Contents(ids={"c": [*TEXTS]}, newest={"c": NOW})
    return Baselines(cast("Any", index), cast("Any", Embedder()), SparseEncoder(), contents)


def test_rank_fusion_is_the_sum_over_both_lists_of_one_over_60_and_the_rank() -> None:
    found = fused([[(1, 0.9), (2, 0.4), (3, 0.1)], [(3, 7.0), (1, 5.0), (4, 1.0)]])
    assert found == [
        (1, pytest.approx(1 / 61 + 1 / 62)),
        (3, pytest.approx(1 / 63 + 1 / 61)),
        (2, pytest.approx(1 / 62)),
        (4, pytest.approx(1 / 63)),
    ]
    assert fused([[(9, 1.0)], [(5, 1.0)]]) == [(5, 1 / 61), (9, 1 / 61)], "equal sums by key"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("vector", ("boat", "crane", "dinner")),
        ("bm25", ("dinner", "boat")),
        # boat: 1/61 + 1/62; dinner: 1/63 + 1/61; crane: 1/62 alone.
        ("rrf", ("boat", "dinner", "crane")),
        # 2.5 * exp(-.01 * 1) against 3 * .05, the floor.
        ("bm25_decay", ("boat", "dinner")),
        # "sold" and "boat"; "we" and "had" are no content words.
        ("like", ("boat",)),
    ],
)
async def test_each_ranks_as_worked_out_by_hand(name: BaselineName, expected: tuple[str, ...]) -> None:
    query = judged_query("q", "boat").model_copy(update={"text": "Who sold Bo's boat yesterday?"})
    line = await baselines(Index()).line(name, query)
    assert (line.ranked, line.selected, line.unsure) == (expected, expected[:BUNDLE], False)


async def test_the_whole_raw_question_is_asked_within_tenant_and_scope_alone() -> None:
    index = Index()
    text = "What did Ana say of the crane last week?"
    await baselines(index).ranked("rrf", judged_query("q").model_copy(update={"text": text}))
    terms = SparseEncoder().encode_query(text)
    assert index.asked == [(terms, Scope(tenant="c"), 100), ([float(len(text))], Scope(tenant="c"), 100)]
    narrow = judged_query("q").model_copy(update={"scope": "session", "session_id": "s", "user_id": "u"})
    await baselines(index).ranked("bm25", narrow)
    assert index.asked[-1][1] == Scope(tenant="c", session_id="s")


def test_decay_is_that_of_the_founding_document_with_a_floor() -> None:
    assert decay(NOW - 3600 * 100, NOW) == pytest.approx(np.exp(-1.0))
    assert (decay(NOW - 3600 * 10_000, NOW), decay(NOW + 5, NOW), decay(None, NOW)) == (0.05, 1.0, 0.5)
