"""The roles of deploy/postgres, on a real Postgres that asks for passwords."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from uuid import UUID, uuid4

import asyncpg  # pyright: ignore[reportMissingTypeStubs]
import pytest
from decision_samples import CASCADE, INSERT, decision, envelope
from deploy_servers import guarded_postgres, password, role_dsn, role_passwords, run_program, run_psql, session

from orion_recall.contracts import MemoryV1
from orion_recall.decisions.log import DecisionLog
from orion_recall.decisions.memories import Judged, judgements
from orion_recall.errors import RecordError
from orion_recall.memory.names.merges import Merges, WantedMerge
from orion_recall.memory.record.compose import compose
from orion_recall.memory.record.record import Record
from orion_recall.postgres.pool import open_pool
from orion_recall.postgres.schema import grant_worker_rights, migrate, shipped_migrations

pytestmark = pytest.mark.slow

OWNER, WORKER, ANALYST = "orion_owner", "orion_worker", "orion_analyst"
_RELATIONS = (
    "SELECT relname, has_table_privilege('orion_worker', oid, 'SELECT') AS is_open FROM pg_class "
    "WHERE relnamespace = 'orion_recall'::regnamespace AND relkind IN ('r', 'p', 'v', 'm')"
)
DECISIONS = (
    "recall_decisions",
    "recall_by_profile_hour",
    "recall_by_source",
    "recall_dropped",
    "recall_selected",
    "recall_layers",
    "recall_trials",
    "recall_follow_ups",
    "recall_candidates",
    "recall_profiles",
    "recall_queries",
    "recall_memory_usage",
    "recall_stage_ms",
    "recall_feedback_by_profile",
)
TEXTS = ("recall_texts", "recall_never_selected")
# Without a row in the test of what an analyst reads.
EMPTY = ("recall_trials", "recall_feedback_by_profile", "recall_candidates")


@pytest.fixture(scope="module")
async def server() -> AsyncGenerator[str]:
    async with guarded_postgres() as dsn:
        for _ in range(2):  # it runs at every start
            done = run_psql(dsn, role_passwords(), "roles.sql", "passwords.sql")
            assert (done.returncode, done.stderr) == (0, ""), done.stderr
        yield dsn


@pytest.fixture(scope="module")
async def dsn(server: str) -> str:
    """The superuser's DSN; the database has the schema, applied by its owner."""
    code, out, err = await run_program({"ORION_POSTGRES_DSN": role_dsn(server, OWNER)}, "migrate")
    assert code == 0, err
    assert out.splitlines() == [f"applied {migration.name}" for migration in shipped_migrations()]
    assert "orion_worker has its rights" in err
    return server


async def test_every_role_needs_its_own_password(server: str) -> None:
    for role in (OWNER, WORKER, ANALYST):
        async with session(role_dsn(server, role)) as connection:
            assert await connection.fetchval("SELECT session_user::text") == role
        with pytest.raises(asyncpg.InvalidPasswordError):
            async with session(role_dsn(server, role, "wrong")):
                pass


async def test_a_password_that_is_not_given_is_an_error_and_changes_nothing(server: str) -> None:
    given = role_passwords()
    del given["POSTGRES_OWNER_PASSWORD"]
    done = run_psql(server, given, "passwords.sql")
    assert done.returncode == 3
    assert password(WORKER) not in done.stdout + done.stderr
    async with session(role_dsn(server, OWNER)):
        pass


async def test_an_empty_password_lets_nobody_in(server: str) -> None:
    empty = run_psql(server, role_passwords() | {"POSTGRES_ANALYST_PASSWORD": ""}, "passwords.sql")
    assert empty.returncode == 0
    try:
        with pytest.raises(asyncpg.InvalidPasswordError):
            async with session(role_dsn(server, ANALYST, "")):
                pass
    finally:
        run_psql(server, role_passwords(), "passwords.sql")


