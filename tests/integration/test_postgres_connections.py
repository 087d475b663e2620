"""Databases in which others have tables of any name: ours are found in our schema, theirs stay as they are."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from decision_samples import decision, envelope
from executor import until
from foreign_tables import contents, forget_our_path, relations, visitor

from orion_recall.contracts import MemoryV1
from orion_recall.decisions.log import DecisionLog
from orion_recall.decisions.sink import _INSERT as INSERT  # pyright: ignore[reportPrivateUsage]
from orion_recall.errors import RecordError, SourceError
from orion_recall.memory.record.compose import compose
from orion_recall.memory.record.record import Record
from orion_recall.memory.transfer.backup import back_up, restore
from orion_recall.postgres.pool import Connection, borrow, open_pool
from orion_recall.postgres.schema import migrate, shipped_migrations
from orion_recall.settings import Settings
from orion_recall.sources.timeline import TimelineSource, TimelineTable
from orion_recall.text.normal import text_hash
from orion_recall.values import Question, Scope, SearchRequest

pytestmark = pytest.mark.slow

POOLED = "&statement_cache_size=0"
THEIR_LIST = """
CREATE TABLE orion_migrations (name text PRIMARY KEY, sha256 text NOT NULL, applied_at timestamptz NOT NULL);
INSERT INTO orion_migrations VALUES ('memory/0001_theirs.sql', 'x', now())
"""


@pytest.fixture(params=["a_table_of_theirs", "a_list_like_ours"])
async def theirs(request: pytest.FixtureRequest, database: str, empty_database: str) -> AsyncGenerator[Connection]:
    """A visitor of `empty_database`, in which others have a table with a row of each of our names."""
    async with visitor(database) as ours:
        names = [name for name, kind in (await relations(ours, "orion_recall")).items() if kind != "S"]
        sequences = set(await relations(ours, "orion_recall")) - set(names)
    assert {"memories", "collapse_mirror", "orion_migrations", "recall_decisions"} <= set(names)
    async with visitor(empty_database) as connection:
        await forget_our_path(connection)
        for name in names:
            if name != "orion_migrations" or request.param == "a_table_of_theirs":
                await connection.execute(
                    f"CREATE TABLE {name} (id text PRIMARY KEY, text text, tenant text, ts text)"
                )
                await connection.execute(
                    f"INSERT INTO {name} VALUES ('theirs', 'the crane is theirs', 'acme', 'noon')"
                )
            else:
                await connection.execute(THEIR_LIST)
        for name in sequences:
            await connection.execute(f"CREATE SEQUENCE {name} START 1000")
        yield connection


@pytest.mark.parametrize("parameters", ["", POOLED], ids=["direct", "pooled"])
async def test_beside_tables_of_all_our_names_everything_works_and_nothing_of_theirs_is_changed(
    empty_database: str, theirs: Connection, parameters: str
) -> None:
    before = await contents(theirs, "public"), await relations(theirs, "public")
    dsn = f"{empty_database}{parameters}"
    assert await migrate(dsn) == [migration.name for migration in shipped_migrations()]
    assert await migrate(dsn) == []
    await use(dsn, "acme")
    assert (await contents(theirs, "public"), await relations(theirs, "public")) == before
    assert await theirs.fetchval("SELECT last_value FROM public.memories_seq_seq") == 1000


async def use(dsn: str, tenant: str) -> None:
    """Stores, recalls and decides."""
    now = datetime.now(UTC)
    pool = await open_pool(dsn, name="test", max_size=2)
    timeline = TimelineSource(dsn, TimelineTable())
    try:
        record = Record(pool)
        memory = compose(MemoryV1(id="m1", text="The crane is ours.", occurred_at=now), tenant)
        assert (await record.store([memory])).verdicts[0].status == "stored"
        hits = await timeline.search(asked(tenant, now.timestamp() + 60))
        assert [hit.read().text for hit in hits if hit.read] == ["The crane is ours."]
        await pool.execute(INSERT, [envelope(decision(corr_id="c1"))])
        log = DecisionLog(pool)
        assert [one.corr_id for one in (await log.latest())[0]] == ["c1"]
        assert (await log.run_sql("SELECT corr_id FROM recall_decisions")).rows == (("c1",),)
    finally:
        await timeline.close()
        await pool.close()


def asked(tenant: str, now: float) -> SearchRequest:
    text = "crane"
    question = Question(
        text=text, dense_text=text, keyword_text=text, terms=frozenset((text,)), now=now, text_hash=text_hash(text)
    )
    return SearchRequest(question=question, scope=Scope(tenant=tenant), limit=10, window_minutes=60)


@pytest.mark.parametrize("parameters", ["", POOLED], ids=["direct", "pooled"])
async def test_before_the_schema_is_there_no_table_of_others_is_taken_for_ours(
    empty_database: str, theirs: Connection, parameters: str
) -> None:
    before = await contents(theirs, "public")
    dsn = f"{empty_database}{parameters}"
    pool = await open_pool(dsn, name="test", max_size=1)
    timeline = TimelineSource(dsn, TimelineTable())
    try:
        for statement in ("SELECT * FROM memories", "DELETE FROM memories", "SELECT nextval('memories_seq_seq')"):
            with pytest.raises(RecordError, match="does not exist"):
                async with borrow(pool) as connection:
                    await connection.execute(statement)
            with pytest.raises(RecordError, match="does not exist"):
                async with borrow(pool) as connection, connection.transaction():
                    await connection.fetch(statement)
        with pytest.raises(SourceError, match="the view collapse_mirror of this service"):
            await timeline.search(asked("acme", datetime.now(UTC).timestamp()))
        with pytest.raises(Exception, match="schema of the record is not this version's"):
            await back_up(dsn, Path("/nowhere/at/all"))
    finally:
        await timeline.close()
        await pool.close()
    assert await contents(theirs, "public") == before


@pytest.mark.parametrize("name", ["mesh_log", "public.mesh_log", "Mesh.mesh_log"])
@pytest.mark.parametrize("parameters", ["", POOLED], ids=["direct", "pooled"])
async def test_a_table_of_others_is_looked_up_where_the_login_looks(
    database: str, name: str, parameters: str
) -> None:
    schema = name.rpartition(".")[0] or "public"
    async with visitor(database) as connection:
        await connection.execute(f'CREATE SCHEMA IF NOT EXISTS "{schema}"')
        await connection.execute(f'CREATE TABLE "{schema}".mesh_log (id text, ts timestamptz, text text)')
        await connection.execute(f"INSERT INTO \"{schema}\".mesh_log VALUES ('l1', now(), 'the crane fell')")
    columns = {"id": "id", "ts": "ts", "text": "text"}
    for cited_as in (None, "log"):
        table = TimelineTable.mapped(name, columns, "acme", cited_as=cited_as)
        timeline = TimelineSource(f"{database}{parameters}", table)
        try:
            hits = await timeline.search(asked("acme", datetime.now(UTC).timestamp() + 60))
            assert [hit.read().text for hit in hits if hit.read] == ["the crane fell"]
        finally:
            await timeline.close()


@pytest.mark.parametrize("parameters", ["", POOLED], ids=["direct", "pooled"])
async def test_two_schemas_of_one_database_are_two_installations(
    empty_database: str, parameters: str, tmp_path: Path
) -> None:
    first, second = (
        Settings.read(postgres_dsn=f"{empty_database}{parameters}", postgres_schema=schema).dsn or ""
        for schema in ("orion_recall", "second_one")
    )
    shipped = [migration.name for migration in shipped_migrations()]
    assert await migrate(first) == shipped
    await use(first, "acme")
    assert await migrate(second) == shipped
    assert await migrate(first) == await migrate(second) == []
    pool = await open_pool(second, name="test", max_size=1)
    assert await Record(pool).head() == 0
    await pool.close()
    await use(second, "acme")

    made = await back_up(first, tmp_path / "b", with_decisions=True)
    third = Settings.read(postgres_dsn=f"{empty_database}{parameters}", postgres_schema="third").dsn or ""
    assert await restore(third, tmp_path / "b") == made
    async with visitor(empty_database) as connection:
        assert await contents(connection, "third") != await contents(connection, "second_one")
        names = ("memories", "recall_decisions", "outbox", "collapse_mirror")
        one, other = await contents(connection, "orion_recall"), await contents(connection, "third")
        assert {name: one[name] for name in names} == {name: other[name] for name in names}
        assert await relations(connection, "public") == {}


async def test_a_statement_that_fails_behind_a_pooler_leaves_the_connection_usable(database: str) -> None:
    pool = await open_pool(f"{database}{POOLED}", name="test", max_size=1)
    try:
        backend = await pool.fetchval("SELECT pg_backend_pid()")
        with pytest.raises(RecordError, match="DivisionByZeroError"):
            async with borrow(pool) as connection:
                await connection.fetchval("SELECT 1 / $1::int", 0)
        assert await pool.fetchval("SELECT pg_backend_pid()") == backend
        await pool.executemany("INSERT INTO memory_access VALUES ($1, $2, 1, now())", [("a", "x"), ("a", "y")])
        assert await pool.fetchval("SELECT count(*) FROM memory_access") == 2
        assert await pool.fetchrow("SELECT current_schemas(false)::text") is not None
        assert await pool.fetchval("SELECT current_setting('search_path')") == "orion_recall"
    finally:
        await pool.close()


async def test_a_statement_that_is_cancelled_behind_a_pooler_gives_its_session_up_at_once(database: str) -> None:
    pool = await open_pool(f"{database}{POOLED}", name="slow", max_size=1)
    try:
        async with visitor(database) as watching:

            async def sessions(query: str) -> int:
                return await watching.fetchval(
                    "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'orion-recall:slow' "
                    "AND query ~ $1",
                    query,
                )

            sleeping = asyncio.create_task(pool.execute("SELECT pg_sleep(3600)"))
            await until(lambda: _is(sessions("pg_sleep"), 1), "a statement that runs")
            sleeping.cancel()
            await asyncio.wait([sleeping], timeout=60)
            assert sleeping.cancelled()
            assert await pool.fetchval("SELECT count(*) FROM memories") == 0
    finally:
        await pool.close()


async def _is(asked: Awaitable[int], wanted: int) -> bool:
    return await asked == wanted
