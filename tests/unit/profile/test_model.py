"""The profile's model: sections, limits, strategies, the cascade, the reference."""

from __future__ import annotations

import math
import re
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
from orion_recall.profile.cascade import LAYER_NAMES, Cascade, Layers, NoAnswer
from orion_recall.profile.reference import profile_markdown
from orion_recall.profile.section_values import section_values
from orion_recall.values import QUERY_CLASSES
from tests.samples.recall_fakes import profile


def test_every_layer_has_its_name_and_leads_to_others_only():
    assert set(LAYER_NAMES) == set(Layers.model_fields)
    for name in LAYER_NAMES:
        assert name not in Layers().named(name).then


def test_no_answer_is_off_unless_there_is_a_minimum():
    assert not NoAnswer().is_on
    assert NoAnswer(min_score=0.1).is_on
    assert NoAnswer(min_confidence=0.1).is_on


@pytest.mark.parametrize(
    ("changes", "place"),
    [
        ({"first": "sematic"}, "first"),
        ({"merge": {"confidence": 0.0}}, "merge.confidence"),
        ({"threshold": 1.1}, "threshold"),
        ({"over_fetch": 0}, "over_fetch"),
        ({"layers": {"graph": {"then": ["memory"]}}}, "layers.graph.then.0"),
        ({"layers": {"graph": {"sources": ["bm25"]}}}, "layers.graph.sources.0"),
        ({"layers": {"graph": {"kinds": "world"}}}, "layers.graph.kinds"),
        ({"layers": {"memory": {}}}, "layers.memory"),
    ],
)
def test_a_wrong_value_is_refused_by_its_key(changes: dict[str, Any], place: str):
    with pytest.raises(ValidationError) as caught:
        Cascade.model_validate(changes)
    assert [".".join(map(str, error["loc"])) for error in caught.value.errors()] == [place]


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
    assert is_valid(by_model().model_dump(mode="json"))
    assert not is_valid(REQUIRED | {"vector_topk": 3})
    assert not is_valid(REQUIRED | {"fusion": {"weights": {"lexcal": 1}}})


def test_defaults_have_the_types_of_their_fields():
    def check(given: BaseModel) -> None:
        strict = type(given).model_validate(given.model_dump())
        assert repr(strict) == repr(given)  # repr tells 72 from 72.0, and == does not

    check(by_model())


def test_a_profile_cannot_be_changed():
    with pytest.raises(ValidationError, match="frozen"):
        by_model().vector_top_k = 3  # pyright: ignore[reportAttributeAccessIssue]


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
    hours = by_model(time_decay_half_life_hours=24).half_life_hours
    assert (hours, type(hours)) == (24.0, float)


@pytest.mark.parametrize(("budget", "candidates"), [("low", 100), ("mid", 300), ("high", 1000)])
def test_the_budget_says_how_many_candidates_a_source_searches(budget: str, candidates: int):
    assert by_model(budget=budget).candidates == candidates


def test_the_keyword_source_follows_the_vector_source_unless_set():
    assert by_model(vector_top_k=9).effective_lexical_top_k == 9
    assert by_model(vector_top_k=9, lexical_top_k=0).effective_lexical_top_k == 0
    assert by_model(vector_top_k=0, lexical_top_k=5).effective_lexical_top_k == 5


def test_a_top_k_of_zero_switches_a_source_off():
    assert by_model().sources_on == ("vector", "lexical", "rdf")
    assert by_model(rdf_top_k=0, lexical_top_k=0, enable_sql_timeline=True).sources_on == (
        "vector",
        "sql_timeline",
    )
    assert by_model(enable_sql_timeline=True, sql_top_k=0).sources_on == ("vector", "lexical", "rdf")


def test_a_profile_without_any_source_is_refused():
    assert errors_of(vector_top_k=0, rdf_top_k=0) == [("", "no_source")]
    assert by_model(vector_top_k=0, rdf_top_k=0, enable_sql_timeline=True).sources_on == ("sql_timeline",)


