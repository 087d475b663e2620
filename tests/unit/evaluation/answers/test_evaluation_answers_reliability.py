from __future__ import annotations

import numpy as np
import pytest

from orion_recall.evaluation.answers.lines import AnswerLine
from orion_recall.evaluation.answers.reliability import auc, reliability


def line(name: str, probability: float | None, *, answerable: bool, is_empty: bool = False) -> AnswerLine:
    return AnswerLine(
        query_id=name,
        conversation="c",
        is_answerable=answerable,
        probability=probability,
        signals={},
        is_empty=is_empty,
    )


def test_the_auc_is_the_chance_that_an_answerable_query_is_above_another():
    assert auc(np.array([0.9, 0.8]), np.array([0.1, 0.2])) == 1
    assert auc(np.array([0.5]), np.array([0.5])) == 0.5
    assert auc(np.array([0.9, 0.1]), np.array([0.5, 0.1])) == pytest.approx(5 / 8)
    assert auc(np.array([]), np.array([0.5])) is None


def test_a_perfectly_calibrated_run_has_no_error():
    lines = [line(f"a{n}", 0.75, answerable=n < 3) for n in range(4)]
    made = reliability("run", lines)
    assert (made.answerable, made.unanswerable, made.error) == (3, 1, 0)
    (only,) = made.bins
    assert (only.low, only.high, only.count, only.told, only.answerable) == (0.7, 0.8, 4, 0.75, 0.75)


def test_thresholds_say_what_they_silence():
    lines = [line(f"a{n}", n / 100, answerable=True) for n in range(100)]
    made = reliability("run", [*lines, line("n1", 0.01, answerable=False), line("n2", 0.9, answerable=False)])
    by_threshold = {one.threshold: one for one in made.silenced}
    assert (by_threshold[0.2].answerable, by_threshold[0.2].unanswerable) == (0.2, 0.5)
    assert (made.at_most.threshold, made.at_most.answerable, made.at_most.unanswerable) == (0.02, 0.02, 0.5)


def test_what_could_not_be_told_counts_as_the_caller_sees_it():
    answered = line("a", None, answerable=True)
    silent = line("b", None, answerable=False, is_empty=True)
    assert (answered.told, silent.told) == (1, 0)
    assert reliability("run", [answered, silent]).auc == 1
