"""Several workers: what each has of its own, and how they are kept alive."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import cast

import pytest

from orion_recall.engines.lock import FolderLock
from orion_recall.errors import WorkersFailed
from orion_recall.index.metadata import FORMAT, IndexMetadata
from orion_recall.serving.several_workers import (
    MOST_DEATHS,
    Ready,
    Supervisor,
    WorkerPlan,
    WorkerProcess,
    delete_surplus,
    make_further_copies,
    plans_of,
)
from orion_recall.settings import Settings

PLANS = [WorkerPlan(number=number, environment={}) for number in (1, 2)]


class Pretended:
    """A process of a worker: it takes queries and ends when the test says so."""

    def __init__(self, pid: int, number: int, *, hears: bool = True) -> None:
        self.pid, self.number, self.error, self.hears = pid, number, "", hears
        self.told: list[str] = []
        self._ready: asyncio.Future[Ready | None] = asyncio.get_running_loop().create_future()
        self._ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    def say_ready(self) -> None:
        self._ready.set_result({"ready": True, "pid": self.pid})

    def die(self, code: int, error: str = "") -> None:
        self.error = error
        if not self._ready.done():
            self._ready.set_result(None)
        if not self._ended.done():
            self._ended.set_result(code)

    async def ready(self) -> Ready | None:
        return await self._ready

    async def wait(self) -> int:
        return await self._ended

    def send(self, number: signal.Signals) -> None:
        self.told.append(number.name)
        if self.hears and number != signal.SIGHUP:
            self.die(0)


@dataclass(slots=True)
class House:
    """What was started, the clock, and the pauses; `on_start` says what becomes of a process."""

    on_start: Callable[[Pretended], None] = Pretended.say_ready
    hears: bool = True
    now: float = 0.0
    started: list[Pretended] = field(default_factory=list[Pretended])
    announced: list[Sequence[Ready]] = field(default_factory=list[Sequence[Ready]])
    pauses: list[float] = field(default_factory=list[float])

    async def start(self, plan: WorkerPlan) -> WorkerProcess:
        process = Pretended(100 + len(self.started), plan.number, hears=self.hears)
        self.started.append(process)
        self.on_start(process)
        return cast("WorkerProcess", process)

    async def sleep(self, seconds: float, until: asyncio.Event | None) -> object:
        self.pauses.append(seconds)
        await asyncio.sleep(0)
        return until is not None and until.is_set()

    def supervisor(self) -> Supervisor:
        return Supervisor(PLANS, self.start, clock=lambda: self.now, sleep=self.sleep)

    def of(self, number: int) -> list[Pretended]:
        return [process for process in self.started if process.number == number]


async def turns(count: int = 20) -> None:
    """Let the loop do what can be done."""
    for _ in range(count):
        await asyncio.sleep(0)


async def test_it_announces_once_when_all_take_queries_and_ends_with_them() -> None:
    house = House(on_start=lambda process: None)
    supervisor = house.supervisor()
    running = asyncio.create_task(supervisor.run(house.announced.append))
    await turns()
    house.of(2)[0].say_ready()
    await turns()
    assert house.announced == []
    house.of(1)[0].say_ready()
    await turns()
    assert [[one["pid"] for one in ready] for ready in house.announced] == [[100, 101]]
    supervisor.stop()
    await running
    assert [process.told for process in house.started] == [["SIGTERM"], ["SIGTERM"]]
    assert len(house.announced) == 1


async def test_one_that_dies_young_again_and_again_ends_all_after_growing_pauses() -> None:
    def fate(process: Pretended) -> None:
        process.say_ready()
        if process.number == 2:
            process.die(1)

    house = House(on_start=fate)
    with pytest.raises(WorkersFailed, match=r"worker 2 died 5 times in a row.*process \d+ ended with code 1"):
        await house.supervisor().run(house.announced.append)
    assert len(house.of(2)) == MOST_DEATHS
    assert house.of(1)[0].told == ["SIGTERM"]
    assert len(house.pauses) == MOST_DEATHS - 1
    assert all(later > earlier for earlier, later in zip(house.pauses, house.pauses[1:], strict=False))


async def test_a_reload_spares_who_is_being_started_and_would_be_ended_by_it() -> None:
    house = House(on_start=lambda process: process.say_ready() if process.number == 1 else None)
    supervisor = house.supervisor()
    running = asyncio.create_task(supervisor.run(house.announced.append))
    await turns()
    supervisor.reload()
    assert [process.told for process in house.started] == [["SIGHUP"], []]
    supervisor.stop()
    await running


def test_the_first_worker_keeps_the_place_of_one_that_is_alone(tmp_path: Path) -> None:
    settings = Settings.read(data_dir=tmp_path)
    first, second = plans_of(settings, 2, {"ORION_REDIS_URL": "redis://bus"})
    of_both = {"ORION_REDIS_URL": "redis://bus"}
    assert first.environment == {**of_both, "ORION_DATA_DIR": str(tmp_path)}
    assert second.environment == {**of_both, "ORION_DATA_DIR": str(tmp_path / "workers" / "2")}


METADATA = IndexMetadata(format=FORMAT, model="m", dimension=3, weights_sha256="w", position=7, record="town")


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings.read(data_dir=tmp_path, min_free_bytes=0)


def fill(folder: Path, text: str = "points", **changes: object) -> None:
    """An index and a graph, as far as their files matter here."""
    (folder / "index" / "shard").mkdir(parents=True)
    (folder / "graph" / "store").mkdir(parents=True)
    (folder / "index" / "shard" / "segment").write_text(text)
    (folder / "graph" / "store" / "sst").write_text(text)
    (folder / "index" / "index.json").write_text(json.dumps({**asdict(METADATA), **changes}))


def held(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file() and path.name != ".lock"}


def test_index_and_graph_are_copied_and_nothing_else(settings: Settings, tmp_path: Path) -> None:
    fill(tmp_path)
    (tmp_path / "postgres").mkdir()
    (tmp_path / "index" / "builds" / "other").mkdir(parents=True)
    (tmp_path / "index" / "builds" / "other" / "index.json").write_text("{}")
    second, third = tmp_path / "workers" / "2", tmp_path / "workers" / "3"
    assert make_further_copies(settings, 3) == [
        place / kind for place in (second, third) for kind in ("index", "graph")
    ]
    files = {"index/index.json", "index/shard/segment", "graph/store/sst"}
    assert held(second) == held(third) == files
    assert make_further_copies(settings, 3) == [], "they are there"


@pytest.mark.parametrize("difference", [{"record": "another town"}, {"model": "n"}, {"tokens": "t"}])
def test_one_by_another_model_or_of_another_record_is_replaced(
    settings: Settings, tmp_path: Path, difference: dict[str, str]
) -> None:
    fill(tmp_path)
    fill(tmp_path / "workers" / "2", "old", **difference)
    assert len(make_further_copies(settings, 2)) == 2
    assert (tmp_path / "workers" / "2" / "graph" / "store" / "sst").read_text() == "points"


def test_copies_of_workers_that_are_wanted_no_more_are_deleted(settings: Settings, tmp_path: Path) -> None:
    for number in (2, 3, 4):
        fill(tmp_path / "workers" / str(number))
    assert delete_surplus(settings, 2) == [3, 4]
    assert held(tmp_path / "workers" / "2") != set()
    assert held(tmp_path / "workers" / "3") == held(tmp_path / "workers" / "4") == set()
    assert delete_surplus(settings, 2) == [3, 4], "until they are unregistered"


def test_one_that_somebody_has_open_stays(settings: Settings, tmp_path: Path) -> None:
    fill(tmp_path / "workers" / "2")
    with FolderLock.acquire(tmp_path / "workers" / "2" / "graph", "the graph", "or wait"):
        assert delete_surplus(settings, 1) == []
    assert "graph/store/sst" in held(tmp_path / "workers" / "2")
