"""What a login of an analyst cannot do: hold up those who write, or read the decisions of other tenants."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from datetime import UTC, datetime

import asyncpg  # pyright: ignore[reportMissingTypeStubs]
import pytest
from decision_samples import INSERT, decision, envelope
from deploy_servers import guarded_postgres, role_dsn, role_passwords, run_program, run_psql, session

from orion_recall.contracts import MemoryV1
from orion_recall.decisions import log as decision_log
from orion_recall.decisions.log import DecisionLog, let_analysts_in
from orion_recall.decisions.removal import Deleted, purge_older
from orion_recall.errors import RecordError
from orion_recall.memory.record.compose import compose
from orion_recall.memory.record.record import Record
from orion_recall.memory.record.sql import LOCK_OUTBOX
from orion_recall.memory.replicas import projector as writer_lock
from orion_recall.memory.replicas.projector import WriterLock
from orion_recall.postgres.pool import Pool, open_connection, open_pool
from orion_recall.postgres.schema import Migration, migrate, shipped_migrations

pytestmark = pytest.mark.slow

OWNER, WORKER, ANALYST = "orion_owner", "orion_worker", "orion_analyst"
OF_TENANTS = (
    "recall_decisions",
    "recall_by_profile_hour",
    "recall_selected",
    "recall_queries",
    "recall_memory_usage",
    "recall_trials",
    "recall_stage_ms",
    "recall_feedback_by_profile",
    "recall_candidates",
)
WRITING = (
    "SELECT lo_from_bytea(0, 'much')",
    "SELECT lo_create(0)",
    "SELECT lo_creat(-1)",
    "SELECT lo_put(1, 0, 'much')",
    "SELECT lo_open(1, 131072)",
    "SELECT lo_unlink(1)",
    "SELECT lowrite(0, 'much')",
    "CREATE TEMP TABLE mine (id int)",
    "SELECT 1 AS one INTO TEMP mine",
    "CREATE TABLE public.mine (id int)",
    "CREATE SCHEMA mine",
    "DELETE FROM recall_decisions",
)
WAL = (
    "SELECT pg_logical_emit_message(false, 'x', repeat('x', 1000))",
    "SELECT pg_logical_emit_message(true, 'x', 'x'::bytea)",
    "SELECT pg_logical_emit_message(false, 'x', 'x', true)",
    "SELECT pg_current_xact_id()",
    "SELECT txid_current()",
    "DO $$ BEGIN FOR i IN 1..9 LOOP BEGIN PERFORM txid_current(); EXCEPTION WHEN division_by_zero THEN END; "
    "END LOOP; END $$",
)
SCHEMA_LOCK = 7402116889


@pytest.fixture(scope="module")
async def dsn() -> AsyncGenerator[str]:
    """A superuser's DSN of a database with roles and schema."""
    async with guarded_postgres() as one:
        assert run_psql(one, role_passwords(), "roles.sql", "passwords.sql").returncode == 0
        code, _, err = await run_program({"ORION_POSTGRES_DSN": role_dsn(one, OWNER)}, "migrate")
        assert code == 0, err
        yield one


@pytest.fixture
async def worker(dsn: str) -> AsyncGenerator[Pool]:
    opened = await open_pool(role_dsn(dsn, WORKER), name="worker", max_size=2, statement_timeout_ms=5000)
    yield opened
    await opened.close()


@pytest.fixture
async def analyst(dsn: str) -> AsyncGenerator[Pool]:
    opened = await open_pool(role_dsn(dsn, ANALYST), name="sql", max_size=1)
    yield opened
    await opened.close()


def memory(name: str) -> MemoryV1:
    return MemoryV1(id=name, text=f"text of {name}")


async def test_no_advisory_lock_of_an_analyst_stops_a_write(dsn: str, worker: Pool) -> None:
    async with session(role_dsn(dsn, ANALYST)) as analyst:
        await analyst.execute("SELECT pg_advisory_lock($1)", SCHEMA_LOCK)
        stored = await Record(worker).store([compose(memory("held"), "default")])
        assert stored.position is not None
        assert await purge_older(worker, datetime(2000, 1, 1, tzinfo=UTC)) == Deleted()
        lock = WriterLock(role_dsn(dsn, WORKER), kind="index", copy="a")
        assert await lock.acquire()
        await lock.release()
        further = Migration(name="memory/9999_of_a_test.sql", sql="SELECT 1", sha256="x")
        assert await migrate(role_dsn(dsn, OWNER), [*shipped_migrations(), further]) == [further.name]
        async with session(dsn) as superuser:
            await superuser.execute("DELETE FROM orion_recall.orion_migrations WHERE name = $1", further.name)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT FROM write_locks FOR UPDATE",
        "LOCK TABLE write_locks IN ACCESS SHARE MODE",
        "LOCK TABLE orion_migrations IN ACCESS SHARE MODE",
        "SELECT take_write_lock('outbox')",
        "SELECT try_write_lock('decisions')",
        "LOCK TABLE recall_decisions IN SHARE MODE",
        "SET temp_file_limit = '100GB'",
        "SET ROLE orion_worker",
    ],
)
async def test_an_analyst_cannot_take_what_writers_lock(dsn: str, sql: str) -> None:
    async with session(role_dsn(dsn, ANALYST)) as analyst:
        with pytest.raises((asyncpg.InsufficientPrivilegeError, asyncpg.ReadOnlySQLTransactionError)):
            async with analyst.transaction():
                await analyst.execute(sql)
        await analyst.execute("SET default_transaction_read_only = off")
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            async with analyst.transaction():
                await analyst.execute(sql)


