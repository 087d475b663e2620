"""Real engines for integration tests: one of each for all of them, a fresh database for every test."""

from __future__ import annotations

import logging
import os
import shutil
import tempfile
import time
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit, urlunsplit
from uuid import uuid4

import asyncpg  # pyright: ignore[reportMissingTypeStubs]
import pytest
from bus_leftovers import leftovers
from executor import Executor, until
from explained import Asked, served
from redis.asyncio import Redis
from serving import IS_SHARED, caught_up, started

from orion_recall.bus.connect import connect
from orion_recall.client import RecallClient
from orion_recall.engines.embedded import EmbeddedEngines
from orion_recall.memory.record.record import Record
from orion_recall.models.tokenizer import TokenCounter
from orion_recall.postgres.pool import Connection, Pool, open_pool
from orion_recall.postgres.schema import migrate
from orion_recall.serving.service import Service
from orion_recall.settings import Settings
from tests.stand_ins.oxigraph import Oxigraph, oxigraph
from tests.stand_ins.patient_profiles import patient_profiles

_TEMPLATE = "orion_template"


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder with a short path under one that everybody may enter, which pytest's own are not."""
    made = Path(tempfile.mkdtemp(prefix="orion-test-", dir="/tmp"))
    made.chmod(0o755)
    yield made
    shutil.rmtree(made, ignore_errors=True)


@pytest.fixture
def data_dir(folder: Path) -> Path:
    """A data folder that is yet to be made."""
    return folder / "data"


@pytest.fixture(scope="package")
async def engines() -> AsyncGenerator[EmbeddedEngines]:
    """The embedded bus and Postgres. A test that stops one starts it again."""
    async with _private_engines() as started:
        yield started


@asynccontextmanager
async def _private_engines(*, postgres: bool = True) -> AsyncGenerator[EmbeddedEngines]:
    # Not under pytest's own temporary folder: it is closed to the user that Postgres runs as under root.
    data_dir = Path(tempfile.gettempdir()) / f"orion-tests-{os.getpid()}-{uuid4().hex[:8]}"
    try:
        async with EmbeddedEngines.start(data_dir, postgres=postgres) as started:
            yield started
    finally:
        shutil.rmtree(data_dir, ignore_errors=True)


@pytest.fixture(scope="package")
def postgres_dsn(engines: EmbeddedEngines) -> str:
    """The server's own database. Tests write to `database`, not here."""
    return engines.postgres_dsn


@pytest.fixture(scope="package")
async def _template(postgres_dsn: str) -> str:
    await _run(postgres_dsn, f"CREATE DATABASE {_TEMPLATE}")
    await migrate(_other_database(postgres_dsn, _TEMPLATE))
    return _TEMPLATE


@pytest.fixture
async def database(postgres_dsn: str, _template: str) -> AsyncGenerator[str]:
    """The DSN of a fresh database with the whole schema, dropped after the test."""
    async with _fresh_database(postgres_dsn, _template) as dsn:
        yield dsn


@pytest.fixture(scope="module")
async def module_database(postgres_dsn: str, _template: str) -> AsyncGenerator[str]:
    """As `database`, for tests of a file that only read what a fixture has filled once."""
    async with _fresh_database(postgres_dsn, _template) as dsn:
        yield dsn


@pytest.fixture
async def empty_database(postgres_dsn: str) -> AsyncGenerator[str]:
    """The DSN of a fresh database with nothing in it, dropped after the test."""
    async with _fresh_database(postgres_dsn) as dsn:
        yield dsn


@asynccontextmanager
async def _fresh_database(dsn: str, template: str = "template1") -> AsyncGenerator[str]:
    name = f"test_{uuid4().hex}"
    await _run(dsn, f"CREATE DATABASE {name} TEMPLATE {template}")
    yield _other_database(dsn, name)
    await _run(dsn, f"DROP DATABASE {name} WITH (FORCE)")


def _other_database(dsn: str, name: str) -> str:
    return urlunsplit(urlsplit(dsn)._replace(path=f"/{name}"))


