"""The bus's clock as this process knows it: within its bounds whatever the wall clock says."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orion_recall.bus.clock import BusClock

START = 1_700_000_000.0


class Machine:
    """A machine whose clocks are set by hand, and a server `server_ahead_s` ahead of its monotonic clock."""

    def __init__(self, *, wall: float = START, bound_s: float = 1.0) -> None:
        self.monotonic, self.wall, self.server_offset_s = 100.0, wall, START - 100.0
        self.clock = BusClock(bound_s=bound_s, monotonic=lambda: self.monotonic, wall=lambda: self.wall)

    @property
    def server(self) -> float:
        return self.monotonic + self.server_offset_s

    def passes(self, seconds: float) -> None:
        self.monotonic += seconds
        self.wall += seconds

    def ask(self, there_s: float = 0.001, back_s: float = 0.001) -> None:
        asked_at = self.clock.began()
        self.passes(there_s)
        told = self.server
        self.passes(back_s)
        self.clock.told(told, asked_at=asked_at)


def test_before_the_server_has_told_its_time_nothing_is_over() -> None:
    machine = Machine(wall=START + 3600)
    assert machine.clock.earliest() == 0.0
    assert machine.clock.now() == START + 3600
    assert machine.clock.ahead_s == 0.0


@given(st.lists(st.tuples(st.floats(0, 2), st.floats(0, 2), st.floats(0, 60)), min_size=1, max_size=9))
def test_the_servers_time_is_never_overestimated_and_a_slow_answer_spoils_nothing(
    asked: list[tuple[float, float, float]],
) -> None:
    machine = Machine()
    for there_s, back_s, pause_s in asked:
        machine.ask(there_s, back_s)
        machine.passes(pause_s)
        assert machine.clock.earliest() <= machine.server + 1e-6
    quickest = min(there + back for there, back, _ in asked)
    drift = 500e-6 * (sum(sum(one) for one in asked))
    assert machine.server - machine.clock.earliest() <= quickest + drift + 1e-5


def test_a_server_whose_clock_is_set_is_followed_at_once() -> None:
    machine = Machine()
    machine.ask()
    machine.server_offset_s -= 7.0
    machine.passes(1.0)
    machine.ask(0.3, 0.3)
    assert machine.clock.now() == pytest.approx(machine.server, abs=0.31)
