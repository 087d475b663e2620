"""A reranking server in a recall: followed, slow, hung and killed."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections import Counter
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from pathlib import Path

import pytest

from orion_recall.contracts import MemoryV1, RecallQueryV1
from orion_recall.memory.record.compose import compose
from orion_recall.profile.sections import Rerank
from orion_recall.recall.pipeline import Recalled, recall
from orion_recall.serving.backends import Opened, open_sources
from orion_recall.settings import Settings
from orion_recall.values import Change
from tests.stand_ins.model_servers import ModelServer, tei_server
from tests.stand_ins.patient_profiles import patient

pytestmark = pytest.mark.slow

TEXTS = {
    "oiled": "The crane was oiled by Bo.",
    "gear": "What lifts the boxes at the quay has a broken gear.",
    "boat": "Ana sold her boat to a dentist.",
}


@dataclass(frozen=True, slots=True)
class Scene:
    """Three memories, and a reranker to ask."""

    opened: Opened
    tei: ModelServer

    async def ask(self, **wanted: int) -> Recalled:
        asking = patient("assist.light.v1").model_copy(
            update={"rerank": Rerank.model_validate({"enabled": True, "timeout_ms": 30_000, **wanted})}
        )
        query = RecallQueryV1(fragment="what is broken at the quay?")
        return await recall(query, asking, self.opened.sources, timeout_s=60)


@pytest.fixture
async def scene() -> AsyncGenerator[Scene]:
    with tempfile.TemporaryDirectory(prefix="orion-test-", dir="/tmp") as folder:
        async with tei_server(task="reranker") as tei:
            settings = Settings.read(data_dir=Path(folder), reranker="tei", reranker_url=tei.url)
            async with open_sources(settings) as opened:
                assert opened.index is not None
                memories = [compose(MemoryV1(id=name, text=text), "default") for name, text in TEXTS.items()]
                await opened.index.apply(
                    [Change(position=place, memory=one) for place, one in enumerate(memories, 1)]
                )
                yield Scene(opened, tei)


async def test_a_servers_scores_are_a_part_of_the_score(scene: Scene) -> None:
    recalled = await scene.ask(weight=100)
    assert recalled.reranking is not None
    assert (recalled.reranking.status, recalled.reranking.count) == ("ok", 3)
    parts = {item.memory.id: item.parts["rerank"] for item in recalled.ranked}
    assert sorted(parts, key=lambda name: -parts[name]) == [item.memory.id for item in recalled.ranked]
    assert recalled.ranked[0].memory.id == "gear"


async def test_a_hung_server_costs_its_time_and_no_more_and_is_followed_again(scene: Scene) -> None:
    calm = await scene.ask()
    scene.tei.behave(failure="hang")
    began = time.perf_counter()
    recalled = await scene.ask(timeout_ms=100)
    assert time.perf_counter() - began < 30
    assert recalled.outcome == calm.outcome == "ok"
    assert recalled.reranking is not None
    assert (recalled.reranking.status, recalled.reranking.error) == ("late", "no answer within 100 ms")
    assert {item.memory.id for item in recalled.ranked} == set(TEXTS)
    assert not any("rerank" in item.parts for item in recalled.ranked)
    scene.tei.behave(failure="slow")
    followed = await scene.ask()
    assert followed.reranking is not None
    assert followed.reranking.status == "ok"
    assert [item.memory.id for item in followed.ranked] == [item.memory.id for item in calm.ranked]


def tasks() -> Counter[str]:
    """How many tasks run each coroutine: one that goes on in a new task is none that was left behind."""
    return Counter(getattr(task.get_coro(), "__qualname__", "?") for task in asyncio.all_tasks())


async def test_a_server_that_fails_is_told_and_leaves_no_task_behind(scene: Scene) -> None:
    await scene.ask()
    before = tasks()
    scene.tei.behave(failure=500)
    recalled = await scene.ask()
    assert recalled.outcome == "ok"
    assert recalled.reranking is not None
    assert recalled.reranking.status == "failed"
    assert "answered /rerank with 500" in (recalled.reranking.error or "")
    # Services of other tests live in the same loop, and have tasks that come and go.
    async with asyncio.timeout(30):
        while tasks() - before:
            await asyncio.sleep(0.01)


async def test_a_killed_server_is_left_alone_after_three_times() -> None:
    with tempfile.TemporaryDirectory(prefix="orion-test-", dir="/tmp") as folder:
        settings = Settings.read(data_dir=Path(folder), reranker="tei", reranker_url="http://127.0.0.1:9")
        async with open_sources(settings) as opened:
            assert opened.index is not None
            memory = compose(MemoryV1(id="gear", text=TEXTS["gear"]), "default")
            await opened.index.apply([Change(position=1, memory=memory)])
            alone = Scene(opened, ModelServer("http://127.0.0.1:9"))
            reports = [(await alone.ask()).reranking for _ in range(4)]
    errors = [report.error or "" for report in reports if report is not None]
    assert all("cannot be reached" in error for error in errors)
    assert errors[3].startswith("left alone after: ")
