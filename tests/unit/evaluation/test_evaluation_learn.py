from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from orion_recall.errors import EvaluationError
from orion_recall.evaluation.learn import learned

Values = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]


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


def test_the_weights_that_made_the_lists_are_found_again():
    lists, relevant = drawn([6.0, 3.0, 0.0], queries=3000)
    found = learned(lists, relevant, l2=0.01)
    assert found == pytest.approx([6.0, 3.0, 0.0], abs=0.35)


def test_a_part_that_speaks_against_evidence_weighs_nothing_and_changes_no_sign():
    found = learned(*drawn([4.0, -4.0]))
    assert found[0] > 2
    assert found[1] == 0.0


def test_more_l2_is_smaller_weights():
    lists, relevant = drawn([5.0, 2.0], queries=100)
    assert np.linalg.norm(learned(lists, relevant, l2=50.0)) < np.linalg.norm(learned(lists, relevant, l2=0.1))


def test_the_same_for_all_candidates_teaches_nothing():
    lists, relevant = drawn([5.0])
    found = learned([np.hstack([one, np.ones((len(one), 1))]) for one in lists], relevant)
    assert found[1] == pytest.approx(0.0, abs=1e-6)


def test_an_absent_part_is_as_good_as_the_mean_of_it():
    # The part is there in half of the lists only, and tells as much where it is.
    lists, relevant = drawn([6.0, 4.0], queries=2000)
    for one in lists[::2]:
        one[:, 1] = np.nan
    whole = learned(lists[1::2], relevant[1::2], l2=0.01)
    assert learned(lists, relevant, l2=0.01)[1] == pytest.approx(whole[1], abs=0.5)


def test_lists_of_any_length_and_with_several_relevant_ones_are_learned_from():
    values = np.array([[1.0, 0.0], [0.9, 0.2], [0.0, 0.9]])
    flags = np.array([True, True, False])
    found = learned([values, values[[0, 2]]], [flags, flags[[0, 2]]])
    assert found[0] > 0 == found[1]


def test_queries_without_evidence_or_with_nothing_else_teach_nothing():
    values = np.array([[1.0], [0.0]])
    with pytest.raises(EvaluationError, match="no query has evidence and something else"):
        learned([values, values], [np.array([False, False]), np.array([True, True])])
