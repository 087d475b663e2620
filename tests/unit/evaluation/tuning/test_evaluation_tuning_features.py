from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from orion_recall.recall.ranking.near_duplicates import near_duplicates

from orion_recall.evaluation.tuning.features import PARTS, Candidates, ranked, run_under, scores, table_of
from orion_recall.recall.ranking.score import combine, in_order
from orion_recall.scoring.candidates import Candidate, ScoredCandidate
from orion_recall.text.normal import memory_key, text_hash
from orion_recall.text.simhash import simhash
from orion_recall.values import MemoryView
from tests.samples.evaluation_samples import judged_query

LEARNABLE = [name for name in PARTS if name != "recency"]
ROWS = st.lists(
    st.tuples(
        st.dictionaries(st.sampled_from(LEARNABLE), st.floats(0, 1)),
        st.sampled_from([None, 1.0, 2.0]),
        st.sampled_from(["the crane is broken today", "bo ordered a gearbox", "ana sings"]),
    ),
    min_size=1,
    max_size=8,
)


def item(name: str, parts: dict[str, float], ts: float | None = None, text: str = "") -> ScoredCandidate:
    memory = MemoryView(id=name, text=text, text_hash=text_hash(text or name), simhash=simhash(text or name), ts=ts)
    return ScoredCandidate(candidate=Candidate(key=memory_key("c", name)), memory=memory, score=0.0, parts=parts)


def table(*items: ScoredCandidate) -> Candidates:
    return table_of(judged_query("q", "a"), items, 0.9)


def vector(weights: dict[str, float]) -> np.ndarray:
    return np.array([weights.get(name, 0.0) for name in PARTS])


@given(ROWS, st.fixed_dictionaries({name: st.just(0.0) | st.floats(0.01, 4) for name in PARTS}))
def test_scores_and_order_are_those_of_the_recall_itself(
    rows: list[tuple[dict[str, float], float | None, str]], weights: dict[str, float]
):
    items = [item(f"m{place}", parts, ts, text) for place, (parts, ts, text) in enumerate(rows)]
    one = table(*items)
    expected = [combine(each.parts, weights) for each in items]
    assert scores(one, vector(weights)).tolist() == pytest.approx(expected, abs=2e-6)
    if len({*expected}) == len(expected) and min(np.diff(sorted(expected)), default=1) > 1e-5:
        again = in_order(
            ScoredCandidate(candidate=each.candidate, memory=each.memory, score=score, parts=each.parts)
            for each, score in zip(items, expected, strict=True)
        )
        repeated = near_duplicates(again, 0.9)
        kept = tuple(each.memory.id for place, each in enumerate(again) if place not in repeated)
        assert ranked(one, vector(weights), 0.9).ranked == kept


def test_equal_scores_are_newer_first_then_by_id():
    names = [("d", None), ("c", None), ("old", 10.0), ("new", 20.0)]
    one = table(*(item(name, {"fusion": 0.5}, ts) for name, ts in names))
    assert ranked(one, vector({"fusion": 1.0}), 0.9).ranked == ("new", "old", "c", "d")


def test_of_repeated_memories_the_one_that_is_better_under_these_weights_is_kept():
    same = "the crane on the north quay is broken"
    one = table(
        item("a", {"fusion": 1.0, "length": 0.0}, text=same), item("b", {"fusion": 0.0, "length": 1.0}, text=same)
    )
    assert ranked(one, vector({"fusion": 1.0}), 0.9).ranked == ("a",)
    assert ranked(one, vector({"length": 1.0}), 0.9).ranked == ("b",)


def test_a_run_has_a_line_for_every_query_of_the_table():
    one = table(item("a", {"fusion": 1.0}))
    assert {name: line.ranked for name, line in run_under([one], vector({"fusion": 1.0}), 0.9).items()} == {
        "q": ("a",)
    }


def test_the_table_knows_evidence_and_absent_parts():
    one = table(item("a", {"fusion": 1.0}), item("b", {"fusion": 0.5, "time": 1.0}))
    assert one.relevant.tolist() == [True, False]
    assert np.isnan(one.values[:, PARTS.index("time")]).tolist() == [True, False]
