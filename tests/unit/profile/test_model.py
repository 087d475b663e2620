"""The profile's model: sections, limits, strategies, the cascade, the reference."""

from __future__ import annotations

import math
from typing import Any

import jsonschema
import pytest
from pydantic import ValidationError

from orion_recall.profile.model import Profile, ProfileDifference, diff_profiles
from orion_recall.profile.sections import section_values
from orion_recall.schemas import schemas
from orion_recall.values import QUERY_CLASSES
from tests.samples.recall_fakes import profile

REQUIRED: dict[str, Any] = {
    "profile": "test.v1",
    "vector_top_k": 12,
    "rdf_top_k": 6,
    "max_per_source": 4,
    "max_total_items": 12,
    "render_budget_tokens": 256,
}


def by_model(**values: Any) -> Profile:
    return Profile.model_validate(REQUIRED | values)


def errors_of(**values: Any) -> list[tuple[str, str]]:
    with pytest.raises(ValidationError) as caught:
        by_model(**values)
    return [(".".join(map(str, e["loc"])), e.get("ctx", {}).get("key", e["type"])) for e in caught.value.errors()]


def test_every_number_has_a_lower_and_an_upper_bound():
    def numbers(schema: dict[str, Any]) -> list[dict[str, Any]]:
        choices = schema.get("anyOf", [schema])
        return [choice for choice in choices if choice.get("type") in ("integer", "number")]

    schema = schemas()["profile"]
    mappings = [schema, *schema["$defs"].values()]
    found = [(k, n) for m in mappings for k, v in m["properties"].items() for n in numbers(v)]
    assert len(found) > 25
    for key, number in found:
        assert {"minimum", "exclusiveMinimum"} & number.keys(), key
        assert "maximum" in number, key


def test_the_schema_accepts_what_the_model_accepts_and_refuses_unknown_keys_at_every_depth():
    schema = schemas()["profile"]

    def is_valid(values: dict[str, Any]) -> bool:
        try:
            jsonschema.validate(values, schema)
        except jsonschema.ValidationError:
            return False
        return True

    assert is_valid(REQUIRED)
    assert is_valid(by_model().model_dump(mode="json"))
    assert not is_valid(REQUIRED | {"vector_topk": 3})
    assert not is_valid(REQUIRED | {"fusion": {"weights": {"lexcal": 1}}})


@pytest.mark.parametrize(
    ("values", "on"),
    [
        ({}, ("vector", "lexical", "rdf")),
        ({"rdf_top_k": 0, "lexical_top_k": 0, "enable_sql_timeline": True}, ("vector", "sql_timeline")),
        ({"enable_sql_timeline": True, "sql_top_k": 0}, ("vector", "lexical", "rdf")),
        ({"vector_top_k": 0, "rdf_top_k": 0, "enable_sql_timeline": True}, ("sql_timeline",)),
    ],
)
def test_a_top_k_of_zero_switches_a_source_off(values: dict[str, Any], on: tuple[str, ...]):
    assert by_model(**values).sources_on == on
    assert errors_of(vector_top_k=0, rdf_top_k=0) == [("", "vector_top_k")]


def test_the_hash_is_of_the_values_alone():
    written_out = by_model().model_dump()
    assert Profile.model_validate(dict(reversed(written_out.items()))).content_hash == by_model().content_hash
    assert len(by_model().content_hash) == 16


def test_a_difference_names_the_dotted_key_and_both_values():
    left = by_model(profile="a", lexical_top_k=None)
    right = by_model(profile="b", lexical_top_k=3, fusion={"weights": {"rdf": 1}})
    assert diff_profiles(left, right) == [
        ProfileDifference(key="profile", left="a", right="b"),
        ProfileDifference(key="lexical_top_k", left=None, right=3),
        ProfileDifference(key="fusion.weights.rdf", left=0.5, right=1.0),
    ]


@pytest.mark.parametrize(("rate", "hours"), [(0.001, 24 * 29), (0.01, 72), (0.1, 7)])
def test_a_decay_is_a_half_life_or_a_rate(rate: float, hours: float):
    """The table of half-lives: 29 days, 3 days, 7 hours."""
    assert by_model(time_decay_lambda_per_hour=rate).half_life_hours == pytest.approx(hours, rel=0.05)
    both = by_model(time_decay_lambda_per_hour=rate, time_decay_half_life_hours=hours)
    assert both.half_life_hours == pytest.approx(math.log(2) / rate)
    assert by_model().half_life_hours == 72.0


