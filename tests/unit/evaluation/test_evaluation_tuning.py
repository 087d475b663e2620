"""Tuning: weights learned from lists and tables of candidates, the profile that is written, and grids of values."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from orion_recall.errors import EvaluationError, SettingsError
from orion_recall.evaluation.dataset import RunLine
from orion_recall.evaluation.measures import figures_of
from orion_recall.evaluation.tune import (
    NOT_LEARNED,
    PARTS,
    Candidates,
    LearningOptions,
    Tuned,
    at,
    grid_of,
    learn_weights,
    name_of,
    weights_of,
    write_profile,
)
from orion_recall.profile import Profile
from orion_recall.profile.reading import load_profile
from orion_recall.shipped import shipped_folder
from tests.samples.evaluation_samples import judged_query

Values = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

LEARNING = LearningOptions(parts=tuple(name for name in PARTS if name != NOT_LEARNED), step=0.01)


@pytest.fixture(scope="module")
def profile() -> Profile:
    return load_profile(shipped_folder("profiles") / "reflect.v1.yaml")


def table(rows: Mapping[str, Mapping[str, float]], *evidence: str) -> Candidates:
    """Candidates with the parts that are given, all others being 0.5."""
    return Candidates(
        query=judged_query("q", *evidence),
        values=np.array([[parts.get(name, 0.5) for name in PARTS] for parts in rows.values()]),
        relevant=np.array([name in evidence for name in rows]),
    )


# The profile's own weights put b before a.
ROWS: Mapping[str, Mapping[str, float]] = {
    "a": {"speaker": 1.0, "late": 0.1},
    "b": {"speaker": 0.0, "late": 0.9},
    "c": {"speaker": 0.0, "late": 0.6},
    "x": {"speaker": 1.0, "late": 1.0},
}


def test_the_greatest_weight_is_one_and_recency_keeps_its_share(profile: Profile) -> None:
    given = profile.ranking
    found = weights_of([table(ROWS, "a")] * 30, profile, LEARNING)
    assert max(found.values()) == found["speaker"] == 1.0
    share = given.recency / sum(given.model_dump().values())
    assert found["recency"] / sum(found.values()) == pytest.approx(share, abs=0.01)


@pytest.mark.parametrize(("own", "held_out", "loss"), [("ax", "xa", 1.0), ("xa", "ax", 0.0), ("ax", "ax", 0.0)])
def test_a_loss_is_measured_on_queries_held_out(profile: Profile, own: str, held_out: str, loss: float) -> None:
    runs = {
        name: {"q": RunLine(ranked=tuple(ranked), selected=None, line=1)}
        for name, ranked in (("reflect.v1", own), ("learned, held out", held_out))
    }
    figures = figures_of(runs, [judged_query("q", "a")], against="reflect.v1", depths=(1, 2))
    tuned = Tuned(folds={}, weights={}, figures=figures, profile=profile)
    assert tuned.loss == loss


def drawn(weights: list[float], *, queries: int = 400, seed: int = 3) -> tuple[list[Values], list[Flags]]:
    """Lists in which the relevant one is drawn by the softmax of a linear score with these weights."""
    dice = np.random.default_rng(seed)
    lists, relevant = list[Values](), list[Flags]()
    for _ in range(queries):
        values = dice.random((12, len(weights)))
        raised = np.exp(values @ np.array(weights))
        flags = np.zeros(12, dtype=np.bool_)
        flags[dice.choice(12, p=raised / raised.sum())] = True
        lists.append(values)
        relevant.append(flags)
    return lists, relevant


def test_the_weights_that_made_the_lists_are_found_again() -> None:
    lists, relevant = drawn([6.0, 3.0, 0.0], queries=3000)
    found = learn_weights(lists, relevant, l2=0.01)
    assert found == pytest.approx([6.0, 3.0, 0.0], abs=0.35)


def test_a_part_that_speaks_against_evidence_weighs_nothing_and_changes_no_sign() -> None:
    found = learn_weights(*drawn([4.0, -4.0]))
    assert found[0] > 2
    assert found[1] == 0.0


def test_queries_without_evidence_or_with_nothing_else_teach_nothing() -> None:
    values = np.array([[1.0], [0.0]])
    with pytest.raises(EvaluationError, match="no query has evidence and something else"):
        learn_weights([values, values], [np.array([False, False]), np.array([True, True])])


WEIGHTS = {"fusion": 0.75, "neighbour": 0.5, "session": 1.0, "recency": 0.05}


def test_a_profile_is_written_with_its_new_name_and_weights_or_the_file_stays(
    tmp_path: Path, profile: Profile
) -> None:
    out = tmp_path / "mine.v1.yaml"
    made = write_profile(profile, out, WEIGHTS)
    assert load_profile(out) == made
    assert made.ranking.model_dump() == profile.ranking.model_dump() | WEIGHTS
    same = {"profile": profile.profile, "ranking": profile.ranking}
    assert made.model_copy(update=same) == profile
    with pytest.raises(SettingsError, match="is no folder: make it first"):
        write_profile(profile, tmp_path / "nowhere" / "mine.v1.yaml", WEIGHTS)
    bad = tmp_path / "No Name.yaml"
    bad.write_text("what somebody wrote")
    with pytest.raises(EvaluationError, match=r"cannot be written as .*No Name"):
        write_profile(profile, bad, WEIGHTS)
    assert bad.read_text() == "what somebody wrote"


def made_profile(**changes: object) -> Profile:
    values = {"profile": "test.v1", "vector_top_k": 6, "rdf_top_k": 4, "enable_sql_timeline": True}
    caps = {"max_per_source": 4, "max_total_items": 8, "render_budget_tokens": 200}
    return Profile.model_validate(values | caps | changes)


def test_decays_are_compared_by_rate_or_half_life_whichever_the_profile_has() -> None:
    given = made_profile(time_decay_half_life_hours=72.0)
    rates = [at(given, point) for point in grid_of(["time_decay_lambda_per_hour=0.001,0.01,0.1"])]
    assert [round(one.half_life_hours, 1) for one in rates] == [693.1, 69.3, 6.9]
    (back,) = [at(rates[0], point) for point in grid_of(["time_decay_half_life_hours=24"])]
    assert back.half_life_hours == 24
    with pytest.raises(SettingsError, match="give one of the two"):
        at(given, {"time_decay_lambda_per_hour": 0.1, "time_decay_half_life_hours": 72.0})


def test_a_grid_is_every_combination_in_the_order_given() -> None:
    points = grid_of(["fusion.k=10,60", "ranking.speaker=0,1.5"])
    assert [name_of(point) for point in points] == [
        "fusion.k=10 ranking.speaker=0",
        "fusion.k=10 ranking.speaker=1.5",
        "fusion.k=60 ranking.speaker=0",
        "fusion.k=60 ranking.speaker=1.5",
    ]


def test_a_point_changes_its_keys_and_nothing_else() -> None:
    made = at(made_profile(), grid_of(["fusion.method=min_max", "ranking.speaker=2", "lexical_top_k=null"])[0])
    assert (made.fusion.method, made.ranking.speaker, made.lexical_top_k) == ("min_max", 2.0, None)
    assert at(made, {"fusion.method": "rrf", "ranking.speaker": 0.0}) == made_profile()


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("fusion.k", "no key=value"),
        ("fusion.k=", "no key=value"),
        ("fusion.q=1", "'fusion.q' is no key of a profile"),
        ("ranking.speker=1", r"did you mean ranking\.speaker"),
        ("fusion.k=[1", "no value"),
        ("bm25.k1=-1", "no number from 0"),
        ("bm25.b=true", "no number from 0"),
        (f"rank_pool={','.join(str(number) for number in range(10, 1200))}", "1 to 1000 points"),
    ],
)
def test_what_is_no_grid_is_refused(given: str, told: str) -> None:
    with pytest.raises(SettingsError, match=told):
        grid_of([given])
    with pytest.raises(SettingsError, match="each key once"):
        grid_of(["fusion.k=1", "fusion.k=2"])


def test_values_that_no_profile_may_have_are_refused_with_the_point() -> None:
    with pytest.raises(SettingsError, match=r"fusion\.k=0"):
        at(made_profile(), {"fusion.k": 0})
    with pytest.raises(SettingsError, match=r"ranking\.recency=9"):
        at(made_profile(), {"ranking.recency": 9.0})
    with pytest.raises(SettingsError, match="fusion=1"):
        at(made_profile(), grid_of(["fusion=1"])[0])