@pytest.mark.parametrize("sql", WRITING)
async def test_an_analyst_who_leaves_read_only_transactions_writes_nothing(dsn: str, sql: str) -> None:
    async with session(role_dsn(dsn, ANALYST)) as analyst:
        await analyst.execute("SET default_transaction_read_only = off")
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            async with analyst.transaction():
                await analyst.execute(sql)


@pytest.mark.parametrize("sql", WRITING)
async def test_an_analyst_of_the_embedded_server_writes_nothing_either(database: str, sql: str) -> None:
    for _ in range(2):  # at every start
        await let_analysts_in(database)
    async with session(database.replace("//orion@", f"//{ANALYST}@")) as analyst:
        await analyst.execute("SET default_transaction_read_only = off")
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            async with analyst.transaction():
                await analyst.execute(sql)
    async with session(database) as ours:
        await ours.execute("CREATE TEMP TABLE of_a_replay (id int)")


@pytest.mark.parametrize("sql", WAL)
async def test_an_analyst_writes_no_log_and_uses_up_no_ids_in_read_only_transactions(
    dsn: str, database: str, sql: str
) -> None:
    await let_analysts_in(database)
    for address in (role_dsn(dsn, ANALYST), database.replace("//orion@", f"//{ANALYST}@")):
        async with session(address) as analyst:
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await analyst.execute(sql)


async def test_defaults_that_an_analyst_sets_are_gone_at_the_next_start(database: str) -> None:
    await let_analysts_in(database)
    address = database.replace("//orion@", f"//{ANALYST}@")
    for name, value in (("search_path", "nowhere"), ("statement_timeout", "0"), ("work_mem", "'2GB'")):
        async with session(address) as analyst:
            await analyst.execute("SET default_transaction_read_only = off")
            await analyst.execute(f"ALTER ROLE {ANALYST} SET {name} = {value}")
    await let_analysts_in(database)
    async with session(address) as analyst:
        assert await analyst.fetchval("SHOW statement_timeout") == "1min"
        assert await analyst.fetchval("SHOW work_mem") != "2GB"
        assert "nowhere" not in await analyst.fetchval("SHOW search_path")


async def test_notifications_that_nobody_reads_take_half_a_megabyte(database: str) -> None:
    await let_analysts_in(database)
    async with session(database.replace("//orion@", f"//{ANALYST}@")) as analyst:
        assert await analyst.fetchval("SHOW max_notify_queue_pages") == "64"


async def test_who_forgets_may_ask_for_a_transaction_id(dsn: str) -> None:
    for role in (OWNER, WORKER):
        async with session(role_dsn(dsn, role)) as login:
            assert await login.fetchval("SELECT pg_current_xact_id()::text")


@pytest.mark.parametrize(
    "sql", ["TABLE pg_stats", "SELECT most_common_vals FROM pg_stats", "SELECT stavalues1 FROM pg_statistic"]
)
async def test_a_column_without_a_type_is_refused_with_what_to_do(analyst: Pool, sql: str) -> None:
    with pytest.raises(RecordError, match=r"most_common_vals::text|permission denied"):
        await DecisionLog(analyst).run_sql(sql)


async def test_writers_wait_for_each_other(dsn: str, worker: Pool) -> None:
    one = await open_connection(role_dsn(dsn, WORKER), name="other", statement_timeout_ms=5000)
    try:
        async with one.transaction():
            await one.execute(LOCK_OUTBOX)
            storing = asyncio.create_task(Record(worker).store([compose(memory("w"), "default")]))
            done, _ = await asyncio.wait([storing], timeout=0.3)
            assert not done
        assert (await storing).position is not None
    finally:
        await one.close()


async def test_the_writer_lock_is_kept_over_its_transactions(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer_lock, "_LONGEST_TRANSACTION_S", 0.0)
    one, other = (WriterLock(role_dsn(dsn, WORKER), kind="graph", copy="b") for _ in range(2))
    try:
        for _ in range(3):
            assert await one.acquire()
            assert not await other.acquire()
        await one.release()
        assert await other.acquire()
    finally:
        await one.release()
        await other.release()


async def test_the_limits_of_an_analysts_session(dsn: str) -> None:
    async with session(role_dsn(dsn, ANALYST)) as analyst:
        names = ("statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout", "temp_file_limit")
        assert [await analyst.fetchval(f"SHOW {name}") for name in names] == ["1min", "5s", "1min", "1GB"]
        assert await analyst.fetchval("SELECT rolconnlimit FROM pg_roles WHERE rolname = current_user") == 10