async def test_the_owner_migrates_once_and_the_worker_cannot(server: str) -> None:
    name = f"other_{uuid4().hex}"
    async with session(server) as superuser:
        await superuser.execute(f"CREATE DATABASE {name}")
    other = server.replace("/orion?", f"/{name}?")
    try:
        assert run_psql(other, {}, "roles.sql").returncode == 0
        with pytest.raises(RecordError, match=r"the role orion_worker may not apply .* let the owner"):
            await migrate(role_dsn(other, WORKER))
        assert len(await migrate(role_dsn(other, OWNER))) == len(shipped_migrations())
        assert await grant_worker_rights(role_dsn(other, OWNER))
        assert await migrate(role_dsn(other, OWNER)) == []
        assert await migrate(role_dsn(other, WORKER)) == []
        with pytest.raises(RecordError, match="does not own the tables"):
            await grant_worker_rights(role_dsn(other, WORKER))
    finally:
        async with session(server) as superuser:
            await superuser.execute(f"DROP DATABASE {name} WITH (FORCE)")


async def test_the_worker_can_read_every_table_and_view_of_the_schema(dsn: str) -> None:
    """A new table is in rights.sql of its folder, or this fails."""
    async with session(dsn) as superuser:
        found = await superuser.fetch(_RELATIONS)
    assert [row["relname"] for row in found if not row["is_open"]] == []


@pytest.mark.parametrize(
    "sql",
    [
        "DROP TABLE memories",
        "TRUNCATE recall_decisions",
        "ALTER TABLE memories ADD COLUMN more text",
        "CREATE TABLE mine (a int)",
        "CREATE SCHEMA mine",
        "CREATE ROLE mine",
        "UPDATE memories SET tenant = 'another'",
        "UPDATE memory_history SET op = 'add'",
        "DELETE FROM memory_history",
        "UPDATE entity_merges SET alias = 'another'",
        "DELETE FROM memory_forgets",
        "UPDATE recall_decisions SET selected_ids = '[]'",
        "DELETE FROM memories",
        "DELETE FROM outbox",
        "UPDATE recall_decisions SET outcome = 'ok'",
        "UPDATE recall_decisions SET read_at = NULL",
        "UPDATE recall_profiles SET text = ''",
        "DELETE FROM recall_profiles",
        "INSERT INTO orion_migrations (name, sha256) VALUES ('a', 'b')",
        "SELECT setval('outbox_position_seq', 1)",
        "SELECT rolpassword FROM pg_authid",
        "SELECT pg_read_file('postgresql.conf')",
        "COPY memories TO PROGRAM 'cat'",
        "SET ROLE orion_owner",
        "SET ROLE orion_analyst",
    ],
)
async def test_the_worker_may_not(dsn: str, sql: str) -> None:
    async with session(role_dsn(dsn, WORKER)) as worker:
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await worker.execute(sql)


async def test_the_worker_may_merge_names_and_undo_it(dsn: str) -> None:
    pool = await open_pool(role_dsn(dsn, WORKER), name="merges", max_size=1)
    try:
        merges = Merges(pool)
        told = compose(MemoryV1(id="a", text="Bob rows.", entities=("Bob",)), "merging")
        await Record(pool).store([told])
        done = await merges.merge("merging", [WantedMerge(kind="entity", alias="Bob", into="Robert")])
        assert (done.verdicts[0].status, done.memories) == ("merged", 1)
        undone = await merges.undo("merging", [done.verdicts[0].id or 0])
        assert (undone.verdicts[0].status, undone.memories) == ("undone", 1)
    finally:
        await pool.close()


async def test_the_analyst_reads_the_decision_log(dsn: str) -> None:
    async with session(role_dsn(dsn, WORKER)) as worker:
        await worker.execute(INSERT, [envelope(decision(corr_id="c-analyst", cascade=CASCADE))])
        await worker.execute(
            "INSERT INTO recall_profiles (hash, profile, text) VALUES ('h', 'p.v1', 'profile: p.v1')"
        )
    pool = await open_pool(role_dsn(dsn, ANALYST), name="analyst", max_size=1)
    try:
        log = DecisionLog(pool)
        assert [one.corr_id for one in await log.get("c-analyst")] == ["c-analyst"]
        for relation in DECISIONS:
            result = await log.run_sql(f"SELECT * FROM {relation}")
            assert result.rows or relation in EMPTY, relation
    finally:
        await pool.close()


async def test_the_analyst_reads_nothing_else(dsn: str) -> None:
    async with session(dsn) as superuser:
        found = await superuser.fetch(_RELATIONS)
    others = {row["relname"] for row in found} - set(DECISIONS)
    assert {"memories", "outbox", "collapse_mirror", "orion_migrations"} <= others
    async with session(role_dsn(dsn, ANALYST)) as analyst:
        for relation in sorted(others):
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await analyst.fetch(f"SELECT * FROM {relation}")


