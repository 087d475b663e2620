"""A worker that is killed between any two steps of storing, updating and deleting: the next one makes it whole."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import AsyncGenerator, Generator, Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from executor import Executor, pending, until

from orion_recall.bus.connect import connect
from orion_recall.client import RecallClient
from orion_recall.engines.embedded import EmbeddedEngines
from orion_recall.memory.record.record import Record
from orion_recall.postgres.pool import Pool, open_pool
from orion_recall.settings import Settings
from tests.stand_ins.crashing_worker import crashing_worker
from tests.stand_ins.memory_changes import MemoryChanges
from tests.stand_ins.patient_profiles import patient_profiles

pytestmark = pytest.mark.slow

PROFILES = ("assist.light.v1", "reflect.v1", "deep.graph.v1")
OLD, NEW = "Quentin works at Zephyr Labs.", "Rosalind works at Umbra Works."
EACH = [("before", "change"), ("after", "change"), ("after", "tombstone"), *(
    (when, step) for step in ("index", "graph", "report", "reply") for when in ("before", "after")
)]  # fmt: skip
STORES = [("before", "store"), ("after", "store"), *EACH[3:]]
OPERATIONS = {"store": STORES, "update": EACH, "delete": EACH}
# Each costs a worker's start: a few in `make test`, and all steps of everything in `make test-slow`.


class Scene:
    """A bus, a record and a data folder that outlive their workers."""

    def __init__(self, settings: Settings, executor: Executor, client: RecallClient, pool: Pool) -> None:
        self.settings, self.executor, self.client, self.pool = settings, executor, client, pool
        self.armed = settings.data_dir / "armed"
        self.record, self.memory_changes = Record(pool), MemoryChanges(pool)

    async def stored(self, name: str) -> int:
        """A memory that index and graph hold."""
        receipt = await self.client.store([{"id": name, "text": OLD, "speaker": "Ana", "session_id": name}])
        await self.caught_up(receipt.position or 0)
        return receipt.position or 0

    async def caught_up(self, position: int) -> None:
        async def reached() -> bool:
            copies = await self.record.copies()
            return {one.kind for one in copies if one.position >= position} == {"index", "graph"}

        await until(reached, f"the copies at {position}")

    async def killed(self, process: Any, what: str, name: str) -> str:
        """Sends the message, and waits until the worker has ended of it; the entry's id."""
        payload: dict[str, Any] = {
            "store": {"memories": [{"id": name, "text": NEW, "speaker": "Ana", "session_id": name}]},
            "update": {"memories": [{"id": name, "text": NEW, "expected_version": 1}]},
            "delete": {"ids": [name]},
        }[what]
        message = self.executor.message(payload, kind=f"memory.{what}.v1", correlation_id=name, ttl_ms=60_000)
        self.armed.touch()
        stream = f"{self.settings.prefix}memory.{what}.v1"
        entry_id = await self.executor.add({"envelope": json.dumps(message)}, stream=stream)

        async def ended() -> bool:
            return not process.is_alive()

        await until(ended, "the worker's end")
        assert process.exitcode == 9
        self.armed.unlink()
        return entry_id

    async def is_done(self, name: str) -> bool:
        """Whether the record has been told."""
        held = await self.record.get("default", [name])
        return name in held and (held[name].text == NEW or not held[name].is_live)

    async def is_clean(self) -> bool:
        """Whether everything is acknowledged that the dead workers held."""
        streams = self.settings.intake_streams.values()
        groups = [one for name in streams for one in await self.executor.redis.xinfo_groups(name)]
        return not any(one["pending"] for one in groups)

    async def receipts(self, name: str) -> list[dict[str, Any]]:
        found = await self.executor.replies(self.executor.reply_to)
        return [one["payload"] for one in found if one["correlation_id"] == name]

    async def answers(self, name: str) -> dict[str, str]:
        """What the two questions find of this memory, under every profile."""
        options = {"tenant": "default", "scope": "session", "include": {"chunks": True}}
        return {
            f"{profile}: {question}": (
                await self.client.recall(question, profile=profile, session_id=name, options=options)
            ).bundle.rendered
            for profile in PROFILES
            for question in ("Where does Quentin work? At Zephyr Labs?", "Who works at Umbra Works? Rosalind?")
        }


