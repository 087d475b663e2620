from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from orion_recall.profile import Profile, ProfileDifference, diff_profiles
from orion_recall.values import QUERY_CLASSES

REQUIRED: dict[str, Any] = {
    "profile": "test.v1",
    "vector_top_k": 12,
    "rdf_top_k": 6,
    "max_per_source": 4,
    "max_total_items": 12,
    "render_budget_tokens": 256,
}


def profile(**values: Any) -> Profile:
    return Profile.model_validate(REQUIRED | values)


def test_without_strategies_every_class_is_recalled_by_the_profile_itself():
    plain = profile()
    assert all(plain.for_class(name) is plain for name in QUERY_CLASSES)
    assert all(plain.strategy_for(name) is None for name in QUERY_CLASSES)
    assert plain.model_dump()["strategies"] == {}


def test_only_what_a_strategy_gives_differs():
    given = profile(
        rank_pool=48,
        fusion={"k": 10, "weights": {"rdf": 0.2}},
        strategies={"relational": {"fusion": {"weights": {"rdf": 2}}, "lexical_top_k": None}},
    )
    used = given.for_class("relational")
    assert used.fusion.weights.rdf == 2.0
    assert (used.fusion.k, used.fusion.weights.vector, used.rank_pool) == (10, 1.0, 48)
    assert given.strategy_for("relational") == "relational"
    assert given.strategy_for("meta") is None


def test_a_shape_is_on_top_of_the_class():
    given = profile(
        strategies={
            "temporal": {"rank_pool": 90, "snippet_tokens": 40},
            "list": {"snippet_tokens": 20},
            "recap": {},
        }
    )
    used = given.for_class("temporal", "list")
    assert (used.rank_pool, used.snippet_tokens) == (90, 20)
    assert given.for_class("meta", "list").rank_pool == given.rank_pool
    assert given.strategy_for("temporal", "list") == "temporal+list"
    assert given.strategy_for("meta", "list") == "list"
    assert given.strategy_for("meta", "recap") is None


def test_null_is_a_value_where_a_key_takes_it():
    given = profile(lexical_top_k=3, strategies={"meta": {"lexical_top_k": None}})
    assert given.for_class("meta").effective_lexical_top_k == 12
    assert given.effective_lexical_top_k == 3


def test_what_is_copied_with_other_values_keeps_its_strategies():
    """As an evaluation does, which gives sources more time."""
    patient = profile(strategies={"meta": {"rank_pool": 99}}).model_copy(update={"source_timeout_ms": 60_000})
    used = patient.for_class("meta")
    assert (used.source_timeout_ms, used.rank_pool) == (60_000, 99)


def test_strategies_are_written_out_as_they_were_given():
    strategies = {"temporal": {"rank_pool": 96, "ranking": {"time": 0.6}}}
    assert profile(strategies=strategies).model_dump(mode="json")["strategies"] == strategies


def test_a_strategy_is_part_of_what_a_profile_is():
    plain, given = profile(), profile(strategies={"temporal": {"ranking": {"time": 0.6}}})
    assert plain.content_hash != given.content_hash
    told = [ProfileDifference(key="strategies.temporal.ranking.time", left=None, right=0.6)]
    assert diff_profiles(plain, given) == told
    assert [(one.left, one.right) for one in diff_profiles(given, plain)] == [(0.6, None)]


@pytest.mark.parametrize(
    ("strategies", "message"),
    [
        ({"temporal": {"ranking": {"recency": 50}}}, "for temporal questions .* recency must not outvote"),
        ({"meta": {"vector_top_k": 0, "rdf_top_k": 0}}, "for meta questions no source is on"),
        ({"meta": {"scope": "user"}}, "Extra inputs"),
        ({"meta": {"time": {"day_first": True}}}, "Extra inputs"),
        ({"meta": {"rank_pool": 1}}, "greater than or equal to 10"),
        ({"meta": {"rank_pool": None}}, "valid integer"),
        ({"memory": {}}, "Extra inputs"),
        ({"list": {"rank_pool": 1}}, "greater than or equal to 10"),
        (
            {"meta": {"vector_top_k": 0}, "list": {"rdf_top_k": 0}},
            "for meta list questions no source is on",
        ),
    ],
)
def test_a_strategy_that_makes_no_profile_is_refused(strategies: dict[str, Any], message: str):
    with pytest.raises(ValidationError, match=message):
        profile(strategies=strategies)
