from __future__ import annotations

import numpy as np
import pytest
from orion_recall.recall.confidence.signals import LATE_SIGNALS, SIGNALS

from orion_recall.errors import EvaluationError
from orion_recall.evaluation.answers.calibrate import WeightedRun, as_model, calibrate
from orion_recall.evaluation.answers.lines import AnswerLine
from orion_recall.evaluation.answers.reliability import reliability


def drawn(name: str, seed: int, *, count: int = 300) -> WeightedRun:
    """A run whose queries are answerable by the logit of `late` less half of `cosine`."""
    dice = np.random.default_rng(seed)
    lines: list[AnswerLine] = []
    for number in range(count):
        values: dict[str, float] = dict(zip(SIGNALS, dice.random(len(SIGNALS)).tolist(), strict=True))
        logit = 8 * values["late"] - 4 * values["cosine"] - 2
        lines.append(
            AnswerLine(
                query_id=f"{name}{number}",
                conversation=f"{name}{number % 2}",
                is_answerable=bool(dice.random() < 1 / (1 + np.exp(-logit))),
                probability=None,
                signals=values,
                is_empty=False,
            )
        )
    return WeightedRun(name=name, lines=lines)


def test_the_signal_that_tells_gets_the_weight_and_none_speaks_against():
    learned = calibrate([drawn("a", 1), drawn("b", 2)])
    weights = learned.weights.signals
    assert weights["late"] > 5
    assert weights["cosine"] == 0, "a signal of an answer never speaks against one"
    assert max(weight for name, weight in weights.items() if name != "late") < 1
    (first, _) = learned.held_out
    found = reliability(first.name, first.lines).auc
    assert found is not None
    assert found > 0.75


def test_without_late_interaction_the_others_must_do():
    learned = calibrate([drawn("a", 1), drawn("b", 2)], late=False)
    assert set(learned.weights.signals) == set(SIGNALS) - LATE_SIGNALS
    model = as_model(learned.weights, learned.weights, {"by": "a test"})
    assert model.late.signals["cosine"] == round(learned.weights.signals["cosine"], 4)


def test_a_run_counts_by_its_weight_and_not_by_its_size():
    small, large = drawn("a", 1, count=60), drawn("b", 2, count=600)
    alike = calibrate([small, large]).weights.signals
    more = calibrate([WeightedRun(name="a", lines=small.lines, weight=50.0), large]).weights.signals
    assert alike != more


def test_more_l2_is_smaller_weights():
    runs = [drawn("a", 1), drawn("b", 2)]
    assert calibrate(runs, l2=100.0).weights.signals["late"] < calibrate(runs, l2=1.0).weights.signals["late"]


def test_both_kinds_of_queries_are_needed_in_more_than_one_conversation():
    run = drawn("a", 1)
    answered = [line for line in run.lines if line.is_answerable]
    with pytest.raises(EvaluationError, match="queries that something answers and queries that nothing answers"):
        calibrate([WeightedRun(name="a", lines=answered)])
    alone = [line for line in run.lines if line.conversation == "a0"]
    with pytest.raises(EvaluationError, match="without 'a0' there is nothing to learn from"):
        calibrate([WeightedRun(name="a", lines=alone)])
