from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from orion_recall.errors import EvaluationError
from orion_recall.evaluation.tuning.listnet import learn_weights

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
    found = learn_weights(lists, relevant, l2=0.01)
    assert found == pytest.approx([6.0, 3.0, 0.0], abs=0.35)


def test_a_part_that_speaks_against_evidence_weighs_nothing_and_changes_no_sign():
    found = learn_weights(*drawn([4.0, -4.0]))
    assert found[0] > 2
    assert found[1] == 0.0


def test_more_l2_is_smaller_weights():
    lists, relevant = drawn([5.0, 2.0], queries=100)
    strong, weak = (learn_weights(lists, relevant, l2=l2) for l2 in (50.0, 0.1))
    assert np.linalg.norm(strong) < np.linalg.norm(weak)


def test_the_same_for_all_candidates_teaches_nothing():
    lists, relevant = drawn([5.0])
    found = learn_weights([np.hstack([one, np.ones((len(one), 1))]) for one in lists], relevant)
    assert found[1] == pytest.approx(0.0, abs=1e-6)


def test_an_absent_part_is_as_good_as_the_mean_of_it():
    # The part is there in half of the lists only, and tells as much where it is.
    lists, relevant = drawn([6.0, 4.0], queries=2000)
    for one in lists[::2]:
        one[:, 1] = np.nan
    whole = learn_weights(lists[1::2], relevant[1::2], l2=0.01)
    assert learn_weights(lists, relevant, l2=0.01)[1] == pytest.approx(whole[1], abs=0.5)


def test_lists_of_any_length_and_with_several_relevant_ones_are_learned_from():
    values = np.array([[1.0, 0.0], [0.9, 0.2], [0.0, 0.9]])
    flags = np.array([True, True, False])
    found = learn_weights([values, values[[0, 2]]], [flags, flags[[0, 2]]])
    assert found[0] > 0 == found[1]


def test_queries_without_evidence_or_with_nothing_else_teach_nothing():
    values = np.array([[1.0], [0.0]])
    with pytest.raises(EvaluationError, match="no query has evidence and something else"):
        learn_weights([values, values], [np.array([False, False]), np.array([True, True])])


def marked(*, wrong: int, passed_over: int) -> tuple[list[Values], list[Flags]]:
    """Lists of a relevant one that part 0 tells from what is wrong, and part 1 from what was passed over."""
    values = np.array([[1.0, 1.0], *[[0.0, 1.0]] * wrong, *[[1.0, 0.0]] * passed_over])
    flags = np.array([True, *[False] * (wrong + passed_over)])
    return [values] * 20, [flags] * 20


def test_what_counts_less_teaches_less_and_what_counts_for_nothing_is_not_there():
    lists, flags = marked(wrong=2, passed_over=2)
    found = [
        learn_weights(lists, flags, counted=[np.array([1.0, 1.0, 1.0, counts, counts])] * 20)
        for counts in (1.0, 0.5, 0.1, 0.0)
    ]
    assert found[0][0] == pytest.approx(found[0][1], abs=1e-4)
    assert found[0][1] > found[1][1] > found[2][1] > found[3][1] == 0.0
    without, _ = marked(wrong=2, passed_over=0)
    assert found[3] == pytest.approx(learn_weights(without, [flags[0][:3]] * 20), abs=1e-5)


def test_a_list_in_which_nothing_else_is_judged_teaches_nothing():
    values, flags = np.array([[1.0], [0.0]]), np.array([True, False])
    with pytest.raises(EvaluationError, match="that is judged"):
        learn_weights([values], [flags], counted=[np.array([1.0, 0.0])])


def test_what_the_lists_say_nothing_of_stays_where_weights_are_held():
    lists, flags = drawn([4.0, 0.0, 0.0], queries=60)
    for values in lists:
        values[:, 2] = 0.5  # the same for all candidates
    given = np.array([1.0, 2.0, 2.0])
    held, free = learn_weights(lists, flags, near=given), learn_weights(lists, flags)
    assert free[2] == pytest.approx(0.0, abs=1e-6)
    assert held[2] == pytest.approx(2.0, abs=1e-4)
    assert held[0] > 1.5  # the part that tells gains,
    assert held[1] < 1.5  # the one that does not loses


def test_more_l2_holds_weights_nearer():
    lists, flags = drawn([4.0, 0.0], queries=60)
    given = np.array([1.0, 3.0])
    loose, tight = (learn_weights(lists, flags, l2=l2, near=given) for l2 in (1.0, 100.0))
    assert np.abs(tight - given).max() < 0.3 < np.abs(loose - given).max()