async def _run(dsn: str, sql: str) -> None:
    opened: Any = await asyncpg.connect(dsn)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    connection = cast("Connection", opened)
    try:
        await connection.execute(sql)
    finally:
        await connection.close()


# A whole service, with engines of its own: tests of the engines above stop theirs, and it would have much to say.


@pytest.fixture(autouse=True)
async def the_bus_is_left_clean(request: pytest.FixtureRequest) -> AsyncGenerator[list[str]]:
    """Fails a test that leaves pending entries, keys without a time to live or reply streams on a bus.

    A fixture that hands out a bus appends its URL. That of `engines` is not asked about: tests of one part of a
    worker leave there what the rest of it would have taken.
    """
    urls: list[str] = []
    yield urls
    for url in dict.fromkeys(urls):
        async with connect(url) as redis:

            async def is_clean(redis: Redis = redis) -> bool:
                return not await leftovers(redis)

            try:
                await until(is_clean, "a clean bus", timeout_s=60)
            except AssertionError:
                found = await leftovers(redis)
                await redis.unlink(*found)
                pytest.fail(f"{request.node.name} left on the bus: {found}", pytrace=False)


@pytest.fixture(scope="package")
async def _service_engines() -> AsyncGenerator[EmbeddedEngines]:
    async with _private_engines() as started:
        yield started


@pytest.fixture
async def service_engines(_service_engines: EmbeddedEngines, the_bus_is_left_clean: list[str]) -> EmbeddedEngines:
    """The engines of `service`. A test that stops one starts it again."""
    the_bus_is_left_clean.append(_service_engines.redis_url)
    return _service_engines


@pytest.fixture(scope="package")
async def bus_alone() -> AsyncGenerator[EmbeddedEngines]:
    """A bus of its own for tests that flush it or stop it; nothing else runs on it."""
    async with _private_engines(postgres=False) as started:
        yield started


_MEMORIES = [
    {
        "id": name,
        "text": text,
        "speaker": speaker,
        "session_id": session,
        "occurred_at": (datetime.now(UTC) - timedelta(minutes=minutes)).isoformat(),
        "tags": ["seed"],
    }
    for name, text, speaker, session, minutes in (
        ("m-work", "I work at Fjord Labs in Bergen.", "Ana", "s-ana", 90),
        ("m-sister", "My sister Mira moved to Oslo last spring.", "Ana", "s-ana", 80),
        ("m-crane", "The harbour crane needs a new gearbox by Friday.", "Bo", "s-bo", 60),
        ("m-boat", "Bo sold the old sailing boat to a dentist.", "Bo", "s-bo", 30),
    )
]
_tenant_numbers = count()


@pytest.fixture(scope="package")
async def _running_service(_service_engines: EmbeddedEngines) -> AsyncGenerator[Service]:
    settings = Settings.read(
        redis_url=_service_engines.redis_url,
        postgres_dsn=_service_engines.postgres_dsn,
        data_dir=_service_engines.data_dir,
        profiles_dir=patient_profiles(_service_engines.data_dir),
        deadline_ms=60_000,  # nor is a source that it keeps waiting late
        prefix="svc:",
        tenants=("default", "tenant> { } ; DROP ALL #", *(f"tenant-{number}" for number in range(1000))),
        refresh_ms=100,
        claim_idle_ms=500,
        reply_ttl_s=60,
        max_query_bytes=2_000_000,
        max_message_bytes=2_000_000,
        acknowledge_ms=30_000,  # a busy machine is not a copy that is behind
        instance="service",
        health_port=0,
    )
    before = IS_SHARED.set(True)
    async with started(settings) as service:
        IS_SHARED.reset(before)
        async with RecallClient.connect(_service_engines.redis_url, prefix="svc:") as client:
            receipt = await client.store(_MEMORIES)
        assert receipt.stored == len(_MEMORIES), receipt
        await caught_up(service, receipt.position or 0)
        yield service


