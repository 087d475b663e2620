"""Rows that forgetting must not stumble over, and answers of killed commands, which repeat what is forgotten."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from pathlib import Path

import pytest

from orion_recall.decisions.blanking import DecisionsWanted, blank_decisions, count_decisions
from orion_recall.engines.replay_folders import replay_folder
from orion_recall.memory.forget.record import ForgetRecord, Target
from orion_recall.memory.forget.run import CopyToCompact, Forgetting
from orion_recall.memory.replicas.maintenance import CopyRequests
from orion_recall.postgres.pool import Connection, open_connection, open_pool
from orion_recall.settings import Settings
from orion_recall.values import JsonValue

pytestmark = pytest.mark.slow

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


async def test_an_answer_of_a_killed_command_goes_with_what_is_forgotten(
    connection: Connection, database: str
) -> None:
    pool = await open_pool(database, name="test", max_size=2)
    try:
        requests = CopyRequests(pool)
        await _answer_left(connection, "2 seconds")
        record = ForgetRecord(connection, Target.of("memory", "t", "m1"))
        await record.begin(None)
        await record.blank_decisions()
        assert await connection.fetchval("SELECT count(*) FROM copy_requests") == 0
        await _answer_left(connection, "2 minutes")
        assert not await requests.serve("other", "index", _never)
        assert await connection.fetchval("SELECT count(*) FROM copy_requests") == 0, "without a forgetting: soon"
    finally:
        await pool.close()


async def _answer_left(connection: Connection, ago: str) -> None:
    await connection.execute(
        "INSERT INTO copy_requests (copy, kind, task, asked_at, ended_at, result) SELECT 'c', 'recall', 'recall', "
        """at, at, '{"decision": {"query": "the gulls"}}' FROM (SELECT now() - $1::text::interval) t (at)""",
        ago,
    )


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
