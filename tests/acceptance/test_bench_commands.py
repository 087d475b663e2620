"""Every command of the bench goes through, at the smallest sizes. What it measures here says nothing."""

from __future__ import annotations

import contextlib
import gc
import json
import shutil
import sys
from asyncio.subprocess import Process
from collections.abc import AsyncGenerator, Callable, Generator
from pathlib import Path
from typing import IO, Any

import pytest

from orion_recall.engines.embedded import EmbeddedEngines
from orion_recall.index.embedded.folders import free_place, live_place, swap
from tests.bench import bench, imports, running_worker
from tests.bench.running_worker import worker_process

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def unfrozen() -> Generator[None]:
    """The bench takes what was made so far away from the collector; the tests that come after want it back."""
    yield
    gc.unfreeze()


def run(command: Callable[[], None], monkeypatch: pytest.MonkeyPatch, *arguments: object) -> None:
    """The command with these arguments, to its end."""
    monkeypatch.setattr(sys, "argv", ["bench", *map(str, arguments)])
    command()


@contextlib.asynccontextmanager
async def worker_whose_index_was_optimised(
    engines: EmbeddedEngines, data: Path, log: IO[bytes], **how: Any
) -> AsyncGenerator[Process]:
    """A worker; after its end the index is where an optimised copy has taken its place."""
    async with worker_process(engines, data, log, **how) as process:
        yield process
    index = data / "index"
    if (live := live_place(index)) == index:
        place = free_place(index, "optimised")
        for part in ("shard", "tokens"):
            shutil.copytree(live / part, place / part)
        shutil.copy(live / "index.json", place)
        swap(index, place)


def test_recalls_and_their_floors_are_measured_where_an_optimised_copy_is_the_index(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(running_worker, "worker_process", worker_whose_index_was_optimised)
    monkeypatch.setattr(bench, "FLOOR_QUESTIONS", 8)
    monkeypatch.setattr(bench, "BUS_REQUESTS", 64)
    file = tmp_path / "found.json"

    run(bench.main, monkeypatch, "--sizes", 100, "--rounds", 1, "--seconds-per-cell", 0.2, "--json", file)

    shown, found = capsys.readouterr().out, json.loads(file.read_text("utf-8"))
    assert "100 memories" in shown
    assert "p50 one at a time / sum of the wall floors" in shown
    assert [one["ended"] for one in found["waited"]] == [True] * 3
    assert "waited before for index and graph at the end of the outbox" in shown
    [size] = found["sizes"]
    [measured] = size["rounds"]
    assert measured["floors"]["dense search"]["p50_ms"] > 0
    assert [cell["in_flight"] for cell in measured["cells"].values() if cell["recalls"]] == [1, 8, 32]
    assert sum(size["outcomes"].values()) >= 1 + 8 + 32


def test_imports_are_measured_alone_and_beside_recalls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "found.json"
    small = ("--size", 100, "--rounds", 1, "--portion", 100, "--quiet-seconds", 0.2)

    run(imports.main, monkeypatch, *small, "--json", file)

    shown, found = capsys.readouterr().out, json.loads(file.read_text("utf-8"))
    assert "recall p95 beside an import / quiet" in shown
    for name in (
        "memories a second, alone",
        "memories a second, beside recalls",
        "recall p95 ms, beside an import",
    ):
        assert found[name][0] > 0, name
