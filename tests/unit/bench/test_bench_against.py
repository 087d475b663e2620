from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from tests.bench.against import FIGURES, IN_FLIGHT, Comparison, Round, as_json, other_tree, print_report, ratio
from tests.bench.background import Waited
from tests.bench.running_worker import BUS, CLIENT, RECORD, WORKER, Cell


def one_round(ours: float, theirs: float) -> Round:
    cells = [
        {
            n: Cell(
                in_flight=n, recalls=10, unanswered=0, p50_ms=ms, p95_ms=2 * ms, per_s=1000 / ms, loop_ms=ms / 2,
                cpu_ms=dict.fromkeys((WORKER, BUS, RECORD, CLIENT), ms),
            )
            for n in IN_FLIGHT
        }
        for ms in (ours, theirs)
    ]  # fmt: skip
    return Round(ours=cells[0], theirs=cells[1], rest_busy=0.5)


ROUNDS = [one_round(10, 20), one_round(30, 40), one_round(12, 20)]
RESULT = Comparison(
    revision="abc1234",
    size=1000,
    profile="reflect.v1",
    processes=1,
    rounds=ROUNDS,
    waited=[Waited(what="background extraction", seconds=3.25, ended=True)],
    import_s=(10.0, 20.0),
    peak_mib=(500.0, 400.0),
    seconds=60.0,
)


def test_a_ratio_is_of_one_round_and_their_median_is_told():
    found = ratio(ROUNDS, 8, FIGURES["p50 ms"])
    assert (found.median, found.low, found.high) == (0.6, 0.5, 0.75)
    assert ratio(ROUNDS, 8, FIGURES["recalls/s"]).median == pytest.approx(1 / 0.6)


def test_the_report_and_the_json_have_every_figure():
    out = Console(width=160)
    with out.capture() as shown:
        print_report(RESULT, out)
        print_report(replace(RESULT, processes=2, peak_mib=None), out)
    one, several = shown.get().split("2 processes against one")
    for told in (
        "abc1234",
        "0.60",
        "waited before for background extraction: 3.2 s",
        "import, seconds: 10.0 and 20.0, ratio 0.50",
        "in 3 of 3 rounds",
        "peak memory",
    ):
        assert told in one
    assert "peak memory" not in several, "nothing is told that one process alone has"
    told_again = json.loads(json.dumps(as_json(RESULT)))["ratios"]["32"]
    assert (told_again["worker CPU ms"]["low"], told_again["of it loop ms"]["low"]) == (0.5, 0.5)


def test_a_revision_that_is_unknown_ends_the_command(tmp_path: Path):
    with pytest.raises(Exception, match="git"):
        other_tree("no-such-revision", tmp_path)
