from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from orion_recall.contracts import ErrorInfo, MemoryReceiptV1, MemoryVerdictV1
from orion_recall.errors import ClientError, ImportFileError, ReplyTimeout
from orion_recall.memory.record.record import CopyPosition
from orion_recall.memory.transfer.import_file import ImportProgress
from orion_recall.memory.transfer.import_mapping import ImportMapping
from orion_recall.memory.transfer.importer import IN_FLIGHT, Waited, import_file, wait_for_copies


class Client:
    """Answers batches once `gate` is open, the later ones first; the batch that holds `broken` fails."""

    def __init__(self, *, broken: str = "", error: Exception | None = None, refused: str = "") -> None:
        self.stored: list[list[str]] = []
        self.at_once = self.most_at_once = 0
        self.gate = asyncio.Event()
        self.gate.set()
        self._broken, self._error, self._refused = broken, error, refused

    async def store(self, memories: Sequence[Mapping[str, Any]]) -> MemoryReceiptV1:
        ids = [str(memory["id"]) for memory in memories]
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            await self.gate.wait()
            for _ in range(3 * (IN_FLIGHT - self.at_once)):
                await asyncio.sleep(0)
            if self._broken in ids and self._error is not None:
                raise self._error
        finally:
            self.at_once -= 1
        self.stored.append(ids)
        return MemoryReceiptV1(
            stored=len(ids),
            unchanged=0,
            conflict=0,
            rejected=0,
            position=10 * int(ids[-1]),
            results=[MemoryVerdictV1(id=name, status="stored") for name in ids],
            error=ErrorInfo(type="refused", message=self._refused) if self._refused else None,
        )


def written(folder: Path, count: int, *, bad: Sequence[int] = ()) -> Path:
    file = folder / "memories.jsonl"
    lines = ("bad" if n in bad else json.dumps({"id": str(n), "text": f"memory {n}"}) for n in range(count))
    file.write_text("".join(f"{line}\n" for line in lines))
    return file


def progress_of(folder: Path, file: Path) -> ImportProgress:
    return ImportProgress.open(folder / "state", file, ImportMapping(), "bus")


async def test_every_line_is_stored_and_the_last_position_is_given(tmp_path: Path) -> None:
    client = Client()
    done = await import_file(client, written(tmp_path, 25, bad=[3]), batch_size=4)
    assert sorted(int(name) for batch in client.stored for name in batch) == [n for n in range(25) if n != 3]
    assert (done.summary.stored, done.summary.rejected, done.summary.read) == (24, 1, 25)
    assert done.position == 240
    assert done.began.line == 0


async def test_a_few_batches_are_under_way_at_once_and_no_more(tmp_path: Path) -> None:
    client = Client()
    client.gate.clear()
    running = asyncio.create_task(import_file(client, written(tmp_path, 40), batch_size=2))
    while client.at_once < IN_FLIGHT:
        await asyncio.sleep(0)
    client.gate.set()
    await running
    assert client.most_at_once == IN_FLIGHT


async def test_progress_is_told_in_order_and_forgotten_at_the_end(tmp_path: Path) -> None:
    file = written(tmp_path, 30)
    told: list[tuple[int, int]] = []
    progress = progress_of(tmp_path, file)
    await import_file(
        Client(),
        file,
        progress=progress,
        batch_size=4,
        advanced=lambda end, so_far: told.append((end.line, so_far.read)),
    )
    assert told == [(n, n) for n in (4, 8, 12, 16, 20, 24, 28, 30)]
    assert list((tmp_path / "state").iterdir()) == []


async def test_an_import_that_fails_goes_on_after_the_last_acknowledged_batch(tmp_path: Path) -> None:
    file = written(tmp_path, 30)
    with pytest.raises(ReplyTimeout):
        await import_file(
            Client(broken="13", error=ReplyTimeout("late")),
            file,
            progress=progress_of(tmp_path, file),
            batch_size=4,
        )
    again = Client()
    done = await import_file(again, file, progress=progress_of(tmp_path, file), batch_size=4)
    assert done.began.line == 12
    assert sorted(int(name) for batch in again.stored for name in batch) == list(range(12, 30))
    assert list((tmp_path / "state").iterdir()) == []


async def test_an_import_that_is_cancelled_leaves_nothing_running(tmp_path: Path) -> None:
    client = Client()
    client.gate.clear()
    running = asyncio.create_task(import_file(client, written(tmp_path, 40), batch_size=2))
    while client.at_once < IN_FLIGHT:
        await asyncio.sleep(0)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert client.at_once == 0


async def test_a_batch_that_is_refused_ends_the_import_with_the_reason(tmp_path: Path) -> None:
    with pytest.raises(ClientError, match="lines up to 3 were not stored: no record"):
        await import_file(Client(refused="no record"), written(tmp_path, 3))


async def test_a_file_without_a_good_line_sends_nothing(tmp_path: Path) -> None:
    client = Client()
    done = await import_file(client, written(tmp_path, 3, bad=[0, 1, 2]))
    assert (client.stored, done.summary.rejected, done.position) == ([], 3, None)


async def test_a_file_that_is_not_there_is_an_import_error(tmp_path: Path) -> None:
    with pytest.raises(ImportFileError, match="none"):
        await import_file(Client(), tmp_path / "none.jsonl")


class Copies:
    """Copies that move with every look; those whose name ends in "gone" have been silent for a day."""

    def __init__(self, *looks: Mapping[str, int]) -> None:
        self.looks = list(looks)
        self.count = 0

    async def copies(self) -> list[CopyPosition]:
        look = self.looks[min(self.count, len(self.looks) - 1)]
        self.count += 1
        return [
            CopyPosition(
                copy=name,
                kind=name.partition("-")[0],
                position=position,
                updated_at=float(self.count),
                silent_s=86_400.0 if name.endswith("gone") else 1.0,
            )
            for name, position in look.items()
        ]


async def test_the_wait_ends_when_every_copy_is_there() -> None:
    copies = Copies({}, {"index-a": 5}, {"index-a": 9, "graph-a": 3}, {"index-a": 9, "graph-a": 9})
    assert await wait_for_copies(copies, 9) == Waited(position=9)
    assert copies.count == 4


async def test_a_copy_that_does_not_move_is_named_though_it_gives_signs_of_life() -> None:
    waited = await wait_for_copies(Copies({"index-a": 9, "graph-a": 9, "index-b": 2}), 9, stalled_s=0.2)
    assert [(one.copy, one.position) for one in waited.lagging] == [("index-b", 2)]
    assert not waited.caught_up


async def test_a_copy_that_is_gone_is_not_waited_for_at_all() -> None:
    copies = Copies({"index-a": 9, "graph-a": 9, "index-gone": 2, "graph-gone": 9})
    waited = await wait_for_copies(copies, 9)
    assert (copies.count, waited.caught_up) == (1, True)
    assert [one.copy for one in waited.gone] == ["index-gone"]


async def test_a_kind_that_nobody_keeps_is_not_there() -> None:
    waited = await wait_for_copies(Copies({"graph-a": 9, "index-gone": 9}), 9, stalled_s=0.2)
    assert (waited.missing, waited.lagging, waited.caught_up) == (("index",), (), False)


async def test_each_look_is_told() -> None:
    told: list[int] = []
    await wait_for_copies(
        Copies({"index-a": 1}, {"index-a": 9, "graph-a": 9}), 9, advanced=lambda all_: told.append(len(all_))
    )
    assert told == [1, 2]
