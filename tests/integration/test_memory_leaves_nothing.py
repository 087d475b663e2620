"""What goes from the record leaves nothing of itself elsewhere, and what stays is as its sender gave it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from orion_recall.contracts import MemoryV1
from orion_recall.decisions.removal import DecisionsWanted, blank_decisions, count_decisions
from orion_recall.engines.replay_folders import replay_folder
from orion_recall.memory.extraction.light import light
from orion_recall.memory.forget.record import ForgetRecord, Target
from orion_recall.memory.forget.run import CopyToCompact, Forgetting
from orion_recall.memory.record import extraction_queue
from orion_recall.memory.record.compose import Patch, compose, unique_names
from orion_recall.memory.record.record import Record
from orion_recall.memory.replicas.maintenance import serve
from orion_recall.memory.transfer.backup import back_up, restore
from orion_recall.postgres.pool import Connection, Pool, borrow, open_connection, open_pool
from orion_recall.settings import Settings
from orion_recall.values import JsonValue
from tests.stand_ins.memory_changes import MemoryChanges

TENANT = "acme"


@pytest.fixture
def record(pool: Pool) -> Record:
    return Record(pool)


def told(name: str, text: str, **fields: Any) -> MemoryV1:
    return MemoryV1.model_validate({"id": name, "text": text, **fields})


async def store(record: Record, *messages: MemoryV1) -> Sequence[str]:
    result = await record.store([compose(one, TENANT) for one in messages])
    return [one.status for one in result.verdicts]


async def in_record(pool: Pool, word: str) -> set[str]:
    """The tables of the record that hold the word."""
    tables = ("memories", "memory_history", "memory_successions", "memory_extractions", "memory_forgets")
    async with borrow(pool) as connection:
        counts = {
            table: await connection.fetchval(
                f"SELECT count(*) FROM {table} AS t WHERE t::text ILIKE $1", f"%{word}%"
            )
            for table in tables
        }
    return {table for table, count in counts.items() if count}


@asynccontextmanager
async def forgetting(database: str, target: Target) -> AsyncGenerator[ForgetRecord]:
    """A forgetting that has begun, or goes on."""
    connection = await open_connection(database, name="forgetting", statement_timeout_ms=60_000)
    try:
        forget = ForgetRecord(connection, target)
        await forget.begin(None)
        yield forget
    finally:
        await connection.close()


async def forgotten(database: str, target: Target) -> None:
    async with forgetting(database, target) as forget:
        while await forget.next_batch() is not None:
            pass
        await forget.clear_around()
        await forget.finish({})


async def extracted(pool: Pool) -> None:
    """What a worker's light extraction does with all that is due."""
    while taken := await extraction_queue.take(pool, "light", 50, for_s=60):
        for one in taken:
            found = light(one.passage)
            names = unique_names([*found.entities, *one.memory.given_entities])
            await extraction_queue.finish(pool, one, replace(found, entities=names))


@pytest.mark.parametrize("before", ["\n", "\t", "\r\n", "\f", "\u0001", '"', "- ", "\\"])
async def test_a_person_is_forgotten_whatever_stands_before_the_name(
    before: str, record: Record, pool: Pool, database: str
) -> None:
    guests = [f"Guest{number} Ames{number}" for number in range(30)]  # more names than are taken from a text
    text = before.join(["Invited:", *guests, "nora quist", "Nora Quist"])
    await store(record, told("guests", text), told("other", "Tenora Quastad sings."))
    await forgotten(database, Target.of("person", TENANT, "Nora Quist"))
    assert await in_record(pool, "nora quist") == set()
    assert (await record.get(TENANT, ["other"]))["other"].text == "Tenora Quastad sings."


async def test_of_a_forgotten_person_no_actor_and_no_reason_stays(
    record: Record, pool: Pool, database: str
) -> None:
    await store(record, told("a", "Bread at six."))
    await MemoryChanges(pool).delete(TENANT, ["a"], actor="Ola Dahl", why="Ola Dahl wanted it gone")
    await forgotten(database, Target.of("person", TENANT, "Ola Dahl"))
    assert await in_record(pool, "ola dahl") == set()


async def test_of_a_forgotten_tenant_nothing_stays_of_what_was_erased_before(
    record: Record, pool: Pool, database: str
) -> None:
    await store(
        record,
        told("a", "Bread at six.", agent_id="ag-zq", run_id="ru-zq", occurred_at="2024-05-01T10:00:00Z"),
        told("b", "Tea at four."),
    )
    await MemoryChanges(pool).delete(TENANT, ["a", "b"], actor="zq-actor", why="zq-reason", erase=True)
    await forgotten(database, Target.of("tenant", TENANT))
    assert await in_record(pool, "zq") == set()
    async with borrow(pool) as connection:
        assert await connection.fetchval("SELECT count(*) FROM memories WHERE ts IS NOT NULL") == 0


async def test_whom_the_next_turn_means_is_read_again_when_a_turn_changes_or_goes(
    record: Record, pool: Pool, database: str
) -> None:
    await store(
        record,
        told(
            "m1", "My sister Mira moved to Oslo.", session_id="s", user_id="ana", mentioned_at="2024-01-01T10:00Z"
        ),
        told("m2", "She works at Fjord Labs.", session_id="s", mentioned_at="2024-01-01T10:01Z"),
    )
    await extracted(pool)
    assert "Mira" in (await record.get(TENANT, ["m2"]))["m2"].entities
    patch = Patch(id="m1", changes={"text": "My sister Leandra moved."})
    assert (await MemoryChanges(pool).update(TENANT, [patch]))[0].status == "updated"
    await extracted(pool)
    second = (await record.get(TENANT, ["m2"]))["m2"]
    assert "Leandra" in second.entities and "Mira" not in f"{second.entities} {second.statements}"
    await forgotten(database, Target.of("user", TENANT, "ana"))
    await extracted(pool)
    assert await in_record(pool, "leandra") == set()


