"""Databases of an earlier version: everything is moved into our schema, or nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from uuid import uuid4

import pytest
from decision_samples import CASCADE, decision, envelope
from executor import until
from old_schema import apply_as_before, contents, forget_our_path, relations, visitor

from orion_recall.contracts import MemoryV1
from orion_recall.decisions.log import DecisionLog
from orion_recall.decisions.sink import _INSERT as INSERT  # pyright: ignore[reportPrivateUsage]
from orion_recall.errors import RecordError
from orion_recall.memory.record import tables
from orion_recall.memory.record.compose import compose
from orion_recall.memory.record.record import Record
from orion_recall.postgres.pool import Connection, migrate, open_pool, shipped_migrations
from orion_recall.settings import Settings

ROWS: Mapping[str, str] = {
    "memory_requests": "(tenant, idempotency_key, request_hash, receipt) VALUES ('acme', 'k', 'h', '{}')",
    "memory_access": "(tenant, id, count, last_at) VALUES ('acme', 'm1', 3, now())",
    "recall_feedback": "(tenant, used) VALUES ('acme', ARRAY['m1'])",
    "memory_extractions": "(tenant, memory_id, extractor) VALUES ('acme', 'm1', 'llm')",
    "entity_merges": "(tenant, kind, alias, alias_label, merged_into, canonical, canonical_folded) "
    "VALUES ('acme', 'entity', 'bob', 'Bob', 'Robert', 'Robert', 'robert')",
    "memory_successions": "(tenant, newer, older, reason) VALUES ('acme', 'm2', 'm1', 'by_person')",
    "memory_succession_history": "(tenant, newer, older, probability, state, reason, evidence, since) "
    "VALUES ('acme', 'm2', 'm1', 1, 'stated', 'by_person', '{}', now())",
    "memory_forgets": "(tenant, kind, actor) VALUES ('acme', 'session', 'ana')",
    "memory_forget_ids": "(forget, memory_id) VALUES (1, 'm1')",
    "keyword_lengths": "(tenant, text_terms, context_terms, measured_at) VALUES ('acme', 12, 30, now())",
    "projections": "(copy, kind, position) VALUES ('here', 'index', 1)",
    "copy_requests": "(copy, kind, task) VALUES ('here', 'index', 'check')",
    "memory_history": "(tenant, memory_id, version, op) VALUES ('acme', 'm1', 1, 'add')",
    "recall_profiles": "(hash, profile, text) VALUES ('h', 'reflect.v1', 'name: reflect.v1')",
    "outbox": "(tenant, memory_id, op) VALUES ('acme', 'm1', 'upsert')",
    "memories": "(tenant, id, text, kind, text_hash, content_hash, occurred_at) "
    "VALUES ('acme', 'm1', 'Ana oiled the crane.', 'world', 'a', 'b', '2026-11-01')",
}


@pytest.fixture
async def there(empty_database: str) -> AsyncGenerator[Connection]:
    """A visitor of a database that others use, too."""
    async with visitor(empty_database) as connection:
        await forget_our_path(connection)
        yield connection


async def fill(there: Connection) -> dict[str, list[str]]:
    """An installation of an earlier version with rows in every table, and what it holds."""
    await apply_as_before(there)
    for table, row in ROWS.items():
        await there.execute(f"INSERT INTO {table} {row}")
    await there.execute(INSERT, [envelope(decision(corr_id="before", cascade=CASCADE))])
    return await contents(there, "public")


async def test_all_rows_of_an_earlier_version_are_moved_and_nothing_is_left_behind(
    empty_database: str, there: Connection
) -> None:
    before = await fill(there)
    every = {one.name for one in (*tables.KEPT, *tables.DECISIONS)} | set(tables.LEFT_OUT)
    assert every <= before.keys()
    assert [name for name in every if not before[name]] == [], "a table without a row shows nothing"
    shapes = await relations(there, "public")

    assert await migrate(empty_database) == ["the move of all tables from the schema public to orion_recall"]
    assert await relations(there, "public") == {}
    assert await relations(there, "orion_recall") == shapes
    assert await contents(there, "orion_recall") == before
    assert await migrate(empty_database) == []

    pool = await open_pool(empty_database, name="test", max_size=1)
    try:
        assert [one.corr_id for one in (await DecisionLog(pool).latest()).decisions] == ["before"]
        record = Record(pool)
        stored = await record.store([compose(MemoryV1(id="m2", text="Bo came."), "acme")])
        assert stored.position == 2, "numbers go on where they were"
        assert (await record.store([compose(MemoryV1(id="m1", text="Other."), "acme")])).verdicts[0].status == (
            "conflict"
        )
    finally:
        await pool.close()


async def test_files_that_were_pending_are_applied_after_the_move(empty_database: str, there: Connection) -> None:
    shipped = shipped_migrations()
    await apply_as_before(there, shipped[:2])
    done = await migrate(empty_database)
    assert done == [
        "the move of all tables from the schema public to orion_recall",
        *(migration.name for migration in shipped[2:]),
    ]
    assert await relations(there, "public") == {}


async def test_what_others_have_beside_ours_stays_and_goes_on_to_work(
    empty_database: str, there: Connection
) -> None:
    before = await fill(there)
    await there.execute(
        "CREATE TABLE notes (id serial PRIMARY KEY, text text); INSERT INTO notes (text) VALUES ('mine');"
        "CREATE VIEW oiled AS SELECT id, text FROM memories WHERE text LIKE '%oiled%';"
        "CREATE INDEX by_kind ON memories (kind); ALTER TABLE memories ADD COLUMN own_mark text"
    )
    await migrate(empty_database)
    assert await relations(there, "public") == {"notes": "r", "notes_id_seq": "S", "oiled": "v"}
    assert await contents(there, "public") == {"notes": ["(1,mine)"], "oiled": ['(m1,"Ana oiled the crane.")']}
    assert (await contents(there, "orion_recall")).keys() == before.keys()


async def test_rights_are_kept_and_whoever_had_some_may_use_the_schema(
    empty_database: str, there: Connection
) -> None:
    await fill(there)
    reader, other = f"reader_{uuid4().hex[:8]}", f"other_{uuid4().hex[:8]}"
    await there.execute(
        f"CREATE ROLE {reader}; CREATE ROLE {other}; GRANT SELECT (id) ON memories TO {reader}; "
        f"GRANT USAGE ON outbox_position_seq TO {reader}"
    )
    try:
        await migrate(empty_database)
        for role, allowed in ((reader, True), ("orion_analyst", True), (other, False)):
            assert await there.fetchval("SELECT has_schema_privilege($1, 'orion_recall', 'USAGE')", role) is allowed
        assert await there.fetchval(
            "SELECT has_column_privilege($1, 'orion_recall.memories', 'id', 'SELECT')", reader
        )
        async with there.transaction():
            await there.execute("SET LOCAL ROLE orion_analyst")
            assert await there.fetchval("SELECT corr_id FROM orion_recall.recall_selected LIMIT 1") == "before"
    finally:
        await there.execute(f"DROP OWNED BY {reader}; DROP ROLE {reader}; DROP ROLE {other}")


async def test_a_move_that_is_cut_short_moves_nothing_and_is_done_the_next_time(
    empty_database: str, there: Connection
) -> None:
    before = await fill(there)
    async with visitor(empty_database) as reading:
        # The last of our tables to be moved is read meanwhile: the move waits for it, with all others moved.
        last = await there.fetchval(
            "SELECT relname::text FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind = 'v' "
            "ORDER BY oid DESC LIMIT 1"
        )
        async with reading.transaction():
            await reading.fetch(f"SELECT FROM {last}")
            moving = asyncio.create_task(migrate(empty_database))

            async def waits() -> bool:
                return await there.fetchval(
                    "SELECT count(*) = 1 FROM pg_locks AS l JOIN pg_stat_activity AS a USING (pid) "
                    "WHERE NOT l.granted AND a.application_name = 'orion-recall:migrate'"
                )

            await until(waits, "a move that waits for its last table")
            await there.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE application_name = 'orion-recall:migrate' AND datname = current_database()"
            )
            with pytest.raises(RecordError):
                await moving
    assert await relations(there, "orion_recall") == {}
    assert await contents(there, "public") == before
    assert len(await migrate(empty_database)) == 1
    assert await contents(there, "orion_recall") == before


async def test_workers_that_start_together_move_everything_once(empty_database: str, there: Connection) -> None:
    before = await fill(there)
    done = await asyncio.gather(*(migrate(empty_database) for _ in range(4)))
    assert sorted(map(len, done)) == [0, 0, 0, 1]
    assert await contents(there, "orion_recall") == before


async def test_a_process_that_looks_while_another_one_moves_ends_well(
    empty_database: str, there: Connection
) -> None:
    before = await fill(there)

    async def waiting(count: int) -> bool:
        return await there.fetchval(
            "SELECT count(*) = $1 FROM pg_stat_activity WHERE application_name = 'orion-recall:migrate' "
            "AND datname = current_database() AND wait_event_type = 'Lock'",
            count,
        )

    async with visitor(empty_database) as reading:
        async with reading.transaction():
            # A view of ours that is read meanwhile: the move waits for it, and holds the list of applied files.
            await reading.fetch("SELECT FROM recall_by_source")
            moving = asyncio.create_task(migrate(empty_database))
            await until(lambda: waiting(1), "a move that is under way")
            looking = asyncio.create_task(migrate(empty_database))
            await until(lambda: waiting(2), "a second process that has seen the old list")
        done = await asyncio.gather(moving, looking)
    assert [len(names) for names in done] == [1, 0]
    assert await contents(there, "orion_recall") == before


async def test_a_login_that_cannot_read_the_old_list_makes_no_empty_record_beside_it(
    empty_database: str, there: Connection
) -> None:
    before = await fill(there)
    role = f"blind_{uuid4().hex[:8]}"
    await there.execute(f"CREATE ROLE {role} LOGIN")
    database = await there.fetchval("SELECT quote_ident(current_database())")
    await there.execute(f"GRANT CREATE ON DATABASE {database} TO {role}")
    try:
        with pytest.raises(
            RecordError,
            match=rf"public\.orion_migrations, which belongs to orion, cannot be read.* Let orion run "
            rf"`orion-recall migrate` once.* GRANT SELECT ON \"public\"\.orion_migrations TO {role}",
        ):
            await migrate(empty_database.replace("//orion@", f"//{role}@"))
        assert not await there.fetchval("SELECT count(*) FROM pg_namespace WHERE nspname = 'orion_recall'")
        assert len(await migrate(empty_database)) == 1, "its owner moves it"
        assert await contents(there, "orion_recall") == before
    finally:
        await there.execute(f"DROP OWNED BY {role}; DROP ROLE {role}")


async def test_a_move_to_a_schema_where_others_have_a_table_of_that_name_says_to_name_another(
    empty_database: str, there: Connection
) -> None:
    before = await fill(there)
    await there.execute("CREATE SCHEMA orion_recall; CREATE TABLE orion_recall.memories (theirs int)")
    with pytest.raises(
        RecordError, match=r"\"memories\" already exists.* name one that is free \(ORION_POSTGRES_SCH"
    ):
        await migrate(empty_database)
    assert await contents(there, "public") == before
    assert await relations(there, "orion_recall") == {"memories": "r"}


@pytest.mark.parametrize(
    "change",
    [
        "DROP VIEW collapse_mirror; CREATE TABLE collapse_mirror (id text, note text)",
        "ALTER TABLE outbox RENAME COLUMN op TO what",
        "DROP TABLE copy_requests",
    ],
)
async def test_nothing_is_moved_where_something_is_not_as_it_was_made(
    empty_database: str, there: Connection, change: str
) -> None:
    await fill(there)
    await there.execute(change)
    before = await contents(there, "public")
    with pytest.raises(RecordError, match=r"is not as orion-recall made it: nothing was moved"):
        await migrate(empty_database)
    assert await contents(there, "public") == before
    assert await relations(there, "orion_recall") == {}


async def test_tables_of_another_role_are_left_to_that_role(empty_database: str, there: Connection) -> None:
    before = await fill(there)
    owner = f"owner_{uuid4().hex[:8]}"
    await there.execute(f"CREATE ROLE {owner}; ALTER TABLE orion_migrations OWNER TO {owner}")
    try:
        with pytest.raises(RecordError, match=f"belong to {owner}: let that role run `orion-recall migrate` once"):
            await migrate(empty_database)
        assert await contents(there, "public") == before
    finally:
        await there.execute(f"REASSIGN OWNED BY {owner} TO CURRENT_USER; DROP ROLE {owner}")


async def test_a_login_that_may_make_no_schema_is_told_what_to_do(empty_database: str, there: Connection) -> None:
    role = f"plain_{uuid4().hex[:8]}"
    await there.execute(f"CREATE ROLE {role} LOGIN; GRANT CREATE ON SCHEMA public TO {role}; SET ROLE {role}")
    await apply_as_before(there)
    await there.execute("RESET ROLE")
    plain = empty_database.replace("//orion@", f"//{role}@")
    try:
        with pytest.raises(
            RecordError, match=r"CREATE SCHEMA .* let everything stay .* ORION_POSTGRES_SCHEMA=public"
        ):
            await migrate(plain)
        stays = Settings.read(postgres_dsn=plain, postgres_schema="public")
        assert await migrate(stays.dsn or "") == []
        await there.execute(f"CREATE SCHEMA orion_recall AUTHORIZATION {role}")
        assert len(await migrate(plain)) == 1
        assert await relations(there, "public") == {}
    finally:
        await there.execute(f"DROP OWNED BY {role}; DROP ROLE {role}")


async def test_tables_of_another_release_are_not_moved(empty_database: str, there: Connection) -> None:
    await fill(there)
    await there.execute("INSERT INTO orion_migrations (name, sha256) VALUES ('memory/9999_later.sql', 'x')")
    with pytest.raises(RecordError, match=r"memory/9999_later\.sql is not this version's"):
        await migrate(empty_database)
    assert "orion_migrations" in await relations(there, "public")
