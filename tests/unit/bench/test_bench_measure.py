from __future__ import annotations

import os
import subprocess
import sys

from tests.bench.against import FIGURES, IN_FLIGHT, Round, ratio
from tests.bench.measure import (
    RestOfMachine,
    peak_memory_mib,
    percentile,
    tree_cpu_s,
    tree_memory_mib,
    tree_peak_memory_mib,
)
from tests.bench.running_worker import cell_of

_BUSY = "import time\nwhile time.process_time() < 0.2: pass"


def test_percentiles_are_interpolated_between_neighbours() -> None:
    assert [percentile([4.0, 1.0, 3.0, 2.0], share) for share in (0.0, 0.5, 1.0)] == [1.0, 2.5, 4.0]
    assert percentile([7.0], 0.95) == 7.0


def test_the_cpu_of_a_tree_holds_that_of_children_that_have_ended() -> None:
    before = tree_cpu_s(os.getpid())
    subprocess.run([sys.executable, "-S", "-c", _BUSY], check=True)
    assert tree_cpu_s(os.getpid()) - before >= 0.1, "times are told in hundredths, several of which are cut off"


def test_own_cpu_is_not_the_rest_of_the_machine_and_memory_is_in_mebibytes() -> None:
    assert 0.0 <= RestOfMachine().busy_share() <= 1.0
    assert 5 < tree_memory_mib(os.getpid()) < 20_000
    assert 5 < peak_memory_mib(os.getpid()) <= tree_peak_memory_mib(os.getpid())


def test_a_failed_question_has_no_time_and_a_ratio_is_of_one_round() -> None:
    found = cell_of([0.01, None, 0.03], in_flight=8, passed_s=2.0, used_s={"worker": 0.1})
    assert (found.recalls, found.unanswered, found.per_s, found.cpu_ms) == (2, 1, 1.0, {"worker": 50.0})

    def cells(ms: float) -> dict[int, object]:
        return dict.fromkeys(IN_FLIGHT, cell_of([ms / 1000], in_flight=8, passed_s=1.0, used_s={}))

    pairs = ((10.0, 20.0), (30.0, 40.0), (12.0, 20.0))
    rounds = [Round(ours=cells(ours), theirs=cells(theirs), rest_busy=0.0) for ours, theirs in pairs]  # pyright: ignore[reportArgumentType]
    spread = ratio(rounds, 8, FIGURES["p50 ms"])
    assert [round(one, 3) for one in (spread.median, spread.low, spread.high)] == [0.6, 0.5, 0.75]
