"""The probability that anything answers: its weights learned from runs, and how reliable it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from orion_recall.errors import EvaluationError
from orion_recall.evaluation.calibrate import (
    AnswerLine,
    WeightedRun,
    as_model,
    auc,
    calibrate,
    read_answer_lines,
    reliability,
)
from orion_recall.recall.confidence.answer import LATE_SIGNALS, SIGNALS
from tests.samples.evaluation_samples import written


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
                conversation_id=f"{name}{number % 2}",
                selected=("m",),
                answerable=bool(dice.random() < 1 / (1 + np.exp(-logit))),
                probability=None,
                answer_signals=values,
            )
        )
    return WeightedRun(name=name, lines=lines)


def test_the_signal_that_tells_gets_the_weight_and_none_speaks_against() -> None:
    learned = calibrate([drawn("a", 1), drawn("b", 2)])
    weights = learned.weights.signals
    assert weights["late"] > 5
    assert weights["cosine"] == 0, "a signal of an answer never speaks against one"
    assert max(weight for name, weight in weights.items() if name != "late") < 1
    (first, _) = learned.held_out
    found = reliability(first.name, first.lines).auc
    assert found is not None
    assert found > 0.75


def test_without_late_interaction_the_others_must_do() -> None:
    learned = calibrate([drawn("a", 1), drawn("b", 2)], late=False)
    assert set(learned.weights.signals) == set(SIGNALS) - LATE_SIGNALS
    model = as_model(learned.weights, learned.weights, {"by": "a test"})
    assert model.late.signals["cosine"] == round(learned.weights.signals["cosine"], 4)


def test_both_kinds_of_queries_are_needed_in_more_than_one_conversation() -> None:
    run = drawn("a", 1)
    answered = [line for line in run.lines if line.answerable]
    with pytest.raises(EvaluationError, match="queries that something answers and queries that nothing answers"):
        calibrate([WeightedRun(name="a", lines=answered)])
    alone = [line for line in run.lines if line.conversation_id == "a0"]
    with pytest.raises(EvaluationError, match="without 'a0' there is nothing to learn from"):
        calibrate([WeightedRun(name="a", lines=alone)])


def line(name: str, probability: float | None, *, answerable: bool, is_empty: bool = False) -> AnswerLine:
    return AnswerLine(
        query_id=name,
        conversation_id="c",
        selected=() if is_empty else ("m",),
        answerable=answerable,
        probability=probability,
        answer_signals={},
    )


def test_the_auc_is_the_chance_that_an_answerable_query_is_above_another() -> None:
    assert auc(np.array([0.9, 0.8]), np.array([0.1, 0.2])) == 1
    assert auc(np.array([0.5]), np.array([0.5])) == 0.5
    assert auc(np.array([0.9, 0.1]), np.array([0.5, 0.1])) == pytest.approx(5 / 8)
    assert auc(np.array([]), np.array([0.5])) is None


def test_what_could_not_be_told_counts_as_the_caller_sees_it() -> None:
    answered = line("a", None, answerable=True)
    silent = line("b", None, answerable=False, is_empty=True)
    assert (answered.stated, silent.stated) == (1, 0)
    assert reliability("run", [answered, silent]).auc == 1


def test_the_lines_of_a_run_say_whether_anything_answers(tmp_path: Path) -> None:
    known: dict[str, Any] = {"query_id": "a", "conversation_id": "c", "selected": [], "answerable": True}
    known["probability"] = None
    unknown: dict[str, Any] = known | {
        "query_id": "b",
        "answerable": None,
        "probability": 0.25,
        "answer_signals": {},
    }
    file = written(tmp_path, "run.jsonl", known | {"answer_signals": {"late": 0.5}}, unknown)
    (only,) = read_answer_lines(file)
    assert (only.query_id, only.stated, only.answer_signals) == ("a", 0.0, {"late": 0.5})
    with pytest.raises(EvaluationError, match="no query of it is known to be answerable or not"):
        read_answer_lines(written(tmp_path, "unknown.jsonl", unknown))
