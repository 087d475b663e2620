"""Profiles edited under a worker that answers: recalls in flight end as they began, a bad edit costs nothing."""

from __future__ import annotations

import asyncio
import json
import logging
from pathlib import Path
from typing import Any

import pytest
from executor import Executor, rows, until
from redis.asyncio import Redis
from serving import OneMemory, opened_with, quick_settings, serving

from orion_recall.bus.heartbeat import read_heartbeats
from orion_recall.engines.embedded import EmbeddedEngines
from orion_recall.models.tokenizer import TokenCounter
from orion_recall.profile import Profile
from orion_recall.profile.reading import dump_profile

pytestmark = pytest.mark.slow

QUESTION = {"fragment": "Who feeds the gulls?"}


def write(folder: Path, name: str = "edited.v1", **changes: Any) -> str:
    """Put the profile into the folder; its content's hash."""
    values: dict[str, Any] = {
        "profile": name, "vector_top_k": 8, "rdf_top_k": 0, "max_per_source": 8, "max_total_items": 8,
        "render_budget_tokens": 256, "source_timeout_ms": 60_000,
    }  # fmt: skip
    profile = Profile.model_validate(values | changes)
    half = folder / f".{name}.half"
    half.write_text(dump_profile(profile), "utf-8")
    half.replace(folder / f"{name}.yaml")
    return profile.content_hash


@pytest.fixture
def settings(bus_alone: EmbeddedEngines, tmp_path: Path) -> Any:
    write(tmp_path)
    return quick_settings(bus_alone.redis_url, profiles_dir=tmp_path, default_profile="edited.v1")


async def test_edits_while_queries_run_are_taken_and_every_answer_is_of_one_version(
    bus: Redis, settings: Any, tokens: TokenCounter, tmp_path: Path
) -> None:
    executor = Executor(bus, settings.prefix)
    hashes = [write(tmp_path)]
    asked: list[str] = []
    async with serving(settings, opened_with(OneMemory(), tokens)) as (service, _):

        async def ask_on() -> None:
            while True:
                asked.append(await executor.ask(QUESTION))
                await asyncio.sleep(0.05)

        async def an_answer_of(content_hash: str) -> None:
            async def decided() -> bool:
                found = [json.loads(fields[b"envelope"]) for _, fields in await rows(bus, executor.decisions)]
                return any(one["payload"]["profile_hash"] == content_hash for one in found)

            await until(decided, f"an answer under {content_hash}")

        asking = asyncio.create_task(ask_on())
        await an_answer_of(hashes[0])
        for edit in range(1, 4):
            hashes.append(write(tmp_path, description=f"edit {edit}"))

            async def in_use(wanted: str = hashes[-1]) -> bool:
                return service.profiles["edited.v1"].content_hash == wanted

            await until(in_use, f"edit {edit}")
            await an_answer_of(hashes[-1])
            (tmp_path / "edited.v1.yaml").write_text("profile: [", "utf-8")  # and a broken one after each

            async def refused() -> bool:
                return service.profiles_in_use.state.error is not None

            await until(refused, "a refusal")
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        decided = [(await executor.ended(entry_id)).decision for entry_id in asked]
    await executor.close()
    assert {one["outcome"] for one in decided} == {"ok"}
    used = list(dict.fromkeys(one["profile_hash"] for one in decided))
    assert used == hashes, "in the order of the edits, none after its successor"


async def test_the_worker_says_on_the_bus_which_profiles_it_uses_and_what_it_refused(
    bus: Redis, settings: Any, tokens: TokenCounter, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "orion_recall.profiles")
    key = settings.worker_key(settings.instance)
    async with serving(settings, opened_with(OneMemory(), tokens)) as (service, _):

        async def heartbeat() -> dict[str, str]:
            (found,) = await read_heartbeats(bus, [key])
            return found or {}

        first = await heartbeat()  # there as soon as anybody is told that the worker is
        assert first["profiles"] == "edited.v1"
        assert "profiles_error" not in first
        assert 0 < await bus.ttl(key) <= 10
        file = tmp_path / "edited.v1.yaml"
        file.write_text(file.read_text("utf-8").replace("rdf_top_k: 0", "rdf_top_k: many"), "utf-8")

        async def refused() -> bool:
            # Whoever writes a file empties it first, and that may be seen, too.
            return "rdf_top_k" in (await heartbeat()).get("profiles_error", "")

        await until(refused, "a refusal on the heartbeat")
        told = await heartbeat()
        line = file.read_text("utf-8").splitlines().index("rdf_top_k: many") + 1
        assert f"{file}:{line}:1: `rdf_top_k`" in told["profiles_error"]
        assert told["profiles_version"] == first["profiles_version"] == service.profiles_in_use.state.version
        assert f"{file}:{line}:1" in caplog.text
        write(tmp_path, description="mended")

        async def mended() -> bool:
            now = await heartbeat()
            return "profiles_error" not in now and now.get("profiles_version") != first["profiles_version"]

        await until(mended, "a heartbeat without a refusal")
    assert await read_heartbeats(bus, [key]) == [None], "the heartbeat goes with its worker"
