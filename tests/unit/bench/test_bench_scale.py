"""Many memories for the bench: the stores are filled as a worker fills them, and growth is of one round."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from tests.bench.command import engines_folder
from tests.bench.running_worker import queries_from
from tests.bench.scale.__main__ import print_report
from tests.bench.scale.stores import LARGE, SMALL, open_stores


@pytest.mark.slow
async def test_stores_are_filled_once_with_two_tenants() -> None:
    with engines_folder() as folder:
        async with open_stores(120, folder) as stores:
            assert stores.filled_s > 0
            assert set(stores.sessions) == {SMALL, LARGE}
            assert next(queries_from(stores.sessions[LARGE], "reflect.v1")).session_id in stores.sessions[LARGE]
        async with open_stores(120, folder) as again:
            assert again.filled_s == 0
            assert again.sessions == stores.sessions


def test_the_report_gives_the_ratios_of_each_round() -> None:
    out = io.StringIO()
    of_size = {10_000: {"p50 ms": [10.0, 40.0, 20.0]}, 100_000: {"p50 ms": [15.0, 40.0, 40.0]}}
    print_report(of_size, Console(file=out, width=160))
    row = next(line for line in out.getvalue().splitlines() if "p50 ms" in line)
    assert row.split()[-3:] == ["20.0", "40.0", "1.50"]
