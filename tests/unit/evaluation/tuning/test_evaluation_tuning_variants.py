from __future__ import annotations

import pytest

from orion_recall.errors import SettingsError
from orion_recall.evaluation.tuning.variants import (
    ablations,
    at,
    grid_of,
    name_of,
    parts_on,
    with_parts,
    with_sources,
)
from orion_recall.profile import Profile


def profile(**changes: object) -> Profile:
    values = {"profile": "test.v1", "vector_top_k": 6, "rdf_top_k": 4, "enable_sql_timeline": True}
    caps = {"max_per_source": 4, "max_total_items": 8, "render_budget_tokens": 200}
    return Profile.model_validate(values | caps | changes)


def test_a_part_that_counts_only_in_talk_with_an_assistant_is_left_out_there():
    made = profile(ranking_with_assistant={"role": 1.0, "fusion": 0.5})
    assert {"role", "fusion"} <= set(parts_on(made))
    without = with_parts(made, [part for part in parts_on(made) if part != "role"])
    assert without.ranking_of(with_assistant=True).role == 0
    assert without.ranking_of(with_assistant=True).fusion == 0.5


def test_a_grid_goes_over_overrides_too():
    (made,) = [at(profile(), point) for point in grid_of(["ranking_with_assistant.role=1.5"])]
    assert (made.ranking.role, made.ranking_of(with_assistant=True).role) == (0, 1.5)
    (made,) = [at(profile(), point) for point in grid_of(["strategies.recap.max_total_items=3"])]
    assert made.for_class("factual", "recap").max_total_items == 3


def test_decays_are_compared_by_rate_or_half_life_whichever_the_profile_has():
    given = profile(time_decay_half_life_hours=72.0)
    rates = [at(given, point) for point in grid_of(["time_decay_lambda_per_hour=0.001,0.01,0.1"])]
    assert [round(one.half_life_hours, 1) for one in rates] == [693.1, 69.3, 6.9]
    (back,) = [at(rates[0], point) for point in grid_of(["time_decay_half_life_hours=24"])]
    assert back.half_life_hours == 24
    with pytest.raises(SettingsError, match="give one of the two"):
        at(given, {"time_decay_lambda_per_hour": 0.1, "time_decay_half_life_hours": 72.0})


def test_a_grid_is_every_combination_in_the_order_given():
    points = grid_of(["fusion.k=10,60", "ranking.speaker=0,1.5"])
    assert [name_of(point) for point in points] == [
        "fusion.k=10 ranking.speaker=0",
        "fusion.k=10 ranking.speaker=1.5",
        "fusion.k=60 ranking.speaker=0",
        "fusion.k=60 ranking.speaker=1.5",
    ]


def test_a_point_changes_its_keys_and_nothing_else():
    made = at(profile(), grid_of(["fusion.method=min_max", "ranking.speaker=2", "lexical_top_k=null"])[0])
    assert (made.fusion.method, made.ranking.speaker, made.lexical_top_k) == ("min_max", 2.0, None)
    assert at(made, {"fusion.method": "rrf", "ranking.speaker": 0.0}) == profile()


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("fusion.k", "no key=value"),
        ("fusion.k=", "no key=value"),
        ("fusion.q=1", "'fusion.q' is no key of a profile"),
        ("fusion=1", "'fusion' is no key of a profile that has a value"),
        ("ranking.speker=1", r"did you mean ranking\.speaker"),
        ("fusion.k=[1", "no value"),
        ("fusion.k={}", "no single value"),
        ("bm25.k1=-1", "no number from 0"),
        ("bm25.b=true", "no number from 0"),
        (f"rank_pool={','.join(str(number) for number in range(10, 1200))}", "1 to 1000 points"),
    ],
)
def test_what_is_no_grid_is_refused(given: str, told: str):
    with pytest.raises(SettingsError, match=told):
        grid_of([given])


def test_a_key_is_given_once_and_a_grid_is_not_empty():
    with pytest.raises(SettingsError, match="given twice"):
        grid_of(["fusion.k=1", "fusion.k=2"])
    with pytest.raises(SettingsError, match="this has 0"):
        grid_of([])


def test_values_that_no_profile_may_have_are_refused_with_the_point():
    with pytest.raises(SettingsError, match=r"fusion\.k=0"):
        at(profile(), {"fusion.k": 0})


def test_a_key_that_nothing_reads_under_the_method_is_refused():
    under_min_max = at(profile(), {"fusion.method": "min_max"})
    with pytest.raises(SettingsError, match=r"add --set fusion\.method=rrf"):
        at(under_min_max, {"fusion.k": 10})
    assert at(under_min_max, {"fusion.k": 10, "fusion.method": "rrf"}).fusion.k == 10
    with pytest.raises(SettingsError, match=r"ranking\.recency=9"):
        at(profile(), {"ranking.recency": 9.0})


def test_a_source_is_switched_off_alone_though_the_keyword_source_follows_the_vector_source():
    assert with_sources(profile(), ["lexical"]).sources_on == ("lexical",)
    assert with_sources(profile(), ["lexical"]).effective_lexical_top_k == 6
    assert with_sources(profile(), ["vector", "sql_timeline"]).sources_on == ("vector", "sql_timeline")


def test_parts_are_left_with_the_weights_they_have():
    given = profile(ranking={"fusion": 3, "speaker": 2, "recency": 0.5})
    assert parts_on(with_parts(given, ["speaker"])) == ["speaker"]
    assert with_parts(given, ["speaker"]).ranking.speaker == 2


def test_what_there_is_is_taken_away_one_by_one_and_added_to_the_fused_score():
    made = ablations(
        profile(ranking={"fusion": 1, "similarity": 0, "speaker": 1, "recency": 0.1}), ["vector", "lexical", "rdf"]
    )
    assert list(made) == [
        "without source vector", "without source lexical", "without source rdf",
        "source vector alone", "source lexical alone", "source rdf alone",
        "without part fusion", "without part speaker", "without part recency",
        "part fusion alone", "parts fusion and speaker", "parts fusion and recency",
    ]  # fmt: skip
    assert made["without source rdf"].profile.sources_on == ("vector", "lexical")
    assert parts_on(made["parts fusion and speaker"].profile) == ["fusion", "speaker"]
    assert {tuple(one.sources) for one in made.values()} == {("vector", "lexical", "rdf")}


def test_from_a_cascade_a_source_is_taken_away_in_all_its_layers():
    given = profile(rdf_top_k=0, enable_sql_timeline=False, cascade={"enabled": True})
    made = ablations(given, ["vector", "lexical", "rdf"])
    assert [name for name in made if "without source" in name] == [
        "without source vector", "without source lexical", "without source rdf",
    ]  # fmt: skip
    assert made["without source vector"].profile == given
    assert made["without source vector"].sources == ["lexical", "rdf"]
    assert made["source rdf alone"].sources == ["rdf"]


def test_one_source_is_neither_left_out_nor_alone():
    made = ablations(profile(rdf_top_k=0, lexical_top_k=0, enable_sql_timeline=False), ["vector"])
    assert not [name for name in made if "source" in name]
