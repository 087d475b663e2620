"""What is worked out of one worker's turns and those of several processes."""

from __future__ import annotations

import pytest
from rich.console import Console

from tests.bench.processes import Found, Memory, Turn, as_json, read_options, show
from tests.bench.recall_load import BUS, RECORD, WORKER, Cell

OWN = Memory(uss=400.0, pss=450.0, rss=500.0)


def turn(processes: int, per_s: float) -> Turn:
    cell = Cell(
        in_flight=16,
        recalls=100,
        unanswered=0,
        p50_ms=8.0,
        p95_ms=12.0,
        per_s=per_s,
        cpu_ms={WORKER: 9.0, BUS: 0.3, RECORD: 1.2},
        loop_ms=6.0,
    )
    parent = Memory(uss=50.0, pss=60.0, rss=70.0) if processes > 1 else None
    return Turn(
        processes=processes, cell=cell, workers=[OWN] * processes, parent=parent, ready_s=4.0, rest_busy=0.1
    )


FOUND = Found(size=5000, cores=2, in_flight=16, rounds=[[turn(1, 100), turn(2, 150)], [turn(2, 120), turn(1, 60)]])


def test_a_gain_is_worked_out_within_a_round() -> None:
    assert FOUND.counts == [1, 2]
    assert FOUND.gains(2) == [1.5, 2.0]
    assert FOUND.gains(1) == [1.0, 1.0]
    assert as_json(FOUND)["gains"]["2"] == [1.5, 2.0]


def test_the_tables_have_rates_and_the_memory_of_every_process() -> None:
    console = Console(width=180)
    with console.capture() as told:
        show(FOUND, console)
    assert "1.75 (1.50 to 2.00)" in told.get()
    assert "parent" in told.get()
    assert told.get().count("400") == 3


def test_numbers_of_processes_are_read_from_the_smallest() -> None:
    assert read_options(["--processes", "2,1,2"]).processes == [1, 2]
    with pytest.raises(SystemExit):
        read_options(["--processes", "0,1"])


def test_the_defaults_compare_one_with_two() -> None:
    given = read_options([])
    assert (given.processes, given.size) == ([1, 2], 5000)