def test_a_half_life_and_a_rate_that_disagree_are_refused():
    values = {"time_decay_lambda_per_hour": 0.1, "time_decay_half_life_hours": 72}
    with pytest.raises(ValidationError, match=r"0\.1 an hour halves in 6\.931 hours, and .* says 72: give one"):
        by_model(**values)
    taken_back = {"temporal": {"time_decay_lambda_per_hour": 0.1, "time_decay_half_life_hours": None}}
    made = by_model(time_decay_half_life_hours=72, strategies=taken_back)
    assert made.for_class("temporal").half_life_hours == pytest.approx(6.93, abs=0.01)
    with pytest.raises(ValidationError, match="give one of the two"):
        by_model(time_decay_half_life_hours=72, strategies={"temporal": {"time_decay_lambda_per_hour": 0.1}})


PROFILE = profile()


def test_sections_that_are_gone_give_their_values_to_no_other():
    for weight in range(500):  # far more than are kept: ids are used again
        section = PROFILE.ranking.model_copy(update={"fusion": weight / 500})
        assert section_values(section)["fusion"] == weight / 500


def test_without_strategies_every_class_is_recalled_by_the_profile_itself():
    plain = by_model()
    assert all(plain.for_class(name) is plain for name in QUERY_CLASSES)
    assert all(plain.strategy_for(name) is None for name in QUERY_CLASSES)
    assert plain.model_dump()["strategies"] == {}


def test_only_what_a_strategy_gives_differs():
    given = by_model(
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
    given = by_model(
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


def test_a_strategy_is_part_of_what_a_profile_is():
    plain, given = (by_model(), by_model(strategies={"temporal": {"ranking": {"time": 0.6}}}))
    assert plain.content_hash != given.content_hash
    told = [ProfileDifference(key="strategies.temporal.ranking.time", left=None, right=0.6)]
    assert diff_profiles(plain, given) == told
    assert [(one.left, one.right) for one in diff_profiles(given, plain)] == [(0.6, None)]


@pytest.mark.parametrize(
    ("values", "error"),
    [
        ({"vector_top_k": "12"}, ("vector_top_k", "int_type")),
        ({"vector_top_k": True}, ("vector_top_k", "int_type")),
        ({"enable_sql_timeline": 1}, ("enable_sql_timeline", "bool_type")),
        ({"time_decay_half_life_hours": float("inf")}, ("time_decay_half_life_hours", "finite_number")),
        ({"vector_top_k": 1001}, ("vector_top_k", "less_than_equal")),
        ({"snippet_tokens": 7}, ("snippet_tokens", "greater_than_equal")),
        ({"fusion": {"k": 0}}, ("fusion.k", "greater_than_equal")),
        (
            {"cascade": {"layers": {"graph": {"then": ["memory"]}}}},
            ("cascade.layers.graph.then.0", "literal_error"),
        ),
        ({"over_budget": "halt"}, ("over_budget", "literal_error")),
        ({"profile": "a" * 65}, ("profile", "string_pattern_mismatch")),
        ({"vector_topk": 3}, ("vector_topk", "extra_forbidden")),
    ],
)
def test_a_wrong_value_is_refused_by_key_and_never_coerced(values: dict[str, Any], error: tuple[str, str]):
    assert errors_of(**values) == [error]


def test_a_profile_whose_sources_all_weigh_nothing_is_refused():
    only_rdf = {"weights": {"vector": 0, "lexical": 0, "sql_timeline": 0}}
    assert by_model(fusion=only_rdf).fusion.weights.rdf == 0.5
    assert errors_of(fusion=only_rdf, rdf_top_k=0) == [("", "fusion.weights")]
    with_cascade = errors_of(fusion=only_rdf, cascade={"enabled": True})
    assert with_cascade == [("", "cascade.layers.episodic.sources")]


@pytest.mark.parametrize("ranking", [{"recency": 0.3}, {"fusion": 0.0, "similarity": 0.3, "recency": 0.1}])
def test_recency_may_not_outvote_relevance(ranking: dict[str, float]):
    assert errors_of(ranking=ranking) == [("", "ranking.recency")]


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
        ({"meta": {"vector_top_k": 0}, "list": {"rdf_top_k": 0}}, "for meta list questions no source is on"),
    ],
)
def test_a_strategy_that_makes_no_profile_is_refused(strategies: dict[str, Any], message: str):
    with pytest.raises(ValidationError, match=message):
        by_model(strategies=strategies)
