from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from orion_recall.profile.cascade import LAYER_NAMES, Layers
from orion_recall.recall.cascade.layers import limits_of, profile_of_layer, scope_of_layer
from orion_recall.recall.search.requests import scope_of
from orion_recall.values import Scope
from tests.samples.layered import cascading
from tests.samples.recall_fakes import profile, query

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


def test_a_layer_has_its_own_sources_and_may_have_another_profile():
    light, deep = profile(rdf_top_k=0, enable_sql_timeline=False), profile(profile="deep.v1", graph={"hops": 2})
    layers = Layers.model_validate({"graph": {"sources": ["rdf"], "profile": "deep.v1"}})
    made = profile_of_layer(layers.graph, light, 36, {"deep.v1": deep})
    assert (made.sources_on, made.graph.hops, made.rdf_top_k) == (("rdf",), 2, 36)
    made = profile_of_layer(Layers.model_validate({"meta": {}}).meta, light, 36, {})
    assert made.sources_on == light.sources_on


@pytest.mark.parametrize(("options", "most"), [({}, 300), ({"k": 5}, 15), ({"k": 1000}, 300)])
def test_what_a_layer_may_bring_has_a_limit(options: dict[str, Any], most: int):
    given = query(options=options).options
    assert given is not None
    limits = limits_of(cascading(), given, ALL, None)
    assert limits is not None
    assert limits.most == most


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


@pytest.mark.parametrize(
    ("question_class", "first", "layer"),
    [
        ("factual", None, "semantic"),
        ("temporal", None, "episodic"),
        ("relational", None, "graph"),
        ("procedural", None, "procedural"),
        ("planning", None, "planning"),
        ("prospective", None, "prospective"),
        ("meta", None, "meta"),
        ("temporal", "semantic", "semantic"),
    ],
)
def test_the_first_layer_is_that_of_the_questions_class_unless_the_profile_names_one(
    question_class: str, first: str | None, layer: str
):
    options = query(options={}).options
    assert options is not None
    limits = limits_of(cascading(first=first), options, ALL, None, question_class)
    assert limits is not None
    assert limits.first == layer
