from __future__ import annotations

from typing import Any

import pytest

from orion_recall.contracts import RecallOptionsV1
from orion_recall.profile.cascade import Layer, LayerName
from orion_recall.recall.cascade.merge import LayerResult, merged, pool_of, united
from orion_recall.recall.cascade.layers import limits_of
from orion_recall.recall.confidence.factors import Confidence, confidence
from orion_recall.recall.pass_result import Dropped, PassResult
from orion_recall.recall.understand.question import understand
from orion_recall.scoring.candidates import ScoredCandidate
from orion_recall.values import Scope, SourceName, SourceReport, SourceStatus
from tests.samples.recall_fakes import NOW, hit, key, profile, query, scored

HALF = confidence(relevance=0.5, quality=0.5, recency=0.5, consistency=0.5, completeness=0.5)
WHOLE = confidence(relevance=1.0, quality=1.0, recency=1.0, consistency=1.0, completeness=1.0)


def reported(
    source: SourceName = "vector", status: SourceStatus = "ok", *, names: str = "", **fields: Any
) -> SourceReport:
    hits = tuple(hit(name, 1.0 - place / 10) for place, name in enumerate(names))
    return SourceReport(source=source, status=status, hits=hits, **fields)


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


def test_a_memory_of_two_layers_counts_where_it_is_best():
    together = by({"semantic": member([of("a")], weight=0.2), "episodic": member([of("a")], weight=0.8)})
    (item,) = together.result.ranked
    assert (item.parts["layer"], together.layers[key("a")]) == (0.8, "episodic")


def test_a_memory_belongs_to_the_layer_that_searches_its_kind():
    together = by(
        {
            "semantic": member([of("a"), of("b")], weight=0.9),
            "procedural": member([of("a")], weight=0.8, kinds=("procedure",)),
        }
    )
    assert together.layers == {key("a"): "procedural", key("b"): "semantic"}
    assert {item.memory.id: item.parts["layer"] for item in together.result.ranked} == {"a": 0.8, "b": 0.9}


@pytest.mark.parametrize(
    ("strategy", "order"),
    [
        ("weighted", "cabd"),
        ("confidence_weighted", "abcd"),
        ("round_robin", "acbd"),
        ("layer_order", "abcd"),
    ],
)
def test_the_order_of_merged_items_can_be_chosen(strategy: str, order: str):
    members: dict[LayerName, LayerResult] = {
        "semantic": member([of("a", 0.9), of("b", 0.8)], weight=0.9, sure=WHOLE),
        "graph": member([of("c", 0.9), of("d", 0.1)], weight=0.1),
    }
    pooled = {key(name): of(name, score) for name, score in zip("abcd", (0.5, 0.4, 0.9, 0.1), strict=True)}
    merge = {"strategy": strategy, "confidence": 0.01, "layer": 0.0, "recency": 0.0, "score": 1.0}
    ranked = by(members, pooled, **merge).result.ranked
    assert "".join(item.memory.id for item in ranked) == order
    assert [item.score for item in ranked] == sorted((item.score for item in ranked), reverse=True)


def test_of_one_layer_alone_nothing_is_changed():
    items = [of("a", 0.9), of("b", 0.4)]
    together = by({"semantic": member(items), "graph": member([])})
    assert list(together.result.ranked) == items
    assert (together.before, together.firsts) == ({}, {key("a")})


def test_the_score_of_the_one_pool_is_used_where_there_is_one():
    members: dict[LayerName, LayerResult] = {"semantic": member([of("a", 0.9)]), "graph": member([of("b", 0.9)])}
    together = by(members, {key("a"): of("a", 0.2)}, confidence=0.0001, layer=0.0, recency=0.0, score=0.9999)
    assert [item.memory.id for item in together.result.ranked] == ["b", "a"]
    assert {name: item.score for name, item in together.before.items()} == {key("a"): 0.2, key("b"): 0.9}


def test_a_source_that_was_silent_for_one_layer_is_so_for_all_and_keeps_what_it_found():
    (vector, lexical, rdf, timeline) = united(
        [
            member([], reported(names="ab", ms=2.0), reported("lexical", "empty", ms=1.0)),
            member([], reported(status="late", ms=5.0, error="no time"), reported("rdf", names="c")),
            member([], reported(names="bd", ms=1.0), reported("rdf", "empty")),
        ]
    ).reports
    assert (vector.status, vector.error, vector.ms) == ("late", "no time", 8.0)
    assert [each.key for each in vector.hits] == [key(name) for name in "abd"], "each once"
    assert (lexical.status, rdf.status, timeline.status) == ("empty", "ok", "off")


def test_what_no_layer_kept_has_one_reason():
    one, other = member([of("a")], reported(names="abxy")), member([of("c")], reported(names="bcx"))
    one.result.dropped.note("excluded", key("b"))
    other.result.dropped.note("filtered", key("b"))
    other.result.dropped.note("filtered", key("a"))
    dropped = united([one, other]).dropped
    assert dict(+dropped) == {"excluded": 1, "rank_pool": 2}
    brief = LayerResult(result=one.result, items=[], confidences={}, layer=Layer(weight=0.5))
    assert dict(+united([brief, other]).dropped)["over_fetch"] == 1


def test_one_pool_has_only_what_the_layers_bring_and_one_list_a_source():
    weak, strong = hit("a", 0.2), hit("c", 0.9)
    pool = pool_of(
        [
            member([of("a")], SourceReport(source="vector", status="ok", hits=(weak, hit("x", 0.1)))),
            member([of("c")], SourceReport(source="vector", status="ok", hits=(strong,))),
        ]
    )
    assert pool.reports[0].hits == (strong, weak)
