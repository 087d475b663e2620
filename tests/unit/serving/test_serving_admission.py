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


def test_before_anything_is_measured_nothing_is_turned_away() -> None:
    admission = Measured().admission
    assert admission.fits(0.001, 10_000) and not admission.is_too_late(0.0)


def test_the_wait_is_that_of_what_is_ahead_and_an_answers_own_time_comes_on_top() -> None:
    measured = Measured()
    measured.answers(200, each_s=0.2, every_s=0.02)
    admission = measured.admission
    assert admission.wait_s(50) == pytest.approx(1.0, rel=0.01)
    assert admission.fits(1.3, 50) and not admission.fits(1.1, 50)
    assert admission.fits(math.inf, 10**9), "who waits for ever is answered in the end"
    assert admission.is_too_late(0.1) and not admission.is_too_late(0.3)
    assert admission.retry_after_s(50) == pytest.approx(1.0, rel=0.01)


def test_answers_that_vary_leave_less_to_chance() -> None:
    even, uneven = Measured(), Measured()
    even.answers(200, each_s=0.2, every_s=0.02)
    for _ in range(100):
        uneven.answers(1, each_s=0.05, every_s=0.02)
        uneven.answers(1, each_s=0.35, every_s=0.02)
    assert even.admission.fits(0.3, 0) and not uneven.admission.fits(0.3, 0)
    assert uneven.admission.fits(0.3, 0, is_only=True), "who asks seldom is judged by the mean"
    assert not even.admission.is_too_late(0.3) and uneven.admission.is_too_late(0.3), "one of two would be late"
    assert not uneven.admission.is_too_late(0.3, is_only=True) and uneven.admission.is_too_late(0.15, is_only=True)


def test_one_that_has_to_wait_needs_more_time_than_one_whose_turn_has_come() -> None:
    measured = Measured()
    for _ in range(100):
        measured.answers(1, each_s=0.15, every_s=0.02)
        measured.answers(1, each_s=0.25, every_s=0.02)
    assert not measured.admission.fits(0.38, 0) and not measured.admission.is_too_late(0.38)


def test_waits_that_turn_out_longer_than_expected_are_expected_to_be_so_again() -> None:
    measured = Measured()
    measured.answers(200, each_s=0.2, every_s=0.02)
    admission = measured.admission
    for _ in range(100):
        admission.waited(1.5, expected_s=1.0)
    assert admission.wait_s(50) == pytest.approx(1.5, rel=0.01), "half as many of others came in between"
    assert admission.turn_s(50) == pytest.approx(1.0, rel=0.01), "what is compared does not depend on itself"
    assert not admission.fits(1.6, 50) and admission.fits(1.8, 50)
    for _ in range(100):
        admission.waited(0.8, expected_s=1.0)
    assert admission.wait_s(50) == pytest.approx(1.0, rel=0.01), "some of those before it were refused"


def test_a_single_wait_changes_little_and_a_short_one_nothing() -> None:
    measured = Measured()
    measured.answers(200, each_s=0.2, every_s=0.02)
    before = measured.admission.wait_s(50)
    for _ in range(100):
        measured.admission.waited(3.0, expected_s=0.02)
    assert measured.admission.wait_s(50) == before
    measured.admission.waited(100.0, expected_s=1.0)
    assert measured.admission.wait_s(50) == pytest.approx(1.3 * before), "a worker that was paused is no rule"


def test_pauses_between_answers_are_measured_only_while_all_slots_are_taken() -> None:
    measured = Measured()
    measured.answers(50, each_s=0.03, every_s=10.0, is_busy=False)
    assert measured.admission.wait_s(100) == 0.0
    measured.answers(1, each_s=0.03, every_s=10.0)
    measured.answers(100, each_s=0.03, every_s=0.003)
    assert measured.admission.wait_s(100) == pytest.approx(0.3, rel=0.01)


def test_when_to_come_back_is_never_at_once_nor_in_an_hour() -> None:
    measured = Measured()
    assert measured.admission.retry_after_s(0) == 0.05
    measured.answers(100, each_s=10, every_s=1)
    assert measured.admission.retry_after_s(10**6) == 60.0


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


@pytest.mark.parametrize(("most", "fewest"), [(1, 1), (2, 2), (10, 2)])
def test_slots_stay_within_their_bounds(most: int, fewest: int) -> None:
    measured = Measured(most_slots=most)
    measured.answers(500, each_s=10, every_s=5, lag_s=1.0)
    assert measured.admission.slots == fewest
