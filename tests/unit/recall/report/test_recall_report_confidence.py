from __future__ import annotations

from typing import Any

import pytest
from orion_recall.recall.report.confidence import cascade_json

from orion_recall.contracts import CascadeV1
from orion_recall.models.tokenizer import TokenCounter
from orion_recall.profile import Profile
from tests.samples.layered import asked, cascading, of_kind

FACT, FARTHER = of_kind("world", "fact", "farther")
EPISODE, PROCEDURE = *of_kind("experience", "episode"), *of_kind("procedure", "procedure")
FOUND = {FACT: 0.2, FARTHER: 0.1, EPISODE: 0.9, PROCEDURE: 0.5}


async def told(tokens: TokenCounter, by: Profile, **fields: object) -> CascadeV1:
    recalled, _ = await asked(tokens, FOUND, by, **fields)  # pyright: ignore[reportArgumentType]
    assert recalled.cascade is not None
    return cascade_json(recalled.cascade, recalled.confidence, recalled.selection)


async def test_the_whole_way_is_told(tokens: TokenCounter):
    way = await told(tokens, cascading(threshold=0.6))
    assert (way.primary_layer, way.primary_confidence) == ("semantic", 0.539055)
    assert way.trigger == "the confidence 0.539 of semantic is under the threshold 0.6"
    assert way.cascaded_to == ["episodic", "graph", "procedural"]
    assert way.cascade_confidences == [0.771555, None, 0.619055]
    assert (way.final_confidence, way.depth, way.max_depth) == (0.771555, 1, 2)
    assert (way.ended, way.reason) == ("confident", "episodic is sure enough: 0.772")
    assert way.merge_strategy == "confidence_weighted"
    assert way.combined == {"semantic": 2, "episodic": 1, "procedural": 1}
    assert [(step.layer, step.depth, step.hits) for step in way.path] == [
        ("semantic", 0, 2), ("episodic", 1, 1), ("graph", 1, 0), ("procedural", 1, 1),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "ended", "reason"),
    [
        ({"threshold": 0.5}, "confident", "semantic is sure enough: 0.539"),
        (
            {"threshold": 0.9, "max_depth": 0},
            "depth",
            "next layers may be asked 0 times at most; the surest layer had 0.539",
        ),
        ({"threshold": 0.9}, "no_layer", "there is no further layer; the surest layer had 0.772"),
    ],
)
async def test_why_it_ended_is_said(tokens: TokenCounter, changes: dict[str, Any], ended: str, reason: str):
    way = await told(tokens, cascading(**changes))
    assert (way.ended, way.reason) == (ended, reason)


@pytest.mark.parametrize(
    ("merge", "strategy"),
    [
        ({}, "confidence_weighted"),
        ({"confidence": 0.2, "layer": 0.05, "recency": 0.0, "score": 0.75}, "score_weighted"),
        ({"confidence": 0.2, "layer": 0.5}, "layer_weighted"),
        ({"confidence": 0.2, "layer": 0.1, "recency": 0.3}, "recency_weighted"),
        ({"confidence": 0.5, "score": 0.5}, "confidence_weighted"),
    ],
)
async def test_the_merge_is_named_after_what_weighs_most_in_it(
    tokens: TokenCounter, merge: dict[str, float], strategy: str
):
    way = await told(tokens, cascading(threshold=0.6, merge=merge))
    assert way.merge_strategy == strategy


async def test_a_first_layer_that_is_sure_enough_has_nothing_merged(tokens: TokenCounter):
    way = await told(tokens, cascading())
    assert way.trigger == "the confidence 0.539 of semantic is not under the threshold 0.5"
    assert (way.cascaded_to, way.merge_strategy, way.depth) == ([], None, 0)


async def test_what_was_cut_is_named(tokens: TokenCounter):
    way = await told(
        tokens, cascading(threshold=1.0, first="prospective", timeout_ms=40, max_depth=3), slow=["procedure"]
    )
    assert way.trigger == "prospective found nothing"
    assert way.reason == "no time was left for episodic, graph; the surest layer had 0.539"
    assert {step.layer: step.late for step in way.path if step.late} == {"procedural": ["vector"]}


async def test_a_layer_that_may_see_nothing_says_so(tokens: TokenCounter):
    way = await told(tokens, cascading(threshold=1.0), options={"kinds": ["experience"]})
    assert way.trigger == "semantic was not asked: the query asks for other kinds"
    assert way.cascaded_to == ["episodic", "graph"]
    assert way.path[3].not_asked == "the query asks for other kinds"


async def test_why_a_layer_is_not_sure_enough_is_said(tokens: TokenCounter):
    way = await told(tokens, cascading(threshold=0.5, min_relevance=0.3))
    assert way.trigger == "the relevance 0.200 of the first item of semantic is under 0.3"
    assert (way.path[0].relevance, way.min_relevance, way.reason) == (0.2, 0.3, "episodic is sure enough: 0.772")
