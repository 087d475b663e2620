from __future__ import annotations

from typing import Any

import pytest

from orion_recall.profile.canary import Canary
from orion_recall.serving.canary_trial import CanaryTrial, SharedTrial
from orion_recall.values import Outcome


def trial(**settings: Any) -> CanaryTrial:
    values: dict[str, Any] = {"profile": "new.v1", "steps": (0.1, 0.5, 1.0), "step_minutes": 60, "min_queries": 10}
    return CanaryTrial(
        id="t",
        profile="old.v1",
        canary="new.v1",
        settings=Canary.model_validate(values | settings),
        shared=SharedTrial(step=0, began=1000.0),
    )


def answer(one: CanaryTrial, count: int, variant: str, outcome: Outcome = "ok", ms: float = 10.0) -> None:
    for _ in range(count):
        (one.of_canary if variant == "canary" else one.of_control).add(outcome, ms)


def test_nothing_is_judged_before_both_have_enough_answers() -> None:
    one = trial()
    answer(one, 9, "canary", "failed")
    answer(one, 50, "control")
    assert one.judge(1e9) is None
    answer(one, 1, "canary", "failed")
    assert one.judge(1e9) == "taken back"


@pytest.mark.parametrize(
    ("outcome", "ms", "why"),
    [
        ("degraded", 10.0, "degraded or failed 0.100, control 0.000, gate errors 0.02"),
        ("failed", 10.0, "degraded or failed 0.100, control 0.000, gate errors 0.02"),
        ("empty", 10.0, "empty 0.100, control 0.000, gate empty 0.05"),
        ("ok", 16.0, "p95 16.0 ms, control 10.0 ms, gate latency_ratio 1.5"),
    ],
)
def test_each_gate_takes_it_back_and_says_why(outcome: Outcome, ms: float, why: str) -> None:
    one = trial()
    answer(one, 40, "control")
    answer(one, 18, "canary")
    answer(one, 2, "canary", outcome, ms)
    assert one.judge(1001.0) == "taken back"
    assert (one.shared.taken_back, one.share) == (why, 0.0)
    assert one.judge(1e9) is None, "it stays taken back"


def test_a_canary_as_good_as_the_control_goes_from_step_to_step() -> None:
    one = trial()
    answer(one, 100, "control", "empty")
    answer(one, 20, "canary", "empty")
    assert one.judge(1000.0 + 3599) is None, "the step is not over"
    assert one.judge(1000.0 + 3600) == "next step"
    assert (one.share, one.of_canary.queries, one.of_control.queries) == (0.5, 0, 0)
    answer(one, 20, "canary")
    assert one.judge(1e5) == "next step", "the control's figures are those of the step before"
    assert one.share == 1.0
    answer(one, 20, "canary")
    assert one.judge(1e9) is None, "there is no further step"


def test_the_last_step_is_judged_by_the_control_of_the_step_before() -> None:
    one = trial(steps=(0.5, 1.0))
    answer(one, 20, "control")
    answer(one, 20, "canary")
    assert one.judge(1e5) == "next step"
    answer(one, 20, "canary", "degraded")
    assert one.judge(1e5) == "taken back"


def test_a_query_that_was_not_recalled_says_nothing_of_a_profile() -> None:
    one = trial()
    answer(one, 20, "canary", "expired")
    answer(one, 20, "canary", "refused")
    assert one.of_canary.queries == 0


def test_a_step_that_another_worker_began_begins_the_figures_anew() -> None:
    one = trial()
    answer(one, 20, "canary")
    one.adopt(SharedTrial(step=0, began=900.0))
    assert (one.shared.began, one.of_canary.queries) == (900.0, 20)
    one.adopt(SharedTrial(step=1, began=2000.0))
    assert (one.share, one.of_canary.queries) == (0.5, 0)
    one.adopt(SharedTrial(step=1, began=2000.0, taken_back="worse"))
    assert one.share == 0.0
