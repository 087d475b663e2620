"""The schema: made once by workers that start together, kept as it was applied, refused where it is of others."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from urllib.parse import urlsplit, urlunsplit
from uuid import uuid4

import pytest

from orion_recall.errors import RecordError
from orion_recall.postgres.pool import Pool, borrow, open_pool
from orion_recall.postgres.schema import Migration, migrate, shipped_migrations

FIRST = Migration(name="memory/first.sql", sql="CREATE TABLE first (id int); SELECT 1", sha256="a")
SECOND = Migration(name="memory/0002_second.sql", sql="CREATE TABLE second (id int)", sha256="b")
BROKEN = Migration(name="memory/0003_broken.sql", sql="CREATE TABLE third (id int); SELEC", sha256="c")


@pytest.fixture
async def pool(empty_database: str) -> AsyncGenerator[Pool]:
    opened = await open_pool(empty_database, name="test", max_size=2)
    yield opened
    await opened.close()


async def _tables(pool: Pool) -> set[str]:
    rows = await pool.fetch("SELECT tablename FROM pg_tables WHERE schemaname = 'orion_recall'")
    return {row["tablename"] for row in rows}


async def test_workers_that_start_together_apply_each_file_once(empty_database: str) -> None:
    applied = await asyncio.gather(*(migrate(empty_database) for _ in range(4)))
    assert sorted(name for names in applied for name in names) == sorted(
        migration.name for migration in shipped_migrations()
    )


async def test_a_file_that_fails_leaves_nothing_and_what_was_before_it_stays(
    empty_database: str, pool: Pool
) -> None:
    with pytest.raises(RecordError, match="syntax error"):
        await migrate(empty_database, [FIRST, BROKEN])
    assert await _tables(pool) == {"first", "orion_migrations"}
    assert await migrate(empty_database, [FIRST, SECOND]) == [SECOND.name]


async def test_a_schema_of_a_later_version_is_refused(empty_database: str) -> None:
    await migrate(empty_database, [FIRST, SECOND])
    with pytest.raises(RecordError, match=r"of a later version \(memory/0002_second.sql was applied\): start that"):
        await migrate(empty_database, [FIRST])


async def test_a_schema_from_before_0_1_is_refused_with_the_way_out(empty_database: str) -> None:
    await migrate(empty_database, [FIRST._replace(name="memory/0001_memories.sql")])
    with pytest.raises(RecordError, match=r"before 0.1.0. Export the memories .* new database.* and import them"):
        await migrate(empty_database)


async def test_an_applied_file_that_was_changed_is_refused_with_advice(empty_database: str) -> None:
    await migrate(empty_database, [FIRST])
    with pytest.raises(RecordError, match="put the change into a new one"):
        await migrate(empty_database, [FIRST._replace(sha256="changed"), SECOND])


@pytest.mark.parametrize(
    ("theirs", "why"),
    [
        ("TABLE first (a text)", 'relation "first" already exists'),
        ("VIEW first AS SELECT 1", 'relation "first" already exists'),
        ("TABLE orion_migrations (id int)", 'column "name" does not exist'),
    ],
)
async def test_tables_of_others_in_our_schema_are_left_alone_and_another_schema_is_named(
    empty_database: str, pool: Pool, theirs: str, why: str
) -> None:
    await pool.execute(f"CREATE SCHEMA orion_recall; CREATE {theirs.replace(' ', ' orion_recall.', 1)}")
    with pytest.raises(RecordError, match=rf"{why}.*name one that is free \(ORION_POSTGRES_SCHEMA\)"):
        await migrate(empty_database, [FIRST])
    rows = await pool.fetch("SELECT relname FROM pg_class WHERE relnamespace = 'orion_recall'::regnamespace")
    assert [row["relname"] for row in rows] == [theirs.split()[1]]


async def test_a_role_without_the_right_to_create_is_told_what_to_grant(empty_database: str, pool: Pool) -> None:
    role = f"weak_{uuid4().hex[:8]}"
    await migrate(empty_database, [FIRST])
    await pool.execute(f"CREATE ROLE {role} LOGIN; GRANT SELECT ON orion_migrations TO {role}")
    grant = f'GRANT USAGE, CREATE ON SCHEMA "orion_recall" TO {role}'
    try:
        parts = urlsplit(empty_database)
        weak_dsn = urlunsplit(parts._replace(netloc=f"{role}@"))
        with pytest.raises(RecordError, match=f"permission denied for schema orion_recall.*{grant}"):
            await migrate(weak_dsn, [FIRST])
        await pool.execute(f"GRANT USAGE ON SCHEMA orion_recall TO {role}")
        assert await migrate(weak_dsn, [FIRST]) == []
        with pytest.raises(RecordError, match=grant):
            await migrate(weak_dsn, [FIRST, SECOND])
    finally:
        await pool.execute(f"DROP OWNED BY {role}; DROP ROLE {role}")


async def test_a_role_that_may_make_neither_schemas_nor_roles_fills_one_that_was_made_for_it(
    empty_database: str, pool: Pool
) -> None:
    role = f"plain_{uuid4().hex[:8]}"
    await pool.execute(f"CREATE ROLE {role} LOGIN")
    try:
        plain_dsn = urlunsplit(urlsplit(empty_database)._replace(netloc=f"{role}@"))
        make = f'CREATE SCHEMA "orion_recall" AUTHORIZATION {role}'
        with pytest.raises(RecordError, match=make):
            await migrate(plain_dsn)
        await pool.execute("CREATE SCHEMA orion_recall")
        with pytest.raises(RecordError, match=f'GRANT USAGE, CREATE ON SCHEMA "orion_recall" TO {role}'):
            await migrate(plain_dsn)
        await pool.execute(f"DROP SCHEMA orion_recall; {make}")
        assert await migrate(plain_dsn) == [m.name for m in shipped_migrations()]
    finally:
        await pool.execute(f"DROP OWNED BY {role}; DROP ROLE {role}")


async def test_a_pools_connections_speak_json_say_their_name_and_stop_slow_statements(empty_database: str) -> None:
    pool = await open_pool(empty_database, name="reads", max_size=1, statement_timeout_ms=1000)
    try:
        async with borrow(pool) as connection:
            value = {"a": [1, None, "é\x00"]}
            assert await connection.fetchval("SELECT $1::jsonb", value) == {"a": [1, None, "é\ufffd"]}
            name = await connection.fetchval("SELECT current_setting('application_name')")
            assert name == "orion-recall:reads"
            assert await connection.fetchval("SELECT current_setting('timezone')") == "UTC"
        with pytest.raises(RecordError, match="statement timeout"):
            async with borrow(pool) as connection:
                await connection.execute("SELECT pg_sleep(10)")
    finally:
        await pool.close()