@pytest.fixture(scope="module")
def folder() -> Generator[Path]:
    made = Path(tempfile.mkdtemp(prefix="orion-crash-", dir="/tmp"))
    yield made
    shutil.rmtree(made)


@pytest.fixture
async def scene(service_engines: EmbeddedEngines, database: str, folder: Path) -> AsyncGenerator[Scene]:
    settings = Settings.read(
        redis_url=service_engines.redis_url,
        postgres_dsn=database,
        data_dir=folder / uuid4().hex,
        prefix=f"t-{uuid4().hex}:",
        refresh_ms=50,
        claim_idle_ms=200,
        reply_ttl_s=60,
        deadline_ms=20_000,
        profiles_dir=patient_profiles(folder),
    )
    settings.data_dir.mkdir()
    pool = await open_pool(database, name="crashes", max_size=2)
    async with (
        connect(service_engines.redis_url) as redis,
        RecallClient.connect(service_engines.redis_url, prefix=settings.prefix) as client,
    ):
        executor = Executor(redis, settings.prefix)
        yield Scene(settings, executor, client, pool)
        await executor.close()
        # Decisions that a dead worker's sink was writing are taken over after a while: not what is looked at here.
        await redis.unlink(settings.decision_stream)
    await pool.close()


@pytest.mark.parametrize("what", OPERATIONS)
async def test_killed_between_any_two_steps(what: str, scene: Scene) -> None:
    await _goes_through(what, OPERATIONS[what], scene)


async def _goes_through(what: str, killed_at: Sequence[tuple[str, str]], scene: Scene) -> None:
    """Each worker first makes whole what the one before it left, then ends at the next step."""
    left: tuple[str, str] | None = None
    for place, (when, step) in enumerate((*killed_at, ("before", "report"))):
        settings = scene.settings.changed(instance=f"worker-{place}")
        with crashing_worker(settings, when, step, scene.armed) as process:
            if left is not None:
                await _is_whole(scene, what, *left)
            if place == len(killed_at):
                await until(scene.is_clean, "all is acknowledged")
                break
            name = f"m-{place}"
            if what != "store":
                await scene.stored(name)
            left = name, await scene.killed(process, what, name)


async def _is_whole(scene: Scene, what: str, name: str, entry_id: str) -> None:
    """The message is answered once, as if nothing had happened, and nothing old is found."""
    stream = f"{scene.settings.prefix}memory.{what}.v1"

    if await scene.is_done(name):
        # At once: the copies that the dead worker left may not have heard of it yet.
        assert not [said for said in (await scene.answers(name)).values() if "Quentin" in said]

    async def answered() -> bool:
        return not await scene.executor.redis.xrange(stream, entry_id, entry_id)

    await until(answered, f"{entry_id} is answered")
    assert not await pending(scene.executor.redis, stream)
    (receipt,) = await scene.receipts(name)
    status = {"store": ("stored", "unchanged"), "update": ("updated",), "delete": ("deleted",)}[what]
    assert [(one["id"], one["status"] in status) for one in receipt["results"]] == [(name, True)], receipt
    if what != "store":
        assert receipt["pending"] is False
    await scene.caught_up(receipt["position"])
    steps = [(one.version, one.op) for one in await scene.memory_changes.history("default", name)]
    assert (
        steps
        == {"store": [(1, "add")], "update": [(1, "add"), (2, "update")], "delete": [(1, "add"), (2, "delete")]}[
            what
        ]
    )
    found = await scene.answers(name)
    for question, rendered in found.items():
        assert "Zephyr" not in rendered and "Quentin" not in rendered, question
        lines = [line for line in rendered.splitlines() if line.startswith("- ")]
        assert len(lines) <= 1, f"doubled: {question}"
        if what != "delete" and "Umbra" in question:
            assert "Rosalind works at Umbra Works." in rendered, question
