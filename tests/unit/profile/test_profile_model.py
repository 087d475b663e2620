from __future__ import annotations

import math
from typing import Any

import jsonschema
import pytest
from pydantic import BaseModel, ValidationError

from orion_recall.profile import (
    Profile,
    ProfileDifference,
    diff_profiles,
    profile_fields,
    profile_json_schema,
)

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


def errors_of(**values: Any) -> list[tuple[str, str]]:
    with pytest.raises(ValidationError) as caught:
        profile(**values)
    return [(".".join(map(str, e["loc"])), e["type"]) for e in caught.value.errors()]


def test_every_key_is_described_in_a_sentence():
    for path, field in profile_fields().items():
        assert field.description is not None, path
        assert field.description.endswith("."), path


def test_every_number_has_a_lower_and_an_upper_bound():
    def numbers(schema: dict[str, Any]) -> list[dict[str, Any]]:
        choices = schema.get("anyOf", [schema])
        return [choice for choice in choices if choice.get("type") in ("integer", "number")]

    schema = profile_json_schema()
    mappings = [schema, *schema["$defs"].values()]
    found = [(k, n) for m in mappings for k, v in m["properties"].items() for n in numbers(v)]
    assert len(found) > 25
    for key, number in found:
        assert {"minimum", "exclusiveMinimum"} & number.keys(), key
        assert "maximum" in number, key


def test_the_schema_accepts_what_the_model_accepts_and_refuses_unknown_keys_at_every_depth():
    schema = profile_json_schema()

    def is_valid(values: dict[str, Any]) -> bool:
        try:
            jsonschema.validate(values, schema)
        except jsonschema.ValidationError:
            return False
        return True

    assert is_valid(REQUIRED)
    assert is_valid(profile().model_dump(mode="json"))
    assert not is_valid(REQUIRED | {"vector_topk": 3})
    assert not is_valid(REQUIRED | {"fusion": {"weights": {"lexcal": 1}}})


def test_defaults_have_the_types_of_their_fields():
    def check(given: BaseModel) -> None:
        strict = type(given).model_validate(given.model_dump())
        assert repr(strict) == repr(given)  # repr tells 72 from 72.0, and == does not

    check(profile())


def test_a_profile_cannot_be_changed():
    with pytest.raises(ValidationError, match="frozen"):
        profile().vector_top_k = 3  # pyright: ignore[reportAttributeAccessIssue]


@pytest.mark.parametrize(
    ("values", "error"),
    [
        ({"vector_top_k": "12"}, ("vector_top_k", "int_type")),
        ({"vector_top_k": 12.0}, ("vector_top_k", "int_type")),
        ({"vector_top_k": True}, ("vector_top_k", "int_type")),
        ({"recency_floor": "0.1"}, ("recency_floor", "float_type")),
        ({"enable_sql_timeline": 1}, ("enable_sql_timeline", "bool_type")),
        ({"min_score": float("nan")}, ("min_score", "finite_number")),
        ({"time_decay_half_life_hours": float("inf")}, ("time_decay_half_life_hours", "finite_number")),
        ({"time_decay_half_life_hours": 0}, ("time_decay_half_life_hours", "greater_than")),
        ({"vector_top_k": 1001}, ("vector_top_k", "less_than_equal")),
        ({"lexical_top_k": -1}, ("lexical_top_k", "greater_than_equal")),
        ({"snippet_tokens": 7}, ("snippet_tokens", "greater_than_equal")),
        ({"graph": {"hops": 3}}, ("graph.hops", "less_than_equal")),
        ({"fusion": {"k": 0}}, ("fusion.k", "greater_than_equal")),
        ({"fusion": {"weights": {"rdf": -0.1}}}, ("fusion.weights.rdf", "greater_than_equal")),
        ({"over_budget": "halt"}, ("over_budget", "literal_error")),
        ({"profile": "Reflect"}, ("profile", "string_pattern_mismatch")),
        ({"profile": "a" * 65}, ("profile", "string_pattern_mismatch")),
        ({"profile": "reflect\n"}, ("profile", "string_pattern_mismatch")),
        ({"vector_topk": 3}, ("vector_topk", "extra_forbidden")),
    ],
)
def test_a_wrong_value_is_refused_by_key_and_never_coerced(values: dict[str, Any], error: tuple[str, str]):
    assert errors_of(**values) == [error]


