from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.bench.measure import (
    RestOfMachine,
    Spread,
    cost_of_calls,
    peak_memory_mib,
    percentile,
    tree_cpu_s,
    tree_memory_mib,
    tree_peak_memory_mib,
)

_BUSY = "import time\nwhile time.process_time() < 0.2: pass"


def test_percentiles_are_interpolated_between_neighbours() -> None:
    values = [4.0, 1.0, 3.0, 2.0]

    assert percentile(values, 0.5) == 2.5
    assert percentile(values, 0.0) == 1.0
    assert percentile(values, 1.0) == 4.0
    assert percentile([7.0], 0.95) == 7.0


def test_a_spread_is_the_median_with_its_extremes_and_nothing_of_nothing() -> None:
    assert Spread.of([3.0, 1.0, 10.0]) == Spread(median=3.0, low=1.0, high=10.0)
    assert Spread.of([]) is None


def test_every_call_is_made_once_and_its_cpu_is_read_from_the_given_clock() -> None:
    made: list[int] = []
    ticks = iter([1.0, 1.5])

    measured = cost_of_calls([lambda n=n: made.append(n) for n in range(5)], clock=lambda: next(ticks))

    assert made == [0, 1, 2, 3, 4]
    assert measured.cpu_ms == pytest.approx(100.0)


def test_the_cpu_of_a_tree_holds_that_of_children_that_have_ended() -> None:
    before = tree_cpu_s(os.getpid())

    subprocess.run([sys.executable, "-S", "-c", _BUSY], check=True)

    assert tree_cpu_s(os.getpid()) - before >= 0.19


def test_a_process_that_is_gone_has_used_nothing() -> None:
    child = subprocess.Popen([sys.executable, "-S", "-c", ""])
    child.wait()

    assert tree_cpu_s(child.pid) == 0


def test_own_cpu_is_not_the_rest_of_the_machine_and_memory_is_in_mebibytes() -> None:
    assert 0.0 <= RestOfMachine().busy_share() <= 1.0
    assert 5 < tree_memory_mib(os.getpid()) < 20_000
    assert 5 < peak_memory_mib(os.getpid()) <= tree_peak_memory_mib(os.getpid())