def test_a_profile_whose_sources_all_weigh_nothing_is_refused():
    only_rdf = {"weights": {"vector": 0, "lexical": 0, "sql_timeline": 0}}
    assert by_model(fusion=only_rdf).fusion.weights.rdf == 0.5
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
    assert by_model(**FOUNDING).weights(reranked=True)["rerank"] == 0.6
    assert errors_of(ranking=FOUNDING["ranking"]) == [("", "outvoted")]
    assert errors_of(ranking=FOUNDING["ranking"], rerank={"enabled": False, "weight": 0.6}) == [("", "outvoted")]
    assert errors_of(ranking=FOUNDING["ranking"], rerank={"enabled": True, "weight": 0.05}) == [("", "outvoted")]


def test_until_a_reranker_has_judged_recency_has_its_share_of_the_others() -> None:
    weights = by_model(**FOUNDING).weights(reranked=False)
    assert "rerank" not in weights
    assert weights["recency"] == pytest.approx(0.075)
    assert weights["recency"] / sum(weights.values()) == pytest.approx(0.2)
    assert by_model().weights(reranked=False) == by_model().ranking.model_dump()


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
    assert by_model(ranking=ranking).ranking.recency == ranking["recency"]


def test_a_ranking_without_a_relevance_part_is_refused():
    assert errors_of(ranking={"fusion": 0, "similarity": 0, "recency": 0}) == [("ranking", "relevance")]


def test_the_hash_is_of_the_values_alone():
    written_out = by_model().model_dump()
    assert Profile.model_validate(dict(reversed(written_out.items()))).content_hash == by_model().content_hash
    assert len(by_model().content_hash) == 16


@pytest.mark.parametrize("change", [{"rdf_top_k": 7}, {"description": "x"}, {"graph": {"hops": 2}}])
def test_every_change_of_a_value_changes_the_hash(change: dict[str, Any]):
    assert by_model(**change).content_hash != by_model().content_hash


def test_a_copy_with_another_value_has_another_hash():
    first = by_model()
    before = first.content_hash
    assert first.model_copy(update={"rdf_top_k": 7}).content_hash != before


def test_a_difference_names_the_dotted_key_and_both_values():
    left = by_model(profile="a", lexical_top_k=None)
    right = by_model(profile="b", lexical_top_k=3, fusion={"weights": {"rdf": 1}})
    assert diff_profiles(left, right) == [
        ProfileDifference(key="profile", left="a", right="b"),
        ProfileDifference(key="lexical_top_k", left=None, right=3),
        ProfileDifference(key="fusion.weights.rdf", left=0.5, right=1.0),
    ]


def test_a_profile_does_not_differ_from_itself():
    assert diff_profiles(by_model(), by_model()) == []


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


def test_equal_decays_have_equal_hashes_however_they_are_told():
    rate = math.log(2) / 72
    assert by_model(time_decay_lambda_per_hour=rate).content_hash == by_model().content_hash
    assert by_model(time_decay_lambda_per_hour=0.1).content_hash != by_model().content_hash


ROWS = {
    key: (default, takes, words)
    for key, default, takes, words in re.findall(
        r"^- `([A-Za-z_.]+)` \((.+?); (.+?)\): (.+)$", profile_markdown(), re.MULTILINE
    )
}


def test_every_key_has_a_row_the_parts_of_the_score_and_the_layers_have_one_for_all():
    fields = profile_fields()
    keys = {".".join(path) for path in fields if path not in {path[:-1] for path in fields}}
    assert {key for key in keys if not key.startswith(("ranking.", "cascade.layers."))} <= ROWS.keys()
    assert "cascade.layers.LAYER.profile" in ROWS
    assert all(words.endswith(".") for _, _, words in ROWS.values())