def test_a_whole_number_is_taken_where_a_fraction_is_wanted():
    hours = profile(time_decay_half_life_hours=24).half_life_hours
    assert (hours, type(hours)) == (24.0, float)


@pytest.mark.parametrize(("budget", "candidates"), [("low", 100), ("mid", 300), ("high", 1000)])
def test_the_budget_says_how_many_candidates_a_source_searches(budget: str, candidates: int):
    assert profile(budget=budget).candidates == candidates


def test_the_keyword_source_follows_the_vector_source_unless_set():
    assert profile(vector_top_k=9).effective_lexical_top_k == 9
    assert profile(vector_top_k=9, lexical_top_k=0).effective_lexical_top_k == 0
    assert profile(vector_top_k=0, lexical_top_k=5).effective_lexical_top_k == 5


def test_a_top_k_of_zero_switches_a_source_off():
    assert profile().sources_on == ("vector", "lexical", "rdf")
    assert profile(rdf_top_k=0, lexical_top_k=0, enable_sql_timeline=True).sources_on == (
        "vector",
        "sql_timeline",
    )
    assert profile(enable_sql_timeline=True, sql_top_k=0).sources_on == ("vector", "lexical", "rdf")


def test_a_profile_without_any_source_is_refused():
    assert errors_of(vector_top_k=0, rdf_top_k=0) == [("", "no_source")]
    assert profile(vector_top_k=0, rdf_top_k=0, enable_sql_timeline=True).sources_on == ("sql_timeline",)


def test_a_profile_whose_sources_all_weigh_nothing_is_refused():
    only_rdf = {"weights": {"vector": 0, "lexical": 0, "sql_timeline": 0}}
    assert profile(fusion=only_rdf).fusion.weights.rdf == 0.5
    assert errors_of(fusion=only_rdf, rdf_top_k=0) == [("", "no_weight")]
    assert errors_of(fusion=only_rdf, cascade={"enabled": True}) == [("", "no_weight")]


@pytest.mark.parametrize(
    "ranking",
    [
        {"recency": 0.3},
        {"fusion": 0.0, "similarity": 0.3, "recency": 0.1},
    ],
)
def test_recency_may_not_outvote_relevance(ranking: dict[str, float]):
    assert errors_of(ranking=ranking) == [("", "outvoted")]


FOUNDING: dict[str, Any] = {
    "ranking": {"fusion": 0.2, "similarity": 0.0, "time": 0.1, "recency": 0.1},
    "rerank": {"enabled": True, "weight": 0.6},
}


def test_a_rerankers_weight_is_relevance_too() -> None:
    assert profile(**FOUNDING).weights(reranked=True)["rerank"] == 0.6
    assert errors_of(ranking=FOUNDING["ranking"]) == [("", "outvoted")]
    assert errors_of(ranking=FOUNDING["ranking"], rerank={"enabled": False, "weight": 0.6}) == [("", "outvoted")]
    assert errors_of(ranking=FOUNDING["ranking"], rerank={"enabled": True, "weight": 0.05}) == [("", "outvoted")]


def test_until_a_reranker_has_judged_recency_has_its_share_of_the_others() -> None:
    weights = profile(**FOUNDING).weights(reranked=False)
    assert "rerank" not in weights
    assert weights["recency"] == pytest.approx(0.075)
    assert weights["recency"] / sum(weights.values()) == pytest.approx(0.2)
    assert profile().weights(reranked=False) == profile().ranking.model_dump()


