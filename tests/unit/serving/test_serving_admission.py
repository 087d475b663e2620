"""What fits into a caller's time, by what was measured."""

from __future__ import annotations

import math

import pytest

from orion_recall.serving.admission import Admission


class Measured:
    """An admission on a clock that is set by hand."""

    def __init__(self, most_slots: int = 10, deadline_s: float = 2.0) -> None:
        self.now = 0.0
        self.admission = Admission(most_slots=most_slots, deadline_s=deadline_s, clock=lambda: self.now)

    def answers(
        self, count: int, *, each_s: float, every_s: float, lag_s: float = 0.0, is_busy: bool = True
    ) -> None:
        for _ in range(count):
            self.now += every_s
            self.admission.loop_was_late(lag_s)
            self.admission.ended(each_s, is_busy=is_busy)


def test_the_wait_is_that_of_what_is_ahead_and_an_answers_own_time_comes_on_top() -> None:
    measured = Measured()
    measured.answers(200, each_s=0.2, every_s=0.02)
    admission = measured.admission
    assert admission.wait_s(50) == pytest.approx(1.0, rel=0.01)
    assert admission.fits(1.3, 50) and not admission.fits(1.1, 50)
    assert admission.fits(math.inf, 10**9), "who waits for ever is answered in the end"
    assert admission.is_too_late(0.1) and not admission.is_too_late(0.3)
    assert admission.retry_after_s(50) == pytest.approx(1.0, rel=0.01)


def test_pauses_between_answers_are_measured_only_while_all_slots_are_taken() -> None:
    measured = Measured()
    measured.answers(50, each_s=0.03, every_s=10.0, is_busy=False)
    assert measured.admission.wait_s(100) == 0.0
    measured.answers(1, each_s=0.03, every_s=10.0)
    measured.answers(100, each_s=0.03, every_s=0.003)
    assert measured.admission.wait_s(100) == pytest.approx(0.3, rel=0.01)


def test_while_the_processor_is_short_fewer_run_at_once_and_all_again_when_it_is_not() -> None:
    measured = Measured()
    measured.answers(300, each_s=1.4, every_s=0.14, lag_s=0.1)
    assert measured.admission.slots == 3, "three take 0.42 s together, a quarter of the deadline is 0.5 s"
    measured.answers(300, each_s=0.05, every_s=0.016)
    assert measured.admission.slots == 10


def test_what_waits_for_servers_runs_in_all_slots_however_long_it_takes() -> None:
    measured = Measured()
    measured.answers(300, each_s=1.4, every_s=0.14, lag_s=0.001)
    assert measured.admission.slots == 10
