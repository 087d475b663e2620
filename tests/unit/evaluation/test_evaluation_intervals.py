from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from orion_recall.evaluation import intervals
from orion_recall.evaluation.intervals import bootstrap_interval, randomisation_test


def test_the_interval_is_that_of_the_normal_approximation_for_many_queries() -> None:
    values = np.random.default_rng(5).normal(0.4, 0.2, size=(2000, 2))
    low, high = bootstrap_interval(values, resamples=4000)
    error = values.std(axis=0) / np.sqrt(len(values))
    assert low == pytest.approx(values.mean(axis=0) - 1.96 * error, abs=0.1 * error.max())
    assert high == pytest.approx(values.mean(axis=0) + 1.96 * error, abs=0.1 * error.max())


def test_values_that_are_all_the_same_have_no_width() -> None:
    low, high = bootstrap_interval(np.full((7, 1), 0.25))
    assert (low.tolist(), high.tolist()) == ([0.25], [0.25])


def test_the_same_seed_gives_the_same_and_another_one_does_not() -> None:
    values = np.random.default_rng(1).random((30, 1))
    once, again, other = (bootstrap_interval(values, seed=seed)[0] for seed in (3, 3, 4))
    assert once == again
    assert once != other


def test_many_queries_are_resampled_in_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.random.default_rng(1).random((30, 2))
    whole = bootstrap_interval(values, resamples=999)
    test = randomisation_test(values - 0.4, permutations=999)
    monkeypatch.setattr(intervals, "_CELLS", 100)
    assert np.array(bootstrap_interval(values, resamples=999)) == pytest.approx(np.array(whole), abs=0.02)
    assert randomisation_test(values - 0.4, permutations=999) == pytest.approx(test, abs=0.03)


def test_p_is_the_share_of_sign_changes_that_are_as_large() -> None:
    differences = np.array([[0.3], [0.5], [-0.1], [0.2], [0.4], [0.1], [0.25]])
    means = [abs(np.dot(signs, differences[:, 0])) for signs in product((-1, 1), repeat=7)]
    exact = sum(mean >= differences.sum() - 1e-12 for mean in means) / len(means)
    assert randomisation_test(differences, permutations=200_000)[0] == pytest.approx(exact, abs=0.003)


def test_no_difference_is_no_surprise_and_a_steady_one_is_as_rare_as_it_can_be() -> None:
    differences = np.array([[0.0, 0.2]] * 40)
    assert randomisation_test(differences, permutations=999).tolist() == [1.0, 0.001]