@pytest.mark.parametrize(
    "ranking",
    [
        {"fusion": 0.7, "similarity": 0.1, "recency": 0.2},  # 0.8 of the sum, less the last bit
        {"fusion": 0.4, "similarity": 0.2, "neighbour": 0.1, "speaker": 0.1, "recency": 0.2},
        {"fusion": 4, "similarity": 0, "recency": 1},
        {"fusion": 0, "similarity": 1, "recency": 0},
    ],
)
def test_relevance_may_have_exactly_four_fifths_of_the_weights(ranking: dict[str, float]):
    assert profile(ranking=ranking).ranking.recency == ranking["recency"]


def test_a_ranking_without_a_relevance_part_is_refused():
    assert errors_of(ranking={"fusion": 0, "similarity": 0, "recency": 0}) == [("ranking", "relevance")]


def test_the_hash_is_of_the_values_alone():
    written_out = profile().model_dump()
    assert Profile.model_validate(dict(reversed(written_out.items()))).content_hash == profile().content_hash
    assert len(profile().content_hash) == 16


@pytest.mark.parametrize("change", [{"rdf_top_k": 7}, {"description": "x"}, {"graph": {"hops": 2}}])
def test_every_change_of_a_value_changes_the_hash(change: dict[str, Any]):
    assert profile(**change).content_hash != profile().content_hash


def test_a_copy_with_another_value_has_another_hash():
    first = profile()
    before = first.content_hash
    assert first.model_copy(update={"rdf_top_k": 7}).content_hash != before


def test_a_difference_names_the_dotted_key_and_both_values():
    left = profile(profile="a", lexical_top_k=None)
    right = profile(profile="b", lexical_top_k=3, fusion={"weights": {"rdf": 1}})
    assert diff_profiles(left, right) == [
        ProfileDifference(key="profile", left="a", right="b"),
        ProfileDifference(key="lexical_top_k", left=None, right=3),
        ProfileDifference(key="fusion.weights.rdf", left=0.5, right=1.0),
    ]


def test_a_profile_does_not_differ_from_itself():
    assert diff_profiles(profile(), profile()) == []


@pytest.mark.parametrize(("rate", "hours"), [(0.001, 24 * 29), (0.01, 72), (0.1, 7)])
def test_a_decay_is_a_half_life_or_a_rate(rate: float, hours: float):
    """The table of half-lives: 29 days, 3 days, 7 hours."""
    assert profile(time_decay_lambda_per_hour=rate).half_life_hours == pytest.approx(hours, rel=0.05)
    both = profile(time_decay_lambda_per_hour=rate, time_decay_half_life_hours=hours)
    assert both.half_life_hours == pytest.approx(math.log(2) / rate)
    assert profile().half_life_hours == 72.0


def test_a_half_life_and_a_rate_that_disagree_are_refused():
    values = {"time_decay_lambda_per_hour": 0.1, "time_decay_half_life_hours": 72}
    with pytest.raises(ValidationError, match=r"0\.1 an hour halves in 6\.931 hours, and .* says 72: give one"):
        profile(**values)
    taken_back = {"temporal": {"time_decay_lambda_per_hour": 0.1, "time_decay_half_life_hours": None}}
    made = profile(time_decay_half_life_hours=72, strategies=taken_back)
    assert made.for_class("temporal").half_life_hours == pytest.approx(6.93, abs=0.01)
    with pytest.raises(ValidationError, match="give one of the two"):
        profile(time_decay_half_life_hours=72, strategies={"temporal": {"time_decay_lambda_per_hour": 0.1}})


def test_equal_decays_have_equal_hashes_however_they_are_told():
    rate = math.log(2) / 72
    assert profile(time_decay_lambda_per_hour=rate).content_hash == profile().content_hash
    assert profile(time_decay_lambda_per_hour=0.1).content_hash != profile().content_hash
