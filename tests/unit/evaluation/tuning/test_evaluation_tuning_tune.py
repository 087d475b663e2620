"""Weights from tables of candidates: of fed-back queries only what was shown teaches, and the rest is kept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

from orion_recall.evaluation.dataset import RunLine
from orion_recall.evaluation.figures import figures_of
from orion_recall.evaluation.tuning.features import PARTS, Candidates
from orion_recall.evaluation.tuning.tune import NOT_LEARNED, LearningOptions, Tuned, counts_of, weights_of
from orion_recall.profile import Profile
from orion_recall.profile.reading import load_profile
from orion_recall.shipped import shipped_folder
from tests.samples.evaluation_samples import judged_query

LEARNING = LearningOptions(parts=tuple(name for name in PARTS if name != NOT_LEARNED), step=0.01)


@pytest.fixture(scope="module")
def profile() -> Profile:
    return load_profile(shipped_folder("profiles") / "reflect.v1.yaml")


def table(
    rows: Mapping[str, Mapping[str, float]], *evidence: str, shown: str | None = None, wrong: str = ""
) -> Candidates:
    """Candidates with the parts that are given, all others being 0.5."""
    query = replace(
        judged_query("q", *evidence), shown=None if shown is None else tuple(shown), wrong=frozenset(wrong)
    )
    return Candidates(
        query=query,
        ids=tuple(rows),
        values=np.array([[parts.get(name, 0.5) for name in PARTS] for parts in rows.values()]),
        relevant=np.array([name in evidence for name in rows]),
        later=np.arange(len(rows)),
        repeated=(),
    )


# The profile's own weights put b before a.
ROWS: Mapping[str, Mapping[str, float]] = {
    "a": {"speaker": 1.0, "late": 0.1},
    "b": {"speaker": 0.0, "late": 0.9},
    "c": {"speaker": 0.0, "late": 0.6},
    "x": {"speaker": 1.0, "late": 1.0},
}


def test_of_a_query_that_was_fed_back_only_what_was_shown_counts() -> None:
    whole, fed_back = table(ROWS, "a"), table(ROWS, "a", shown="abc", wrong="b")
    assert counts_of(whole, 0.5).tolist() == [1, 1, 1, 1]
    assert counts_of(fed_back, 0.5).tolist() == [1, 1, 0.5, 0]
    assert counts_of(fed_back, 0.0).tolist() == [1, 1, 0, 0]


def test_what_tells_used_from_wrong_gains_against_what_it_was(profile: Profile) -> None:
    given = profile.ranking
    found = weights_of([table(ROWS, "a", shown="abc", wrong="b")] * 30, profile, LEARNING)
    assert found["speaker"] / found["session"] > given.speaker / given.session
    assert found["late"] / found["session"] < given.late / given.session


def test_what_is_confirmed_grows(profile: Profile) -> None:
    given = profile.ranking
    found = weights_of([table(ROWS, "b", shown="abc", wrong="a")] * 30, profile, LEARNING)
    assert found["late"] / found["session"] > given.late / given.session
    assert found["speaker"] / found["session"] < given.speaker / given.session


def test_what_was_not_shown_changes_nothing(profile: Profile) -> None:
    seen = {name: parts for name, parts in ROWS.items() if name != "x"}
    with_more = weights_of([table(ROWS, "a", shown="abc", wrong="b")] * 10, profile, LEARNING)
    assert with_more == weights_of([table(seen, "a", shown="abc", wrong="b")] * 10, profile, LEARNING)
    # Were it not wanted, it would be an example of late interaction that misleads.
    shown_too = weights_of([table(ROWS, "a", shown="abcx", wrong="bx")] * 10, profile, LEARNING)
    assert shown_too["late"] < with_more["late"]


def test_one_recall_changes_little_and_many_change_more(profile: Profile) -> None:
    given = profile.ranking.late / profile.ranking.session
    once, often = (weights_of([table(ROWS, "a", shown="abc", wrong="b")] * n, profile, LEARNING) for n in (1, 20))
    assert given > once["late"] / once["session"] > 0.65 * given > often["late"] / often["session"]


def test_parts_that_feedback_says_nothing_of_keep_their_share_of_each_other(profile: Profile) -> None:
    given = profile.ranking
    found = weights_of([table(ROWS, "a", shown="abc", wrong="b")] * 30, profile, LEARNING)
    assert found["session"] / found["neighbour"] == pytest.approx(given.session / given.neighbour, rel=0.1)
    assert found["time"] > 0  # where every memory is judged, what tells nothing weighs nothing:
    judged = weights_of([table(ROWS, "a")] * 30, profile, LEARNING)
    assert judged["time"] == 0


@pytest.mark.parametrize(
    ("own", "held_out", "from_feedback", "loss"),
    [("ax", "xa", 0, 1.0), ("xa", "ax", 0, 0.0), ("ax", "ax", 0, 0.0), ("ax", "xa", 1, 0.0)],
)
def test_a_loss_is_measured_on_queries_held_out_and_not_on_feedback(
    profile: Profile, own: str, held_out: str, from_feedback: int, loss: float
) -> None:
    runs = {
        name: {"q": RunLine(ranked=tuple(ranked), selected=None, line=1)}
        for name, ranked in (("reflect.v1", own), ("learned, held out", held_out))
    }
    figures = figures_of(runs, [judged_query("q", "a")], against="reflect.v1", depths=(1, 2))
    tuned = Tuned(from_feedback=from_feedback, folds={}, weights={}, figures=figures, profile=profile)
    assert tuned.loss == loss
