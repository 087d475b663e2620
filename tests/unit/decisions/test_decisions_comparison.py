"""Measures of two sides of a trial, worked out by hand, and their intervals."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from orion_recall.decisions.comparison import (
    NOT_JUDGED,
    Answer,
    Pair,
    compared,
    means_of,
    overlap,
    randomisation_test,
)
from orion_recall.decisions.memories import Judged
from orion_recall.values import Outcome

USED_A_WRONG_B = Judged(used=frozenset("a"), wrong=frozenset("b"))


def answer(ids: str, *, ms: float = 10.0, outcome: Outcome | None = None, unsure: bool = False) -> Answer:
    """An answer whose memories have one letter each."""
    return Answer(ids=tuple(ids), outcome=outcome or ("ok" if ids else "empty"), unsure=unsure, ms=ms)


def pair(before: str | None, after: str | None, judged: Judged = NOT_JUDGED) -> Pair:
    return Pair(
        before=None if before is None else answer(before),
        after=None if after is None else answer(after, ms=30.0),
        judged=judged,
    )


@pytest.mark.parametrize(
    ("a", "b", "share"),
    [("abc", "abc", 1.0), ("", "", 1.0), ("abc", "", 0.0), ("abc", "xyz", 0.0), ("ac", "abc", 2 / 3)],
)
def test_overlap_is_the_share_of_either_that_both_have(a: str, b: str, share: float) -> None:
    assert overlap(tuple(a), tuple(b)) == overlap(tuple(b), tuple(a)) == pytest.approx(share)


@pytest.mark.parametrize(
    ("before", "after", "gained", "lost"),
    [
        ("abc", "abc", "", ""),
        ("abc", "acb", "", ""),
        ("abc", "bcd", "d", "a"),
        ("abc", "", "", "abc"),
        ("", "xy", "xy", ""),
    ],
)
def test_gains_losses_and_what_callers_judged_of_them(before: str, after: str, gained: str, lost: str) -> None:
    found = pair(before, after, USED_A_WRONG_B)
    assert ("".join(found.gained), "".join(found.lost)) == (gained, lost)
    values = found.likeness(5)
    assert (values["used_kept"], values["wrong_removed"]) == (float("a" in after), float("b" not in after))


def test_pairs_have_means_of_both_and_levels_of_each() -> None:
    found = compared([pair("abc", "abd", USED_A_WRONG_B), pair("ab", "ba"), pair("a", ""), pair("", "x")], 2)
    means = {name: mean.mean for name, (mean, _) in found.means.items()}
    assert means == {
        "overlap@2": 0.5, "same_first": 0.25, "identical": 0.0, "flip": 0.5, "used_kept": 1.0, "wrong_removed": 0.0,
    }  # fmt: skip
    assert found.means["used_kept"][1] == 1
    assert (found.queries, found.answers, found.p50_ms, found.p95_ms) == (4, (4, 4), (10.0, 30.0), (10.0, 30.0))
    empty, items = found.levels["empty"], found.levels["items"]
    assert (empty.before, empty.after, empty.difference.mean, empty.queries) == (0.25, 0.25, 0.0, 4)
    assert (items.before, items.after, items.difference.mean) == (1.5, 1.5, 0.0)
    assert (found.levels["hit"].before, found.levels["mrr"].after) == (1.0, 1.0)


def test_each_side_has_the_queries_that_it_answered_where_none_was_answered_twice() -> None:
    """A canary: the measures of pairs do not apply, those of each side do, feedback of its own included."""
    control = [
        Pair(before=answer("ab", unsure=place == 0), after=None, judged=Judged(used=frozenset("b")))
        for place in range(4)
    ]
    tried = [Pair(before=None, after=answer("c", outcome="degraded"), judged=Judged(used=frozenset("z")))]
    found = compared([*control, *tried], 5)
    assert (found.means, found.answers) == ({}, (4, 1))
    levels = {name: (one.before, one.after) for name, one in found.levels.items()}
    assert (levels["unsure"], levels["degraded"], levels["items"]) == ((0.25, 0.0), (0.0, 1.0), (2.0, 1.0))
    assert (levels["hit"], levels["mrr"]) == ((1.0, 0.0), (0.5, 0.0))
    difference = found.levels["unsure"].difference
    assert difference.low < difference.mean == -0.25 < difference.high


def test_the_interval_is_that_of_the_normal_approximation_for_many_queries() -> None:
    values = np.random.default_rng(5).normal(0.4, 0.2, size=(2000, 2))
    found = means_of(values, resamples=4000)
    error = values.std(axis=0) / np.sqrt(len(values))
    assert [one.low for one in found] == pytest.approx(values.mean(axis=0) - 1.96 * error, abs=0.1 * error.max())
    assert [one.high for one in found] == pytest.approx(values.mean(axis=0) + 1.96 * error, abs=0.1 * error.max())


def test_p_is_the_share_of_sign_changes_that_are_as_large() -> None:
    differences = np.array([[0.3], [0.5], [-0.1], [0.2], [0.4], [0.1], [0.25]])
    means = [abs(np.dot(signs, differences[:, 0])) for signs in product((-1, 1), repeat=7)]
    exact = sum(mean >= differences.sum() - 1e-12 for mean in means) / len(means)
    assert randomisation_test(differences, permutations=200_000)[0] == pytest.approx(exact, abs=0.003)


def test_no_difference_is_no_surprise_and_a_steady_one_is_as_rare_as_it_can_be() -> None:
    differences = np.array([[0.0, 0.2]] * 40)
    assert randomisation_test(differences, permutations=999).tolist() == [1.0, 0.001]