async def test_a_result_is_bounded_in_bytes(analyst: Pool) -> None:
    log = DecisionLog(analyst)
    result = await log.run_sql("SELECT n, repeat('x', 1000000) AS much FROM generate_series(1, 40) AS n")
    assert (len(result.rows), result.truncated, result.is_too_large) == (8, True, True)
    assert result.rows[7] == (8, "x" * 1_000_000)
    assert result.columns == ("n", "much")
    with pytest.raises(RecordError, match=r"first row alone is larger than 8388608 bytes\. Name fewer columns"):
        await log.run_sql("SELECT repeat('x', 100000000)")
    rows = await log.run_sql(
        "SELECT n, NULL AS nothing, n FROM generate_series(1, 9) AS n ORDER BY n DESC;", limit=9
    )
    assert rows.rows == tuple((n, None, n) for n in range(9, 0, -1))
    assert not rows.truncated


@pytest.mark.parametrize(
    "sql",
    [
        "VALUES (1, 'a')",
        "TABLE recall_decisions",
        "WITH one AS (SELECT 1) SELECT * FROM one -- a comment",
        "/* why */ (SELECT 1) UNION (SELECT 2)",
        "SHOW timezone",
        "EXPLAIN SELECT 1",
        "SELECT pg_sleep(0)",
        "SELECT '[1]'::jsonb, ARRAY['a'], ROW(1, 2), 1.5::numeric, now()",
    ],
)
async def test_every_kind_of_statement_that_reads_is_run(analyst: Pool, sql: str) -> None:
    result = await DecisionLog(analyst).run_sql(sql)
    assert result.rows or sql.startswith("TABLE")


async def test_what_comes_after_the_semicolon_is_refused(analyst: Pool) -> None:
    with pytest.raises(RecordError, match="Leave out what comes after its semicolon"):
        await DecisionLog(analyst).run_sql("SELECT 1; -- more")
    assert decision_log.SQL_MOST_BYTES == 8 << 20


async def test_analysts_see_the_decisions_of_their_tenants_where_that_is_set_up(dsn: str, worker: Pool) -> None:
    async with session(role_dsn(dsn, WORKER)) as connection:
        for tenant in ("north", "south"):
            await connection.execute(INSERT, [envelope(decision(corr_id=f"c-{tenant}") | {"tenant": tenant})])
            await connection.execute(
                "INSERT INTO recall_feedback (tenant, corr_id, used) VALUES ($1, 'c-' || $1, '{m1}')", tenant
            )
    for _ in range(2):  # it may be repeated
        done = run_psql(dsn, role_passwords(), "analysts-by-tenant.sql")
        assert done.returncode == 0, done.stderr
    try:
        async with session(role_dsn(dsn, ANALYST)) as analyst:
            for relation in OF_TENANTS:
                assert await analyst.fetch(f"SELECT * FROM {relation}") == []
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await analyst.fetch("SELECT note FROM recall_feedback")
        async with session(dsn) as superuser:
            await superuser.execute(
                f"INSERT INTO orion_recall.analyst_tenants VALUES ('{ANALYST}', 'north'), ('carla', 'south')"
            )
        async with session(role_dsn(dsn, ANALYST)) as analyst:
            assert [row["tenant"] for row in await analyst.fetch("SELECT tenant FROM recall_decisions")] == [
                "north"
            ]
            assert await analyst.fetchval("SELECT count(*) FROM recall_by_profile_hour") == 1
            assert await analyst.fetch("SELECT login, tenant FROM analyst_tenants") == [(ANALYST, "north")]
            assert await analyst.fetchval("SELECT sum(used) FROM recall_feedback_by_profile") == 1
            assert await analyst.fetchval("SELECT count(*) FROM recall_queries") == 1
            await _has_no_text_for_readers(dsn)
            await analyst.execute("SET default_transaction_read_only = off")
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await analyst.execute(f"INSERT INTO analyst_tenants VALUES ('{ANALYST}', 'south')")
        assert await worker.fetchval("SELECT count(*) FROM recall_decisions") >= 2
        assert await purge_older(worker, datetime(2000, 1, 1, tzinfo=UTC)) == Deleted()
    finally:
        async with session(dsn) as superuser:
            await superuser.execute("ALTER TABLE orion_recall.recall_decisions DISABLE ROW LEVEL SECURITY")
            await superuser.execute("ALTER TABLE orion_recall.recall_feedback DISABLE ROW LEVEL SECURITY")


async def _has_no_text_for_readers(dsn: str) -> None:
    """Texts are not shown by tenant: they are closed, rather than open for all tenants."""
    async with session(dsn) as superuser:
        for relation in ("recall_texts", "recall_never_selected"):
            await superuser.execute("SET ROLE orion_reader")
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await superuser.fetch(f"SELECT * FROM orion_recall.{relation}")
            await superuser.execute("RESET ROLE")
