"""The README's code does what the README says."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from orion_recall.client import RecallClient
from tests.acceptance.processes import WITH_SERVERS, running_engines, start_worker, store_and_wait

pytestmark = pytest.mark.acceptance
README = (Path(__file__).parents[2] / "README.md").read_text("utf-8")


def block_of(name: str) -> str:
    """The README's code that defines the function of that name."""
    (block,) = [code for code in re.findall(r"```python\n(.*?)```", README, re.DOTALL) if f"def {name}(" in code]
    return block


def example(name: str) -> Any:
    """The function of that name, out of the README's code."""
    names: dict[str, Any] = {}
    exec(compile(block_of(name), f"README.md ({name})", "exec"), names)
    return names[name]


def as_a_script(name: str, folder: Path, *arguments: str) -> str:
    """What the block prints when somebody saves it as a file and runs it."""
    script = folder / f"{name}.py"
    script.write_text(block_of(name), "utf-8")
    done = subprocess.run(
        [sys.executable, script, *arguments], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


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
        for name in ("ask_by_channel", "ask_by_stream"):
            bundle = await asyncio.to_thread(example(name), engines.redis_url, "where does crate number 7 stand?")
            assert "Crate number 7 stands in hall 2" in bundle["rendered"]
            said = await asyncio.to_thread(as_a_script, name, folder, engines.redis_url, "where is crate number 8?")
            assert "Crate number 8 stands in hall 3" in said
        async with RecallClient.connect(engines.redis_url) as client:
            assert await example("correct")(client, "d-1")
        assert await worker.stop() == 0
        assert "Ana" in await example("remember")(folder / "a")
