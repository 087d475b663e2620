"""The cascade: layers, merging, confidence of an item."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from orion_recall.contracts import RecallOptionsV1
from orion_recall.models.batching import Vector
from orion_recall.models.sparse import SparseTerms
from orion_recall.models.tokenizer import TokenCounter
from orion_recall.profile.sections import Layer
from orion_recall.recall.cascade import LayerResult, limits_of, merged, scope_of_layer
from orion_recall.recall.confidence.answer import Confidence, confidence
from orion_recall.recall.pipeline import recall
from orion_recall.recall.search.requests import scope_of
from orion_recall.recall.types import Dropped, PassResult
from orion_recall.recall.understand.question import understand
from orion_recall.scoring.candidates import ScoredCandidate
from orion_recall.sources.vector_lexical import VectorSource
from orion_recall.text.normal import memory_key
from orion_recall.values import LAYER_NAMES, LayerName, MemoryView, Scope, SourceReport
from tests.samples.layered import DAY, asked, cascading, descent_of, ids, of_kind, path, steps
from tests.samples.recall_fakes import NOW, key, profile, query, scored, sources, view

ALL = Scope(tenant="default")


@pytest.mark.parametrize(
    ("layer", "fields", "seen"),
    [
        ({"kinds": ["a", "b"]}, {}, {"kinds": ("a", "b")}),
        ({"kinds": ["a", "b"]}, {"options": {"kinds": ["b", "c"]}}, {"kinds": ("b",)}),
        ({"kinds": ["a"]}, {"options": {"kinds": ["c"]}}, "other_kinds"),
        ({"tags": ["a", "b"]}, {"options": {"tags": ["b"]}}, {"tags": ("b",)}),
        ({"tags": ["a"]}, {"options": {"tags": ["b"]}}, "other_tags"),
        ({"scope": "session"}, {"session_id": "s"}, {"session_id": "s"}),
        ({"scope": "session"}, {}, "no_session"),
        ({"scope": "user"}, {}, "no_user"),
        ({"scope": "user"}, {"options": {"user": "u"}}, {"user_id": "u"}),
        (
            {"scope": "user"},
            {"session_id": "s", "options": {"user": "u", "scope": "session"}},
            {"session_id": "s", "user_id": "u"},
        ),
        ({"scope": "global"}, {"session_id": "s", "options": {"scope": "session"}}, {"session_id": "s"}),
        ({"scope": "global"}, {"session_id": "s"}, {}),
        ({}, {"session_id": "s"}, {"session_id": "s"}),
    ],
)
def test_what_a_layer_may_see(layer: dict[str, Any], fields: dict[str, Any], seen: dict[str, Any] | str):
    by = profile(scope="session", cascade={"enabled": True, "layers": {"semantic": layer}})
    asking = query(**{"session_id": "x", **fields} if "session_id" not in fields and layer == {} else fields)
    wide = by if asking.session_id else by.model_copy(update={"scope": "global"})
    assert asking.options is None or asking.options.scope is None or asking.session_id
    options = asking.options or query(options={}).options
    assert options is not None
    limits = limits_of(wide, options, scope_of(asking, wide, "default"), asking.session_id)
    assert limits is not None
    found = scope_of_layer(wide.cascade.layers.semantic, limits)
    assert found == (seen if isinstance(seen, str) else replace(ALL, **seen))


def test_the_shipped_precedence_is_the_founding_documents():
    layers = profile().cascade.layers
    assert {name: layers.named(name).then for name in LAYER_NAMES} == {
        "semantic": ("episodic", "graph", "procedural"),
        "episodic": ("semantic", "graph"),
        "procedural": ("episodic", "semantic"),
        "prospective": ("procedural", "semantic"),
        "graph": ("semantic", "episodic"),
        "meta": ("semantic", "graph"),
        "planning": ("semantic", "procedural"),
    }
    assert (profile().cascade.threshold, profile().cascade.max_depth, profile().cascade.over_fetch) == (0.5, 2, 3)


HALF = confidence(relevance=0.5, quality=0.5, recency=0.5, consistency=0.5, completeness=0.5)
WHOLE = confidence(relevance=1.0, quality=1.0, recency=1.0, consistency=1.0, completeness=1.0)


def member(
    items: list[ScoredCandidate],
    *reports: SourceReport,
    weight: float = 0.5,
    sure: Confidence = HALF,
    kinds: tuple[str, ...] = (),
) -> LayerResult:
    found = PassResult(
        reports=reports,
        within=(),
        pool=[item.candidate for item in items],
        memories={},
        scored=items,
        ranked=tuple(items),
        dropped=Dropped(),
    )
    return LayerResult(
        result=found,
        items=items,
        confidences={item.candidate.key: sure for item in items},
        layer=Layer(weight=weight, kinds=kinds),
    )


def of(name: str, score: float = 0.5, **fields: Any) -> ScoredCandidate:
    return scored(name, f"the words of {name}", score=score, **fields)


def by(
    members: dict[LayerName, LayerResult], pooled: dict[int, ScoredCandidate] | None = None, **merge: Any
) -> Any:
    own = profile(cascade={"enabled": True, "merge": merge})
    limits = limits_of(own, RecallOptionsV1(), Scope(tenant="default"), None)
    assert limits is not None
    return merged(members, pooled or {}, limits, own, understand(query(), own, now=NOW, speakers=frozenset()))


def test_a_worked_composite_score():
    together = by(
        {
            "semantic": member([of("a", ts=NOW)], weight=0.9, sure=WHOLE),
            "graph": member([of("b", ts=NOW - 72 * 3600)], weight=0.75),
        }
    )
    # 0.5 x 1 + 0.3 x 0.9 + 0.2 x 1, and 0.5 x 0.5 + 0.3 x 0.75 + 0.2 x 0.5
    assert [(item.memory.id, item.score) for item in together.result.ranked] == [("a", 0.97), ("b", 0.575)]
    assert together.firsts == {key("a"), key("b")}


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

        async def names_sharing_words(self, text: str, tenant: str, limit: int) -> Sequence[tuple[str, ...]]:
            raise AssertionError(text)

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


async def test_what_the_deadline_cuts_is_said(tokens: TokenCounter):
    by = cascading(threshold=1.0, timeout_ms=600)
    began = asyncio.get_running_loop().time()
    recalled, _ = await asked(tokens, LOW, by, slow=["experience"])
    assert asyncio.get_running_loop().time() - began < 30
    late = {step.layer: step.late for step in steps(recalled)}
    assert late["episodic"] == ["vector"]
    assert late["procedural"] == []
    assert recalled.outcome == "degraded"
    assert sorted(ids(recalled)) == ["fact", "farther", "procedure"]


async def test_a_layer_is_never_wider_than_the_query(tokens: TokenCounter):
    recalled, (arm,) = await asked(tokens, LOW, cascading(threshold=1.0), options={"kinds": ["experience"]})
    assert ids(recalled) == ["episode", "second"]
    assert [step.not_asked for step in steps(recalled) if step.layer in ("semantic", "procedural")] == [
        "other_kinds", "other_kinds",
    ]  # fmt: skip
    assert {request.scope.kinds for request in arm.requests} == {("experience",)}


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
    assert max((one for _, one in path(recalled)), default=0) <= depth
    assert (descent.ended == "confident") == (max([*sure, 0.0]) >= threshold)
    layers = [step.layer for step in descent.path]
    assert len(layers) == len(set(layers))
    scores = [item.scored.score for item in recalled.selection.items if item.line]
    assert scores == sorted(scores, reverse=True)
    assert recalled.confidence.items.keys() == {item.scored.candidate.key for item in recalled.selection.items}


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
