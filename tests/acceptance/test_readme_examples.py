"""The README's code does what the README says."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest

from orion_recall.client import RecallClient
from tests.acceptance.processes import WITH_SERVERS, running_engines, start_worker, store_and_wait

pytestmark = pytest.mark.acceptance
README = (Path(__file__).parents[2] / "README.md").read_text("utf-8")


def example(name: str) -> Any:
    """The function of that name, out of the README's code."""
    (block,) = [code for code in re.findall(r"```python\n(.*?)```", README, re.DOTALL) if f"def {name}(" in code]
    names: dict[str, Any] = {}
    exec(compile(block, f"README.md ({name})", "exec"), names)
    return names[name]


@pytest.mark.skipif(WITH_SERVERS, reason="the last way reads a worker's own folder")
async def test_the_ways_of_asking_find_the_memory() -> None:
    async with running_engines() as (engines, folder):
        worker = await start_worker(engines, folder / "a")
        await store_and_wait(engines, worker)
        bundle = await asyncio.to_thread(example("ask"), engines.redis_url, "where does crate number 7 stand?")
        assert "Crate number 7 stands in hall 2" in bundle["rendered"]
        assert "Ana" in await example("step")(engines.redis_url)
        waited = await asyncio.to_thread(
            example("remembered"), engines.redis_url, "where does crate number 7 stand?"
        )
        assert "Crate number 7 stands in hall 2" in waited
        async with RecallClient.connect(engines.redis_url) as client:
            assert await example("correct")(client, "d-1")
        assert await worker.stop() == 0
        assert "Ana" in await example("remember")(folder / "a")
