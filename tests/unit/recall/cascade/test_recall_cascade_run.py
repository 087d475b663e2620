"""The seven behaviours of the founding document (triggered on low confidence, not on high, depth limit, merging,
path, confidence improves, layer weights), and what else a cascade promises."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from orion_recall.errors import ProfileError
from orion_recall.models.batching import Vector
from orion_recall.models.sparse import SparseTerms
from orion_recall.models.tokenizer import TokenCounter
from orion_recall.profile.cascade import LAYER_NAMES
from orion_recall.recall.pipeline import recall
from orion_recall.sources.vector_lexical import VectorSource
from orion_recall.text.normal import memory_key
from orion_recall.values import MemoryView, Scope
from tests.samples.layered import DAY, asked, cascading, descent_of, ids, of_kind, path, steps
from tests.samples.recall_fakes import NOW, Shelf, profile, query, sources, view

# Confidences with the shipped half-life of 72 hours and memories a day old: 0.35 cosine + 0.25 quality + 0.119 + …
FACT, FARTHER_FACT = of_kind("world", "fact", "farther")
EPISODE, SECOND_EPISODE = of_kind("experience", "episode", "second")
PROCEDURE, WEAK_PROCEDURE = of_kind("procedure", "procedure", "weak")
LOW = {FACT: 0.2, FARTHER_FACT: 0.1, EPISODE: 0.9, SECOND_EPISODE: 0.6, PROCEDURE: 0.5}
HIGH = LOW | {FACT: 0.8}
# Between the confidence of `fact` at 0.2 (0.539) and at 0.8 (0.749).
BETWEEN = 0.6


async def test_low_confidence_in_the_first_layer_brings_in_the_layers_that_it_names(tokens: TokenCounter):
    recalled, _ = await asked(tokens, LOW, cascading(threshold=BETWEEN))
    assert path(recalled) == [("semantic", 0), ("episodic", 1), ("graph", 1), ("procedural", 1)]
    assert steps(recalled)[0].confidence == 0.539055
    assert "episode" in ids(recalled)


@pytest.mark.parametrize(
    ("fragment", "first"),
    [
        ("Which colour is the boat?", "semantic"),
        ("What happened to the crane last week?", "episodic"),
        ("How do we start the pump?", "procedural"),
    ],
)
async def test_the_class_of_the_question_decides_which_layer_is_first(
    tokens: TokenCounter, fragment: str, first: str
):
    recalled, _ = await asked(tokens, LOW, cascading(max_depth=0), fragment=fragment)
    assert path(recalled) == [(first, 0)]
    recalled, _ = await asked(tokens, LOW, cascading(max_depth=0, first="procedural"), fragment=fragment)
    assert path(recalled) == [("procedural", 0)]


async def test_high_confidence_in_the_first_layer_brings_in_no_other(tokens: TokenCounter):
    recalled, (arm,) = await asked(tokens, HIGH, cascading(threshold=BETWEEN))
    assert path(recalled) == [("semantic", 0)]
    assert descent_of(recalled).ended == "confident"
    assert ids(recalled) == ["fact", "farther"]
    assert len(arm.requests) == 1
    plain, _ = await asked(tokens, HIGH, profile(), options={"kinds": ["world", "observation"]})
    assert recalled.rendered == plain.rendered, "the first layer's answer is left as it is"


async def test_a_confident_memory_without_relevance_does_not_end_the_cascade(tokens: TokenCounter):
    low = LOW | {FACT: 0.29}
    recalled, _ = await asked(tokens, low, cascading(threshold=0.5, min_relevance=0.3))
    assert steps(recalled)[0].confidence == 0.570555
    assert len(path(recalled)) == 4
    recalled, _ = await asked(tokens, LOW | {FACT: 0.3}, cascading(threshold=0.5, min_relevance=0.3))
    assert len(path(recalled)) == 1


async def test_words_alone_make_no_layer_sure(tokens: TokenCounter):
    by = cascading(threshold=0.1, min_relevance=0.1, first="graph", max_depth=1)
    recalled, _ = await asked(tokens, LOW, by, arms=("rdf",))
    assert steps(recalled)[0].relevance is None
    assert len(path(recalled)) == 3


async def test_as_shipped_a_fact_is_searched_for_among_all_kinds(tokens: TokenCounter):
    recalled, _ = await asked(tokens, LOW, profile(cascade={"enabled": True}))
    assert path(recalled) == [("semantic", 0)]
    assert ids(recalled)[0] == "episode"
    plain, _ = await asked(tokens, LOW, profile())
    assert recalled.rendered == plain.rendered


async def test_only_confidence_strictly_under_the_threshold_goes_on(tokens: TokenCounter):
    recalled, _ = await asked(tokens, LOW, cascading())
    at = steps(recalled)[0].confidence
    assert at is not None
    for threshold, ended in ((at, "confident"), (at + 1e-6, "depth")):
        recalled, _ = await asked(tokens, LOW, cascading(threshold=threshold, max_depth=0))
        assert descent_of(recalled).ended == ended


@pytest.mark.parametrize(
    ("max_depth", "layers"),
    [
        (0, ["semantic"]),
        (1, ["semantic", "episodic", "graph", "procedural"]),
        (2, ["semantic", "episodic", "graph", "procedural"]),
    ],
)
async def test_the_depth_limit_returns_the_best_so_far(tokens: TokenCounter, max_depth: int, layers: list[str]):
    recalled, _ = await asked(tokens, LOW, cascading(threshold=1.0, max_depth=max_depth))
    assert [layer for layer, _ in path(recalled)] == layers
    assert descent_of(recalled).ended == ("depth" if max_depth < 2 else "no_layer")
    assert ids(recalled)[0] == ("fact" if max_depth == 0 else "episode")


async def test_layers_of_layers_are_asked_next_and_none_twice(tokens: TokenCounter):
    recalled, _ = await asked(tokens, LOW, cascading(threshold=1.0, first="prospective", max_depth=6))
    assert path(recalled) == [
        ("prospective", 0), ("procedural", 1), ("semantic", 1), ("episodic", 2), ("graph", 2),
    ]  # fmt: skip
    assert descent_of(recalled).ended == "no_layer"


async def test_results_of_all_layers_are_merged_by_their_composite_score(tokens: TokenCounter):
    recalled, _ = await asked(tokens, LOW, cascading(threshold=BETWEEN))
    assert descent_of(recalled).is_merged
    assert sorted(ids(recalled)) == ["episode", "fact", "farther", "procedure", "second"]
    for item in recalled.ranked:
        parts = item.parts
        assert set(parts) == {"confidence", "layer", "recency"}
        assert item.score == pytest.approx(
            0.5 * parts["confidence"] + 0.3 * parts["layer"] + 0.2 * parts["recency"], abs=1e-6
        )
    scores = [item.score for item in recalled.ranked]
    assert scores == sorted(scores, reverse=True)
    first = recalled.ranked[0]
    # 0.5 x 0.771556 + 0.3 x 0.85 + 0.2 x 0.5^(24/72)
    assert (first.memory.id, first.score) == ("episode", pytest.approx(0.799518))


async def test_the_path_is_tracked_with_hits_confidence_and_time(tokens: TokenCounter):
    recalled, _ = await asked(tokens, LOW, cascading(threshold=BETWEEN))
    semantic, episodic, graph, procedural = steps(recalled)
    assert [step.hits for step in steps(recalled)] == [2, 2, 0, 1]
    assert graph.confidence is None
    assert episodic.confidence == recalled.confidence.items[memory_key("default", "episode")].overall
    assert procedural.confidence is not None
    assert all(step.ms > 0 for step in (semantic, episodic, procedural))
    assert descent_of(recalled).layers[memory_key("default", "episode")] == "episodic"
    assert "cascade" in recalled.stage_ms


async def test_confidence_improves(tokens: TokenCounter):
    recalled, _ = await asked(tokens, LOW, cascading(threshold=BETWEEN))
    before = steps(recalled)[0].confidence
    assert before is not None
    assert recalled.confidence.overall is not None
    assert before < BETWEEN <= recalled.confidence.overall


async def test_a_layers_weight_moves_its_items(tokens: TokenCounter):
    facts_first = {"semantic": {"weight": 1.0, "kinds": ["world"], "then": ["episodic"]},
                   "episodic": {"weight": 0.0, "kinds": ["experience"]}}  # fmt: skip
    recalled, _ = await asked(tokens, LOW, cascading(threshold=BETWEEN, layers=facts_first))
    assert ids(recalled) == ["fact", "farther", "episode", "second"]
    facts_first["semantic"]["weight"], facts_first["episodic"]["weight"] = 0.0, 1.0
    recalled, _ = await asked(tokens, LOW, cascading(threshold=BETWEEN, layers=facts_first))
    assert ids(recalled) == ["episode", "second", "fact", "farther"]


async def test_a_weak_procedural_answer_gains_facts_and_an_episode(tokens: TokenCounter):
    found = {WEAK_PROCEDURE: 0.1, FACT: 0.7, FARTHER_FACT: 0.6, EPISODE: 0.65}
    recalled, _ = await asked(tokens, found, cascading(first="procedural", threshold=0.55))
    assert path(recalled) == [("procedural", 0), ("episodic", 1), ("semantic", 1)]
    assert {item.scored.memory.kind for item in recalled.selection.items} == {"procedure", "world", "experience"}


async def test_a_profile_may_count_the_score_that_all_items_get_as_one_pool(tokens: TokenCounter):
    """Each layer's best has the whole of its layer's fusion; as one pool only the closest of all has."""
    alone = {"confidence": 1e-9, "layer": 0.0, "recency": 0.0, "score": 1.0}
    ranking = {"fusion": 1.0, "similarity": 0.0, "recency": 0.0}
    by = cascading(threshold=1.0, max_depth=1, merge=alone).model_copy(
        update={"ranking": profile(ranking=ranking).ranking}
    )
    fusion = by.fusion.model_copy(update={"method": "min_max"})
    recalled, (arm,) = await asked(tokens, LOW, by.model_copy(update={"fusion": fusion}))
    assert ids(recalled) == ["episode", "second", "procedure", "fact", "farther"]
    assert [item.score for item in recalled.ranked] == pytest.approx([1.0, 0.7, 0.6, 0.3, 0.2], abs=1e-6)
    assert len(arm.requests) == 3, "nothing is searched for again"
    assert {item.score for item in descent_of(recalled).before.values()} == {1.0, 0.7, 0.6, 0.3, 0.2}
    recalled, _ = await asked(tokens, LOW, by.model_copy(update={"fusion": fusion}), timeout_s=0.0)
    assert recalled.outcome == "failed"


async def test_each_layer_may_bring_so_many_times_what_the_bundle_holds(tokens: TokenCounter):
    many = {view(f"e{n}", f"{n} boats", kind="experience", ts=NOW): 0.9 - n / 100 for n in range(20)}
    recalled, _ = await asked(tokens, LOW | many, cascading(threshold=1.0, over_fetch=2), options={"k": 3})
    assert len(ids(recalled)) == 3
    assert sum(layer == "episodic" for layer in descent_of(recalled).layers.values()) == 6


async def test_the_question_is_embedded_once_for_all_layers(tokens: TokenCounter):
    class Embedder:
        name, dimension, weights_sha256 = "counting", 2, ""

        def __init__(self) -> None:
            self.texts: list[str] = []

        async def embed_query(self, text: str) -> Vector:
            self.texts.append(text)
            return np.ones(2, np.float32)

        async def embed_documents(self, texts: Sequence[str]) -> Vector:
            raise AssertionError(texts)

    class Index:
        kind = "index"
        damage: str | None = None
        stalled: str | None = None
        searches = 0

        async def search_dense(
            self, vector: Sequence[float], scope: Scope, limit: int, min_score: float
        ) -> list[tuple[int, float]]:
            assert list(vector) == [1.0, 1.0]
            self.searches += 1
            return [(memory_key("default", one.id), near) for one, near in LOW.items() if one.kind in scope.kinds]

        async def search_sparse(
            self, terms: SparseTerms, scope: Scope, limit: int
        ) -> list[list[tuple[int, float]]]:
            raise AssertionError(terms)

    embedder, index = Embedder(), Index()
    made = replace(sources(tokens, [], *LOW), by_name={"vector": VectorSource(index, embedder)})
    recalled = await recall(query(), cascading(threshold=BETWEEN), made, now=NOW)
    assert len(path(recalled)) == 4
    assert index.searches == 3, "the graph layer has no vectors"
    assert embedder.texts == ["what about the crane?"]
    await recall(query(), cascading(threshold=BETWEEN), made, now=NOW)
    assert len(embedder.texts) == 2, "it is the recall that keeps it"


@pytest.mark.parametrize(
    ("options", "layers", "ended"),
    [
        ({"cascade": False}, None, None),
        ({"confidence_threshold": 0.5}, 1, "confident"),
        ({"confidence_threshold": 0.65}, 4, "confident"),
        ({"confidence_threshold": 1.0, "max_cascade_depth": 0}, 1, "depth"),
        ({"confidence_threshold": 1.0, "max_cascade_depth": 1}, 4, "depth"),
    ],
)
async def test_a_caller_may_ask_for_it_with_a_threshold_and_a_depth(
    tokens: TokenCounter, options: dict[str, Any], layers: int | None, ended: str | None
):
    for by, extra in ((cascading(threshold=0.1), {}), (cascading(enabled=False), {"cascade": True})):
        recalled, _ = await asked(tokens, LOW, by, options=extra | options)
        if layers is None or not (extra | options).get("cascade", True):
            assert recalled.cascade is None
        else:
            assert (len(path(recalled)), descent_of(recalled).ended) == (layers, ended)


async def test_without_being_asked_for_there_is_none_and_the_answer_is_the_same(tokens: TokenCounter):
    recalled, (arm,) = await asked(tokens, LOW, profile(), options={"confidence_threshold": 1.0})
    assert recalled.cascade is None
    assert len(arm.requests) == 1
    assert "cascade" not in recalled.stage_ms


async def test_what_the_deadline_cuts_is_said(tokens: TokenCounter):
    by = cascading(threshold=1.0, timeout_ms=600)
    began = asyncio.get_running_loop().time()
    recalled, _ = await asked(tokens, LOW, by, slow=["experience"])
    assert asyncio.get_running_loop().time() - began < 30
    late = {step.layer: step.late for step in steps(recalled)}
    assert late["episodic"] == ("vector",)
    assert late["procedural"] == ()
    assert recalled.outcome == "degraded"
    assert sorted(ids(recalled)) == ["fact", "farther", "procedure"]


async def test_layers_for_which_no_time_is_left_are_named(tokens: TokenCounter):
    by = cascading(threshold=1.0, timeout_ms=400, first="prospective", max_depth=3)
    recalled, _ = await asked(tokens, LOW, by, slow=["procedure"])
    assert descent_of(recalled).ended == "deadline"
    assert [(step.layer, step.not_asked) for step in steps(recalled)[-2:]] == [
        ("episodic", "no_time"), ("graph", "no_time"),
    ]  # fmt: skip
    assert descent_of(recalled).depth == 1
    assert ids(recalled) == ["fact", "farther"]


async def test_no_time_at_all_is_still_an_end(tokens: TokenCounter):
    recalled, _ = await asked(tokens, LOW, cascading(threshold=1.0), timeout_s=0.0)
    assert descent_of(recalled).ended == "deadline"
    assert recalled.outcome == "failed"


async def test_a_layer_without_hits_is_not_sure_and_only_one_with_hits_keeps_its_own_order(tokens: TokenCounter):
    only = {EPISODE: 0.9, SECOND_EPISODE: 0.6}
    recalled, _ = await asked(tokens, only, cascading())
    assert path(recalled) == [("semantic", 0), ("episodic", 1), ("graph", 1), ("procedural", 1)]
    assert not descent_of(recalled).is_merged
    assert "fusion" in recalled.ranked[0].parts
    assert ids(recalled) == ["episode", "second"]


async def test_a_layer_is_never_wider_than_the_query(tokens: TokenCounter):
    recalled, (arm,) = await asked(tokens, LOW, cascading(threshold=1.0), options={"kinds": ["experience"]})
    assert ids(recalled) == ["episode", "second"]
    assert [step.not_asked for step in steps(recalled) if step.layer in ("semantic", "procedural")] == [
        "other_kinds", "other_kinds",
    ]  # fmt: skip
    assert {request.scope.kinds for request in arm.requests} == {("experience",)}


async def test_kinds_that_are_in_no_layer_are_searched_for_without_one(tokens: TokenCounter):
    (incident,) = of_kind("incident", "incident")
    by = cascading(first="semantic", max_depth=0)
    recalled, _ = await asked(tokens, LOW | {incident: 0.4}, by, options={"kinds": ["incident"]})
    assert recalled.cascade is None
    assert (recalled.outcome, ids(recalled)) == ("ok", ["incident"])


async def test_a_layer_is_searched_by_the_profile_that_it_names(tokens: TokenCounter):
    layers: dict[str, Any] = {"semantic": {"then": [], "profile": "deep.v1"}}
    deep = profile(profile="deep.v1", min_similarity=0.15)
    recalled, (arm,) = await asked(tokens, LOW, cascading(layers=layers), profiles={"deep.v1": deep})
    assert arm.requests[0].min_score == 0.15
    assert descent_of(recalled).ended == "confident"
    with pytest.raises(ProfileError, match=r"the layer semantic is to be searched by the profile deep\.v1"):
        await asked(tokens, LOW, cascading(layers=layers))


async def test_what_two_layers_say_alike_is_said_once(tokens: TokenCounter):
    fact = view("fact", "The crane needs a gearbox.", kind="world", ts=NOW)
    said = view("said", "the crane needs a GEARBOX", kind="experience", ts=NOW)
    recalled, _ = await asked(tokens, {fact: 0.3, said: 0.9}, cascading(threshold=1.0))
    assert ids(recalled) == ["said"]
    assert recalled.selection.dropped == {"near_duplicate": 1}


@pytest.mark.asyncio(loop_scope="function")  # all tasks of its loop are its own
@pytest.mark.parametrize("cancelled_after", [0, 3])
async def test_a_recall_that_is_given_up_leaves_no_task_behind(tokens: TokenCounter, cancelled_after: int):
    before = asyncio.all_tasks()
    asking = asyncio.create_task(asked(tokens, LOW, cascading(threshold=1.0), slow=["world", "experience"]))
    for _ in range(cancelled_after):
        await asyncio.sleep(0)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert asyncio.all_tasks() == before


MEMORIES = st.lists(
    st.tuples(
        st.sampled_from(["world", "experience", "procedure", "task", "opinion", "odd"]),
        st.sampled_from(["the crane", "a boat", "The Crane!", "the shed is painted", "起重机"]),
        st.sampled_from([0.0, 0.1, 0.4, 0.9]),
        st.sampled_from([None, NOW, NOW - 30 * DAY]),
    ),
    max_size=12,
)


@given(
    memories=MEMORIES,
    threshold=st.sampled_from([0.0, 0.5, 0.7, 1.0]),
    depth=st.integers(0, 3),
    first=st.sampled_from(LAYER_NAMES),
    k=st.integers(1, 5),
)
async def test_whatever_is_found_is_shown_once_or_counted_once(
    tokens: TokenCounter,
    memories: list[tuple[str, str, float, float | None]],
    threshold: float,
    depth: int,
    first: str,
    k: int,
):
    found: dict[MemoryView, float] = {
        view(f"m{n}", text, kind=kind, ts=ts): near for n, (kind, text, near, ts) in enumerate(memories)
    }
    by = cascading(threshold=threshold, max_depth=depth, first=first, over_fetch=1)
    recalled, _ = await asked(tokens, found, by, arms=("vector", "rdf"), options={"k": k})
    descent, shown = descent_of(recalled), ids(recalled)
    assert len(shown) == len(set(shown))
    assert sum(bool(item.line) for item in recalled.selection.items) <= k
    everything = {hit.key for report in recalled.reports for hit in report.hits}
    assert len(everything) == len(shown) + sum(recalled.selection.dropped.values())
    assert all(count > 0 for count in recalled.selection.dropped.values())
    sure = [step.confidence for step in descent.path if step.confidence is not None]
    assert descent.depth <= depth
    assert (descent.ended == "confident") == (max([*sure, 0.0]) >= threshold)
    layers = [step.layer for step in descent.path]
    assert len(layers) == len(set(layers))
    scores = [item.scored.score for item in recalled.selection.items if item.line]
    assert scores == sorted(scores, reverse=True)
    assert recalled.confidence.items.keys() == {item.scored.candidate.key for item in recalled.selection.items}


async def test_a_memory_that_no_reader_has_is_missing_in_a_cascade_too(tokens: TokenCounter):
    made = replace(sources(tokens, []), readers=(Shelf(),))
    recalled = await recall(query(), cascading(), made, now=NOW)
    assert recalled.outcome == "failed", "no source is configured"
