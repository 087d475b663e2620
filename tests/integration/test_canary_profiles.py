"""A canary under workers on a real bus: whom it answers, what the decisions say, and how it is taken back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from executor import Executor, rows, until
from redis.asyncio import Redis
from serving import OneMemory, opened_with, quick_settings, serving

from orion_recall.cli.serving.status_workers import read_workers
from orion_recall.engines.embedded import EmbeddedEngines
from orion_recall.models.tokenizer import TokenCounter
from orion_recall.profile import Profile
from orion_recall.profile.reading import dump_profile


def written(folder: Path, name: str, **changes: Any) -> None:
    values: dict[str, Any] = {
        "profile": name, "vector_top_k": 8, "rdf_top_k": 0, "max_per_source": 8, "max_total_items": 8,
        "render_budget_tokens": 256, "source_timeout_ms": 60_000,
    }  # fmt: skip
    (folder / f"{name}.yaml").write_text(dump_profile(Profile.model_validate(values | changes)), "utf-8")


def question(session: str) -> dict[str, Any]:
    return {"fragment": "Who feeds the gulls?", "session_id": session}


async def test_a_canary_answers_its_sessions_until_its_empty_answers_take_it_back(
    bus_alone: EmbeddedEngines, bus: Redis, tokens: TokenCounter, tmp_path: Path
) -> None:
    canary = {"profile": "new.v1", "steps": [0.5, 0.9], "min_queries": 10, "gates": {"latency_ratio": 100.0}}
    written(tmp_path, "old.v1", canary=canary)
    written(tmp_path, "new.v1", min_score=1.0)  # it finds nothing
    settings = quick_settings(bus_alone.redis_url, profiles_dir=tmp_path, default_profile="old.v1")
    executor = Executor(bus, settings.prefix)
    async with serving(settings, opened_with(OneMemory(), tokens)) as (service, _):
        answered: dict[str, str] = {}
        for n in range(40):
            ended = await executor.ended(await executor.ask(question(f"s-{n}")))
            answered[f"s-{n}"] = ended.reply["payload"]["bundle"]["stats"]["profile"]
        assert set(answered.values()) == {"old.v1", "new.v1"}

        async def taken_back() -> bool:
            return service.canaries.trials[0].shared.taken_back is not None

        await until(taken_back, "the canary is taken back")
        of_canary = next(name for name, profile in answered.items() if profile == "new.v1")
        ended = await executor.ended(await executor.ask(question(of_canary)))
        assert ended.reply["payload"]["bundle"]["stats"]["profile"] == "old.v1"

        async def told() -> bool:
            (worker,) = await read_workers(bus, settings, [settings.instance])
            return bool(worker["canaries"] and worker["canaries"][0]["taken_back"])

        await until(told, "the heartbeat says so")
        decisions = [
            json.loads(fields[b"envelope"])["payload"] for _, fields in await rows(bus, executor.decisions)
        ]
    by_variant = {(one["canary"]["variant"], one["profile"], one["outcome"]) for one in decisions}
    assert by_variant == {("canary", "new.v1", "empty"), ("control", "old.v1", "ok")}
    assert {one["canary"]["profile"] for one in decisions} == {"old.v1"}
    assert [one["canary"]["share"] for one in decisions if one["session_id"] == of_canary] == [0.5, 0.0]
    # A worker that is started now knows.
    later = settings.changed(instance="later")
    async with serving(later, opened_with(OneMemory(), tokens)) as (service, _):

        async def known() -> bool:
            return any(one.shared.taken_back for one in service.canaries.trials)

        await until(known, "the new worker knows")
    await executor.close()