def test_defaults_are_written_as_in_a_file():
    defaults = {key: default for key, (default, _, _) in ROWS.items()}
    assert defaults["profile"] == "**required**"
    assert (defaults["lexical_top_k"], defaults["description"]) == ("null", "''")
    assert (defaults["enable_sql_timeline"], defaults["fusion.method"]) == ("false", "rrf")
    assert defaults["strategies"] == "{}"


def test_bounds_and_choices_are_told():
    takes = {key: told for key, (_, told, _) in ROWS.items()}
    assert takes["lexical_top_k"] == takes["vector_top_k"] == "whole number from 0 to 1000"
    assert takes["time_decay_half_life_hours"] == "number above 0 to 1000000"
    assert (takes["scope"], takes["over_budget"]) == ("session, user, global", "skip, stop")
    assert (takes["time.filter"], takes["shadow.profile"], takes["strategies"]) == ("true, false", "text", "keys")


PROFILE = profile()


def test_they_are_those_of_the_section_and_made_once():
    section = PROFILE.ranking
    assert section_values(section) == section.model_dump()
    assert section_values(section) is section_values(section)


def test_a_changed_copy_has_values_of_its_own():
    before = section_values(PROFILE.ranking)
    changed = PROFILE.ranking.model_copy(update={"fusion": 0.123})
    assert section_values(changed)["fusion"] == 0.123
    assert section_values(PROFILE.ranking) == before


def test_sections_that_are_gone_give_their_values_to_no_other():
    for weight in range(500):  # far more than are kept: ids are used again
        section = PROFILE.ranking.model_copy(update={"fusion": weight / 500})
        assert section_values(section)["fusion"] == weight / 500


def test_weights_that_one_recall_changes_are_not_those_of_the_next():
    weighty = PROFILE.model_copy(update={"time": PROFILE.time.model_copy(update={"past_search_weight": 0.25})})
    before = weighty.weights(reranked=False)
    assert weighty.weights(reranked=False, time_decides=True)["time"] == sum(before.values()) - before["time"]
    assert weighty.weights(reranked=False) == before


REQUIRED_of_strategies: dict[str, Any] = {
    "profile": "test.v1",
    "vector_top_k": 12,
    "rdf_top_k": 6,
    "max_per_source": 4,
    "max_total_items": 12,
    "render_budget_tokens": 256,
}


def by_these(**values: Any) -> Profile:
    return Profile.model_validate(REQUIRED_of_strategies | values)


def test_without_strategies_every_class_is_recalled_by_the_profile_itself():
    plain = by_these()
    assert all(plain.for_class(name) is plain for name in QUERY_CLASSES)
    assert all(plain.strategy_for(name) is None for name in QUERY_CLASSES)
    assert plain.model_dump()["strategies"] == {}


def test_only_what_a_strategy_gives_differs():
    given = by_these(
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
    given = by_these(
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
    given = by_these(lexical_top_k=3, strategies={"meta": {"lexical_top_k": None}})
    assert given.for_class("meta").effective_lexical_top_k == 12
    assert given.effective_lexical_top_k == 3


def test_what_is_copied_with_other_values_keeps_its_strategies():
    """As an evaluation does, which gives sources more time."""
    patient = by_these(strategies={"meta": {"rank_pool": 99}}).model_copy(update={"source_timeout_ms": 60_000})
    used = patient.for_class("meta")
    assert (used.source_timeout_ms, used.rank_pool) == (60_000, 99)


def test_strategies_are_written_out_as_they_were_given():
    strategies = {"temporal": {"rank_pool": 96, "ranking": {"time": 0.6}}}
    assert by_these(strategies=strategies).model_dump(mode="json")["strategies"] == strategies


def test_a_strategy_is_part_of_what_a_profile_is():
    plain, given = (
        by_these(),
        by_these(strategies={"temporal": {"ranking": {"time": 0.6}}}),
    )
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
        by_these(strategies=strategies)