async def test_a_backup_in_the_middle_of_a_forgetting_says_which_memories_it_was_about(
    record: Record, database: str, empty_database: str, tmp_path: Path
) -> None:
    await store(record, *(told(f"z{number}", "Secret plan.", session_id="z") for number in range(3)))
    target = Target.of("session", TENANT, "z")
    async with forgetting(database, target) as forget:
        assert await forget.next_batch() is not None
        await back_up(database, tmp_path / "backup.zip")
    await restore(empty_database, tmp_path / "backup.zip")
    async with forgetting(empty_database, target) as again:
        assert (again.forget, await again.ids()) == (forget.forget, ("z0", "z1", "z2"))


QUOTING = '["m1"]'
WHOLE = '[{"id": "m1"}, {"id": "m2", "dropped_for": "m1"}]'
# Of a row of these columns nothing may be left that says "gulls".
ODD = [
    {"candidates": '{"id": "m1", "words": "gulls"}'},
    {"candidates": '"gulls"'},
    {"candidates": '["gulls", 7, {"id": "m1"}]'},
    {"asked": '"gulls"'},
    {"asked": '["gulls"]'},
    {"asked": "7"},
    {"understood": '["gulls"]'},
    {"understood": '"gulls"'},
    {"understood": "null", "asked": "null", "candidates": "null"},
]
WANTED = [
    DecisionsWanted(tenant="t", ids=("m1",)),
    DecisionsWanted(tenant="t", naming="gulls"),
    DecisionsWanted(tenant="t", by=("user", "u-7")),
]


@pytest.fixture
async def connection(database: str) -> AsyncGenerator[Connection]:
    opened = await open_connection(database, name="test", statement_timeout_ms=5000)
    yield opened
    await opened.close()


async def put(connection: Connection, query: str, **columns: str) -> None:
    names, marks = ", ".join(columns), ", ".join(f"${number}::text::jsonb" for number in range(4, 4 + len(columns)))
    await connection.execute(
        "INSERT INTO recall_decisions (id, corr_id, profile, latency_ms, created_at, outcome, tenant, query, "
        f"user_id, selected_ids, {names}) VALUES (gen_random_uuid(), 'c', 'p', 1, now(), 'ok', 't', $1, $2, "
        f"$3::text::jsonb, {marks})",
        query,
        "u-7",
        QUOTING,
        *columns.values(),
    )


@pytest.mark.slow
@pytest.mark.parametrize("wanted", WANTED)
@pytest.mark.parametrize("odd", ODD)
async def test_a_row_of_another_shape_is_blanked_and_does_not_stop_the_others(
    connection: Connection, wanted: DecisionsWanted, odd: dict[str, str]
) -> None:
    await put(connection, "who feeds the gulls?", **odd)
    await put(connection, "where are the gulls?", candidates=WHOLE)
    assert await count_decisions(connection, wanted) == 2
    assert [await blank_decisions(connection, wanted) for _ in range(2)] == [2, 0]
    left = await connection.fetch("SELECT to_jsonb(d) - 'candidates' AS one, candidates FROM recall_decisions d")
    assert "gulls" not in str([row["one"] for row in left])
    if wanted.ids:
        assert "gulls" not in str([row["candidates"] for row in left])
        assert [one["id"] for row in left for one in row["candidates"] or ()] == ["m2"]


@pytest.mark.slow
async def test_an_answer_of_a_killed_command_goes_with_what_is_forgotten(
    connection: Connection, database: str
) -> None:
    pool = await open_pool(database, name="test", max_size=2)
    try:
        await _answer_left(connection, "2 seconds")
        record = ForgetRecord(connection, Target.of("memory", "t", "m1"))
        await record.begin(None)
        await record.blank_decisions()
        assert await connection.fetchval("SELECT count(*) FROM copy_requests") == 0
        await _answer_left(connection, "2 minutes")
        assert not await serve(pool, "other", "index", _never)
        assert await connection.fetchval("SELECT count(*) FROM copy_requests") == 0, "without a forgetting: soon"
    finally:
        await pool.close()


async def _answer_left(connection: Connection, ago: str) -> None:
    await connection.execute(
        "INSERT INTO copy_requests (copy, kind, task, asked_at, ended_at, result) SELECT 'c', 'recall', 'recall', "
        """at, at, '{"decision": {"query": "the gulls"}}' FROM (SELECT now() - $1::text::interval) t (at)""",
        ago,
    )


@pytest.mark.slow
async def test_the_report_says_what_replays_have_and_deletes_what_killed_ones_left(
    connection: Connection, database: str, tmp_path: Path
) -> None:
    (tmp_path / "replays").mkdir()
    (tmp_path / "replays" / "monday.json").write_text("{}")
    settings = Settings.read(data_dir=tmp_path, postgres_dsn=database, deadline_ms=100)
    with replay_folder(tmp_path):
        (tmp_path / "orion-replay-killed").mkdir()
        target = Target.of("memory", "t", "m1")
        report = await Forgetting(settings, connection, target, redis=None, own_bus=False, copies=_no_copies).run()
    assert not (tmp_path / "orion-replay-killed").exists()
    places = [(one.place, one.gone > 0, one.until) for one in report.places]
    assert ("folders of replays", True, "") in places
    assert ("folders of replays", False, "they end") in places
    assert ("reports of replays", False, "you delete them") in places


async def _never(*_: object) -> Mapping[str, JsonValue]:
    raise AssertionError


async def _no_copies() -> list[CopyToCompact]:
    return []