async def test_a_login_that_is_a_reader_also_reads_texts_and_no_table_of_the_record(dsn: str) -> None:
    async with session(role_dsn(dsn, WORKER)) as worker:
        for name in ("told", "untold"):
            await worker.execute(
                "INSERT INTO memories (tenant, id, text, kind, text_hash, content_hash) "
                "VALUES ('read', $1, 'the text of ' || $1, 'world', $1, $1)",
                name,
            )
        made = decision(tenant="read", corr_id="c-read", selected_ids=["told", "never stored"])
        await worker.execute(INSERT, [envelope(made)])
    async with session(dsn) as superuser:
        await superuser.execute(f"CREATE ROLE carla LOGIN PASSWORD '{password('carla')}' IN ROLE orion_reader")
        try:
            async with session(role_dsn(dsn, "carla")) as carla:
                rows = await carla.fetch("SELECT memory_id, state, text FROM recall_texts WHERE tenant = 'read'")
                assert [tuple(row) for row in rows] == [
                    ("told", "unchanged", "the text of told"),
                    ("never stored", "gone", None),
                ]
                rows = await carla.fetch("SELECT memory_id, text FROM recall_never_selected WHERE tenant = 'read'")
                assert [tuple(row) for row in rows] == [("untold", "the text of untold")]
                for relation in (*DECISIONS, *TEXTS):
                    await carla.fetch(f"SELECT * FROM {relation}")
                found = await superuser.fetch(_RELATIONS)
                for relation in sorted({row["relname"] for row in found} - {*DECISIONS, *TEXTS}):
                    with pytest.raises(asyncpg.InsufficientPrivilegeError):
                        await carla.fetch(f"SELECT * FROM {relation}")
                for sql in ("DELETE FROM recall_decisions", "UPDATE recall_texts SET text = ''"):
                    with pytest.raises(
                        (asyncpg.InsufficientPrivilegeError, asyncpg.ObjectNotInPrerequisiteStateError)
                    ):
                        await carla.execute(sql)
            async with session(role_dsn(dsn, ANALYST)) as analyst:
                for relation in TEXTS:
                    with pytest.raises(asyncpg.InsufficientPrivilegeError):
                        await analyst.fetch(f"SELECT memory_id FROM {relation}")
                with pytest.raises(asyncpg.InsufficientPrivilegeError):
                    await analyst.execute("SET ROLE orion_reader")
        finally:
            await superuser.execute("DROP ROLE carla")


async def test_nobody_logs_in_as_orion_reader(server: str) -> None:
    async with session(server) as superuser:
        assert await superuser.fetchval("SELECT rolcanlogin FROM pg_roles WHERE rolname = 'orion_reader'") is False


async def test_feedback_is_read_by_the_worker_and_not_by_the_analyst(dsn: str) -> None:
    made = decision(corr_id="c-fed-back")
    async with session(role_dsn(dsn, WORKER)) as worker:
        await worker.execute(INSERT, [envelope(made)])
        await worker.execute(
            "INSERT INTO recall_feedback (tenant, corr_id, used, entry_id) VALUES ($1, 'c-fed-back', '{m1}', 'e')",
            made["tenant"],
        )
    for role in (WORKER, ANALYST):
        pool = await open_pool(role_dsn(dsn, role), name="feedback", max_size=1)
        try:
            found = await judgements(pool, [UUID(made["id"])])
            assert found == ({made["id"]: Judged(used=frozenset(("m1",)))} if role == WORKER else {})
        finally:
            await pool.close()


async def test_the_documented_sql_runs_in_psql_by_the_names_alone_and_by_qualified_ones(dsn: str) -> None:
    for role in (OWNER, WORKER, ANALYST):
        async with session(role_dsn(dsn, role)) as person:
            for relation in DECISIONS:
                assert await person.fetchval(f"SELECT count(*) FROM {relation}") is not None
                assert await person.fetchval(f"SELECT count(*) FROM orion_recall.{relation}") is not None
            # The embedded server that the tests run on has it so by itself; others do not.
            assert await person.fetchval("SELECT source FROM pg_settings WHERE name = 'search_path'") == "database"
