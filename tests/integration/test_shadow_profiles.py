"""Profiles on trial under a worker on a real bus: a shadow never answers, a canary answers its share."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from executor import Executor, command, rows, until
from redis.asyncio import Redis
from serving import OneMemory, opened_with, quick_settings, serving

from orion_recall.engines.embedded import EmbeddedEngines
from orion_recall.models.tokenizer import TokenCounter
from orion_recall.profile import Profile
from orion_recall.profile.reading import dump_profile
from orion_recall.values import Hit, SearchRequest

pytestmark = pytest.mark.slow

QUESTION = {"fragment": "Who feeds the gulls?"}


def written(folder: Path, name: str, **changes: Any) -> None:
    values: dict[str, Any] = {
        "profile": name, "vector_top_k": 8, "rdf_top_k": 0, "max_per_source": 8, "max_total_items": 8,
        "render_budget_tokens": 256, "source_timeout_ms": 60_000,
    }  # fmt: skip
    (folder / f"{name}.yaml").write_text(dump_profile(Profile.model_validate(values | changes)), "utf-8")


class Doorkeeper(OneMemory):
    """Lets one search in for each ticket."""

    def __init__(self) -> None:
        super().__init__()
        self.tickets = asyncio.Semaphore(0)
        self.at_the_door = 0

    async def search(self, request: SearchRequest) -> Sequence[Hit]:
        self.at_the_door += 1
        await self.tickets.acquire()
        self.at_the_door -= 1
        return await super().search(request)


async def test_the_reply_goes_out_first_and_the_shadow_is_one_decision_more(
    bus_alone: EmbeddedEngines, bus: Redis, tokens: TokenCounter, tmp_path: Path
) -> None:
    written(tmp_path, "first.v1", shadow={"profile": "other.v1", "share": 1.0})
    written(tmp_path, "other.v1", strategies={"factual": {"max_total_items": 1}}, shadow={"profile": "first.v1"})
    settings = quick_settings(bus_alone.redis_url, profiles_dir=tmp_path, default_profile="first.v1")
    settings = settings.changed(decision_channels=("told",))
    executor, source, channel = Executor(bus, settings.prefix), Doorkeeper(), f"{settings.prefix}told"
    async with (
        serving(settings, opened_with(source, tokens)) as (service, _),
        executor.listening(channel) as published,
    ):

        async def at_the_door() -> bool:
            return source.at_the_door == 1

        async def shadowed() -> bool:
            return service.shadows.done == 1

        entry_id = await executor.ask(QUESTION)
        source.tickets.release()
        ended = await executor.ended(entry_id)
        assert ended.reply["payload"]["bundle"]["stats"]["profile"] == "first.v1"
        await until(at_the_door, "the shadow is searching")
        source.tickets.release()
        await until(shadowed, "the shadow has been told")
        told = [json.loads(fields[b"envelope"]) for _, fields in await rows(bus, executor.decisions)]
        assert len((await executor.ended(entry_id)).own) == 1
        await command(bus, "PUBLISH", channel, b'{"last": true}')

        async def all_heard() -> bool:
            return {"last": True} in published

        await until(all_heard, "all that was published")
    first, shadow = (envelope["payload"] for envelope in told)
    assert (first["profile"], first["shadow_of"], first["strategy"]) == ("first.v1", None, None)
    assert (shadow["profile"], shadow["strategy"], shadow["outcome"]) == ("other.v1", "factual", "ok")
    assert (shadow["shadow_of"], shadow["entry_id"]) == (first["id"], entry_id)
    assert told[1]["correlation_id"] == shadow["corr_id"] == first["corr_id"]
    assert [one["payload"]["id"] for one in published[:-1]] == [first["id"]], "of a shadow nothing is published"
    await executor.close()


async def test_a_worker_stops_while_a_shadow_hangs(
    bus_alone: EmbeddedEngines, bus: Redis, tokens: TokenCounter, tmp_path: Path
) -> None:
    written(tmp_path, "first.v1", shadow={"profile": "other.v1", "share": 1.0})
    written(tmp_path, "other.v1")
    settings = quick_settings(bus_alone.redis_url, profiles_dir=tmp_path, default_profile="first.v1")
    executor, source = Executor(bus, settings.prefix), Doorkeeper()
    async with serving(settings, opened_with(source, tokens)) as (service, task):
        source.tickets.release()
        await executor.ended(await executor.ask(QUESTION))

        async def at_the_door() -> bool:
            return source.at_the_door == 1

        await until(at_the_door, "the shadow is searching")
        service.stop()
        async with asyncio.timeout(30):
            await task
    assert len(await rows(bus, executor.decisions)) == 1
    await executor.close()


async def test_a_canary_answers_its_share_of_the_sessions(
    bus_alone: EmbeddedEngines, bus: Redis, tokens: TokenCounter, tmp_path: Path
) -> None:
    written(tmp_path, "old.v1", canary={"profile": "new.v1", "share": 0.5})
    written(tmp_path, "new.v1")
    settings = quick_settings(bus_alone.redis_url, profiles_dir=tmp_path, default_profile="old.v1")
    executor = Executor(bus, settings.prefix)
    async with serving(settings, opened_with(OneMemory(), tokens)):
        answered: set[tuple[str, str]] = set()
        for n in range(40):
            ended = await executor.ended(await executor.ask(QUESTION | {"session_id": f"s-{n % 20}"}))
            answered.add((f"s-{n % 20}", ended.reply["payload"]["bundle"]["stats"]["profile"]))
    assert len(answered) == 20, "a session stays with its profile"
    assert {profile for _, profile in answered} == {"old.v1", "new.v1"}
    told = [json.loads(fields[b"envelope"])["payload"] for _, fields in await rows(bus, executor.decisions)]
    assert {(one["canary"]["variant"], one["profile"]) for one in told} == {
        ("canary", "new.v1"),
        ("control", "old.v1"),
    }
    assert {(one["canary"]["profile"], one["canary"]["share"]) for one in told} == {("old.v1", 0.5)}
    await executor.close()
