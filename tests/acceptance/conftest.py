"""The program in a folder of its own, and one that is up for tests that only ask."""

from __future__ import annotations

import contextlib
import json
import shutil
import signal
import tempfile
from collections.abc import AsyncGenerator, Generator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from orion_recall.sample.timed import sample_memories
from tests.acceptance.processes import WITH_SERVERS, running_engines, servers_of
from tests.acceptance.program import Program
from tests.stand_ins.patient_profiles import patient_profiles


@dataclass(frozen=True, slots=True)
class Up:
    """A running `orion-recall up` with the sample in it; `ready` is what it said when it was."""

    program: Program
    ready: dict[str, Any]


def _folder() -> Generator[Path]:
    # Not under pytest's own temporary folder: it is closed to the user that Postgres runs as under root.
    folder = Path(tempfile.mkdtemp(prefix="orion-cli-", dir="/tmp"))
    folder.chmod(0o711)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def program() -> Generator[Program]:
    """The program with nothing running."""
    for folder in _folder():
        yield Program(folder)


@pytest.fixture(scope="package")
async def servers() -> AsyncGenerator[dict[str, str]]:
    """The settings that name servers for all stores, when the suite is to run on servers; else none."""
    async with contextlib.AsyncExitStack() as stack:
        settings: dict[str, str] = {}
        if WITH_SERVERS:
            engines, _ = await stack.enter_async_context(running_engines())
            settings = {
                "ORION_REDIS_URL": engines.redis_url,
                "ORION_POSTGRES_DSN": engines.postgres_dsn,
                **servers_of(engines).settings,
            }
        yield settings


@pytest.fixture(scope="package")
def up(servers: dict[str, str]) -> Generator[Up]:
    """The program, up and filled."""
    for folder in _folder():
        # On a busy machine no source is late.
        patient = {"ORION_DEADLINE_MS": "60000", "ORION_PROFILES_DIR": str(patient_profiles(folder))}
        patient["ORION_ACKNOWLEDGE_MS"] = "30000"
        program = Program(folder, servers | patient)
        with program.started("up", "--json") as running:
            ready = running.ready()
            now = datetime.now(UTC)
            sample = folder / "sample.jsonl"
            memories = sample_memories(now, now - timedelta(days=1))
            sample.write_text("".join(f"{json.dumps(memory)}\n" for memory in memories))
            imported = program.run("import", str(sample))
            assert imported.code == 0, imported.err
            yield Up(program, ready)
            running.signal(signal.SIGTERM)
            assert running.end().code == 0
