"""Real engines for integration tests: one of each for the whole run, a fresh database for every test."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit, urlunsplit
from uuid import uuid4

import asyncpg  # pyright: ignore[reportMissingTypeStubs]
import pytest

from orion_recall.engines.embedded import EmbeddedEngines
from orion_recall.postgres import Connection, migrate

_TEMPLATE = "orion_template"


@pytest.fixture(scope="session")
async def engines() -> AsyncGenerator[EmbeddedEngines]:
    """The embedded bus and Postgres. A test that stops one starts it again."""
    # Not under pytest's own temporary folder: it is closed to the user that Postgres runs as under root.
    data_dir = Path(tempfile.gettempdir()) / f"orion-tests-{os.getpid()}-{uuid4().hex[:8]}"
    try:
        async with EmbeddedEngines.start(data_dir) as started:
            yield started
    finally:
        shutil.rmtree(data_dir, ignore_errors=True)


@pytest.fixture(scope="session")
def postgres_dsn(engines: EmbeddedEngines) -> str:
    """The server's own database. Tests write to `database`, not here."""
    return engines.postgres_dsn


@pytest.fixture(scope="session")
async def _template(postgres_dsn: str) -> str:
    await _run(postgres_dsn, f"CREATE DATABASE {_TEMPLATE}")
    await migrate(_other_database(postgres_dsn, _TEMPLATE))
    return _TEMPLATE


@pytest.fixture
async def database(postgres_dsn: str, _template: str) -> AsyncGenerator[str]:
    """The DSN of a fresh database with the whole schema, dropped after the test."""
    name = f"test_{uuid4().hex}"
    await _run(postgres_dsn, f"CREATE DATABASE {name} TEMPLATE {_template}")
    yield _other_database(postgres_dsn, name)
    await _run(postgres_dsn, f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
async def empty_database(postgres_dsn: str) -> AsyncGenerator[str]:
    """The DSN of a fresh database with nothing in it, dropped after the test."""
    name = f"test_{uuid4().hex}"
    await _run(postgres_dsn, f"CREATE DATABASE {name}")
    yield _other_database(postgres_dsn, name)
    await _run(postgres_dsn, f"DROP DATABASE {name} WITH (FORCE)")


def _other_database(dsn: str, name: str) -> str:
    return urlunsplit(urlsplit(dsn)._replace(path=f"/{name}"))


async def _run(dsn: str, sql: str) -> None:
    opened: Any = await asyncpg.connect(dsn)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    connection = cast("Connection", opened)
    try:
        await connection.execute(sql)
    finally:
        await connection.close()