@pytest.fixture
async def service(_running_service: Service, service_engines: EmbeddedEngines) -> Service:
    """A running service over a few memories: one for the whole run, so write to a `tenant` of your own only."""

    async def well() -> bool:
        return (
            _running_service.background.sink is not None and not _running_service.background.sink.postgres_is_away
        )

    await until(well, "a service that is well")
    pool = await open_pool(service_engines.postgres_dsn, name="test", min_size=0, max_size=1)
    await caught_up(
        _running_service, await Record(pool).head()
    )  # what the test before has stored and not waited for
    await pool.close()
    for breaker in _running_service.opened.sources.breakers.values():
        breaker.record(None, time.monotonic())
    return _running_service


@pytest.fixture
def caplog(caplog: pytest.LogCaptureFixture, request: pytest.FixtureRequest) -> Iterator[pytest.LogCaptureFixture]:
    """Without what the shared service says beside a test that does not use it: it may notice a slow machine."""
    if "service" in request.fixturenames:
        yield caplog
        return

    def is_own(record: logging.LogRecord) -> bool:
        return not IS_SHARED.get()

    caplog.handler.addFilter(is_own)
    yield caplog
    caplog.handler.removeFilter(is_own)


@pytest.fixture
def tenant() -> str:
    """A tenant that the service serves and no other test uses."""
    return f"tenant-{next(_tenant_numbers)}"


@pytest.fixture
async def executor(service: Service, service_engines: EmbeddedEngines) -> AsyncGenerator[Executor]:
    """Asks the running service with plain commands."""
    async with connect(service_engines.redis_url) as redis:
        asking = Executor(redis, service.settings.prefix)
        yield asking
        await asking.close()


@pytest.fixture
async def client(service: Service, service_engines: EmbeddedEngines) -> AsyncGenerator[RecallClient]:
    """Our own client, of the running service."""
    async with RecallClient.connect(service_engines.redis_url, prefix=service.settings.prefix) as connected:
        yield connected


@pytest.fixture
async def service_database(service_engines: EmbeddedEngines) -> AsyncGenerator[Connection]:
    """A connection to the service's Postgres, to look at what it has written."""
    opened: Any = await asyncpg.connect(service_engines.postgres_dsn)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    connection = cast("Connection", opened)
    yield connection
    await connection.close()


@pytest.fixture
async def sparql_server() -> AsyncGenerator[Oxigraph]:
    """A SPARQL server of the test's own: it may stop it, pause it and start it again."""
    async with oxigraph() as server:
        yield server


@pytest.fixture
async def bus(bus_alone: EmbeddedEngines, the_bus_is_left_clean: list[str]) -> AsyncGenerator[Redis]:
    """A client of `bus_alone`. What a test leaves there on purpose it takes away itself."""
    the_bus_is_left_clean.append(bus_alone.redis_url)
    async with connect(bus_alone.redis_url) as redis:
        yield redis


@pytest.fixture
def prefix() -> str:
    """A prefix for streams that no other test uses."""
    return f"t-{uuid4().hex}:"


@pytest.fixture(scope="package")
def tokens() -> TokenCounter:
    """The tokenizer, loaded once."""
    return TokenCounter()


@pytest.fixture(scope="module")
async def _asked_of_module(
    _service_engines: EmbeddedEngines, module_database: str, tmp_path_factory: pytest.TempPathFactory
) -> AsyncGenerator[Asked]:
    folder = tmp_path_factory.mktemp("why")
    async with served(_service_engines.redis_url, module_database, folder) as asked:
        yield asked


@pytest.fixture
def asked(_asked_of_module: Asked) -> Asked:
    """A service of the module, with memories and decisions of its own tenant for each test."""
    one = _asked_of_module
    return Asked(one.service, one.client, one.pool)


@pytest.fixture
async def pool(database: str) -> AsyncGenerator[Pool]:
    """Connections to a database of the test's own."""
    opened = await open_pool(database, name="test", max_size=6)
    yield opened
    await opened.close()
