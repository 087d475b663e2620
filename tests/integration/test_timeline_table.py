"""The timeline over tables as they are: the mesh's, which have other columns, and none of some."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from timelines import NOW, ask, hits, ids, memories, run, timeline

from orion_recall.cli.main import run as cli
from orion_recall.errors import SettingsError, SourceError
from orion_recall.postgres.pool import open_connection
from orion_recall.sources.hits import mapped_key
from orion_recall.sources.timeline import TimelineTable
from orion_recall.text.normal import memory_key

MIRROR = """
CREATE SCHEMA mesh;
CREATE TABLE mesh.collapse_mirror (
    id varchar PRIMARY KEY, observer varchar, trigger text, observer_state varchar, field_resonance text,
    type varchar, emergent_entity text, summary text, mantra text, causal_echo text,
    "timestamp" varchar, environment varchar, correlation_id varchar, snapshot_kind varchar, tags text,
    tag_scores jsonb
);
"""
ADD = """
INSERT INTO mesh.collapse_mirror (id, observer, trigger, summary, mantra, "timestamp", environment, tags)
VALUES ($1, $2, 'shift', $3, $4, $5, $6, $7)
"""
EVERYTHING = "SELECT md5(string_agg(m::text, '|' ORDER BY id)) FROM mesh.collapse_mirror m"
STRUCTURE = """
SELECT string_agg(c.relname || coalesce(attname || format_type(atttypid, atttypmod), ''), ',' ORDER BY c.oid,
    attnum)
FROM pg_class c LEFT JOIN pg_attribute a ON a.attrelid = c.oid WHERE c.relnamespace = 'mesh'::regnamespace
"""
COLUMNS: dict[str, Any] = {
    "text": ["summary", "mantra"], "session_id": "observer", "node_id": "environment", "tags": "tags",
}  # fmt: skip
UNREADABLE = [
    "",
    "yesterday",
    "2026-02-30T10:00:00",
    "2026-13-01",
    "now",
    "infinity",
    "03/01/2026",
    "2026-03-01T25:00",
]


def written(number: int) -> str | None:
    """The time of row `number`, which is that many minutes ago, in one of the forms that the mesh has written."""
    moment = datetime.fromtimestamp(NOW - 60 * number, UTC)
    if number % 20 == 7:
        return None if number % 40 == 7 else UNREADABLE[number // 40 % len(UNREADABLE)]
    forms = [
        moment.isoformat(),
        moment.replace(tzinfo=None).isoformat(),
        str(moment.replace(tzinfo=None)),
        moment.astimezone(tz=None).isoformat(),
        f"{moment:%Y-%m-%dT%H:%M:%S}.123456Z",
        str(int(moment.timestamp())),
        str(int(moment.timestamp() * 1000)),
        (moment + timedelta(hours=5, minutes=30)).replace(tzinfo=None).isoformat() + "+05:30",
    ]
    return forms[number % len(forms)]


async def mirrored(dsn: str, rows: int = 1000) -> None:
    """Their table with its rows, of which one in twenty has no time that can be read."""
    connection = await open_connection(dsn, name="test", statement_timeout_ms=30_000, for_external_tables=True)
    try:
        await connection.execute(MIRROR)
        await connection.executemany(
            ADD,
            [
                (
                    f"cm-{number}", "juniper" if number % 2 else "oriole",
                    f"Reading {number} of the harbour crane.", "Steady." if number % 3 else None,
                    written(number), "athena", "crane, harbour" if number % 5 else None,
                )
                for number in range(rows)
            ],
        )  # fmt: skip
    finally:
        await connection.close()


async def one(dsn: str, sql: str) -> Any:
    connection = await open_connection(dsn, name="test", statement_timeout_ms=5000, for_external_tables=True)
    try:
        return await connection.fetchval(sql)
    finally:
        await connection.close()


def mirror(**changes: Any) -> TimelineTable:
    return TimelineTable.mapped("mesh.collapse_mirror", COLUMNS | changes, "acme", cited_as="mirror")


async def test_the_meshs_table_is_read_as_it_is_and_left_as_it_was(empty_database: str) -> None:
    await mirrored(empty_database)
    before = [await one(empty_database, sql) for sql in (EVERYTHING, STRUCTURE)]
    found = await hits(empty_database, ask("crane", minutes=120, limit=200), mirror())
    expected = {number for number in range(121) if number % 20 != 7}
    assert {memory.id for memory in memories(found)} == {f"mirror:cm-{number}" for number in expected}
    assert {hit.source_ref for hit in found} == {"mirror"}
    times = {int(memory.id.rpartition("-")[2]): memory.ts for memory in memories(found)}
    assert all(abs(NOW - 60 * number - (ts or 0)) < 1 for number, ts in times.items())
    (first, *_) = [memory for memory in memories(found) if memory.id == "mirror:cm-1"]
    assert (first.text, first.session_id, first.tags) == (
        "Reading 1 of the harbour crane.\nSteady.", "juniper", ("crane", "harbour"),
    )  # fmt: skip
    assert [await one(empty_database, sql) for sql in (EVERYTHING, STRUCTURE)] == before


async def test_all_that_can_be_read_is_found(empty_database: str) -> None:
    await mirrored(empty_database)
    seen: set[str] = set()
    async with timeline(empty_database, mirror()) as source:
        for part in range(10):
            last = NOW - 6000 * part
            request = ask("reading", minutes=100_000, limit=200, since=last - 5940, until=last + 1)
            seen |= {memory.id for memory in memories(await source.search(request))}
    assert len(seen) == 950


async def test_the_settings_own_names_find_what_a_table_has_of_them(empty_database: str) -> None:
    await mirrored(empty_database, rows=10)
    table = TimelineTable.mapped("mesh.collapse_mirror", {}, "acme")
    found = memories(await hits(empty_database, ask("crane"), table))
    assert {memory.id for memory in found} == {f"mesh.collapse_mirror:cm-{n}" for n in range(10) if n != 7}
    (second,) = [memory for memory in found if memory.id.endswith("cm-2")]
    assert (second.text, second.tags, second.session_id) == (
        "Reading 2 of the harbour crane.", ("crane", "harbour"), None,
    )  # fmt: skip


async def test_of_a_mapped_store_no_column_is_shown_that_nobody_has_named(empty_database: str) -> None:
    await mirrored(empty_database, rows=2)
    table = TimelineTable.mapped("mesh.collapse_mirror", {}, "acme", cited_as="mirror")
    assert {memory.tags for memory in memories(await hits(empty_database, ask("crane"), table))} == {()}


CHAT = """
CREATE TABLE chat_history_log (
    id serial PRIMARY KEY, prompt text, response text, created_at timestamp, session_id varchar, user_id varchar
);
INSERT INTO chat_history_log (prompt, response, created_at, session_id, user_id) VALUES
    ('Is the crane mended?', 'It is.', '2026-03-01 11:50:00', 's-1', 'u-1'),
    ('And the winch?', '', '2026-03-01 11:51:00', 's-1', 'u-1'),
    (NULL, NULL, '2026-03-01 11:52:00', 's-2', 'u-1'), ('  ', '', '2026-03-01 11:53:00', 's-2', 'u-1');
"""


async def test_two_columns_with_labels_are_one_text_without_what_is_empty(empty_database: str) -> None:
    await run(empty_database, CHAT)
    named: dict[str, Any] = {
        "text": {"User": "prompt", "Orion": "response"}, "session_id": "session_id", "user_id": "user_id",
    }  # fmt: skip
    table = TimelineTable.mapped("chat_history_log", named, "acme", cited_as="chat")
    found = memories(await hits(empty_database, ask("crane"), table))
    assert [(memory.id, memory.text) for memory in found] == [
        ("chat:1", "User: Is the crane mended?\nOrion: It is."), ("chat:2", "User: And the winch?"),
    ]  # fmt: skip
    assert await ids(empty_database, ask("user orion", session_id="s-2"), table) == []
    async with timeline(empty_database, table) as source:
        assert (await source.sample())["text"] is None


def test_columns_are_joined_in_a_setting_by_plus_signs() -> None:
    table = TimelineTable.mapped("log", {"text": "summary + mantra"}, "acme")
    assert [column for column, _ in table.text] == ["summary", "mantra"]
    for broken in ("summary+", "+", 'a" FROM b+c', ""):
        with pytest.raises(SettingsError):
            TimelineTable.mapped("log", {"text": broken}, "acme")


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"speaker": "nobody"}, "has no column 'nobody', which plays speaker; it has id, observer, trigger"),
        ({"text": ["summary", "absent"]}, "has no column 'absent', which plays text"),
        ({"ts": "when"}, "has no column 'when', which plays ts"),
        ({"search": "summary"}, "'summary' for search is no tsvector"),
    ],
    ids=str,
)
async def test_a_column_that_a_mapping_names_and_that_is_not_there_is_told_with_those_that_are(
    empty_database: str, changes: dict[str, Any], told: str
) -> None:
    await run(empty_database, MIRROR)
    with pytest.raises(SourceError, match=told):
        await hits(empty_database, ask(), mirror(**changes))


async def test_scope_and_tags_narrow_their_table(empty_database: str) -> None:
    await mirrored(empty_database, rows=10)
    assert set(await ids(empty_database, ask(session_id="juniper"), mirror())) == {
        "mirror:cm-1", "mirror:cm-3", "mirror:cm-5", "mirror:cm-9",
    }  # fmt: skip
    untagged = {"mirror:cm-0", "mirror:cm-5"}
    assert set(await ids(empty_database, ask(tags=("harbour",)), mirror())).isdisjoint(untagged)
    assert len(await ids(empty_database, ask(tags=("harbour", "x")), mirror())) == 7
    assert await ids(empty_database, ask(tags=("harb",)), mirror()) == []


async def test_a_row_of_another_table_is_no_own_memory_of_the_same_id(database: str) -> None:
    await run(
        database,
        "CREATE TABLE log (id text, ts timestamptz, text text)",
        "INSERT INTO log VALUES ('m-1', to_timestamp(1772366000), 'Bo keeps bees.')",
    )
    (hit,) = await hits(database, ask("bees"), TimelineTable.mapped("log", {}, "acme"))
    assert hit.key == mapped_key("log", "acme", "m-1") != memory_key("acme", "m-1")
    assert [(memory.id, memory.source_ref) for memory in memories([hit])] == [("log:m-1", "log")]


async def test_the_name_alone_makes_no_table_the_own_view(empty_database: str) -> None:
    own_name = "CREATE {} collapse_mirror AS SELECT 1 AS id, now() AS ts, 'x'::text AS text, 'acme'::text AS tenant"
    for what in ("TABLE", "VIEW"):
        await run(empty_database, own_name.format(what))
        with pytest.raises(SourceError, match=r"ORION_TIMELINE_TABLE=public\.collapse_mirror"):
            await hits(empty_database, ask(), TimelineTable())
        async with timeline(empty_database, TimelineTable(name="public.collapse_mirror")) as source:
            assert (await source.shape()).cited_as == "public.collapse_mirror"
        await run(empty_database, f"DROP {what} collapse_mirror")


async def test_the_own_view_is_known_by_its_schema_and_not_by_how_it_is_written(database: str) -> None:
    schema = await one(
        database,
        "SELECT relnamespace::regnamespace::text FROM pg_class WHERE oid = to_regclass('orion_migrations')",
    )
    for name in ("collapse_mirror", f"{schema}.collapse_mirror"):
        async with timeline(database, TimelineTable(name=name)) as source:
            assert (await source.shape()).cited_as is None
    await run(database, "CREATE SCHEMA copy", "CREATE VIEW copy.collapse_mirror AS SELECT * FROM collapse_mirror")
    async with timeline(database, TimelineTable(name="copy.collapse_mirror")) as source:
        assert (await source.shape()).cited_as == "copy.collapse_mirror"


async def test_a_table_that_is_altered_costs_one_search_and_is_read_anew(empty_database: str) -> None:
    await mirrored(empty_database, rows=3)
    async with timeline(empty_database, mirror()) as source:
        assert len(await source.search(ask("crane"))) == 3
        await run(
            empty_database,
            "DELETE FROM mesh.collapse_mirror WHERE id <> 'cm-0'",
            'ALTER TABLE mesh.collapse_mirror ALTER "timestamp" TYPE timestamptz USING "timestamp"::timestamptz',
        )
        with pytest.raises(SourceError):
            await source.search(ask("crane"))
        assert [memory.ts for memory in memories(await source.search(ask("crane")))] == [NOW]


async def test_doctor_counts_what_of_a_table_is_never_found(
    empty_database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    await mirrored(empty_database)
    mappings = tmp_path / "mappings.yaml"
    mappings.write_text("tables:\n  - {name: mirror, table: mesh.collapse_mirror, tenant: acme}\n")
    monkeypatch.setenv("ORION_POSTGRES_DSN", empty_database)
    monkeypatch.setenv("ORION_MAPPINGS", str(mappings))
    monkeypatch.setenv("ORION_TIMELINE_TABLE", "mesh.collapse_mirror")
    monkeypatch.setenv("ORION_TIMELINE_COLUMNS", "ts=observer_state")
    monkeypatch.setenv("ORION_TIMELINE_TENANT", "acme")
    assert await asyncio.to_thread(cli, ["doctor", "--json"]) == 1
    own, mirror = json.loads(capsys.readouterr().out)["stores"]
    assert own["problems"] == ["1,000 of 1,000 rows have no time that can be read: they are never found"]
    assert mirror["remarks"] == ["50 of 1,000 rows have no time that can be read: they are never found"]
    assert (mirror["ok"], mirror["sample"]["id"]) == (True, "cm-0")


async def test_doctor_and_the_log_say_that_nobody_sees_a_table_without_a_tenant(
    empty_database: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    await mirrored(empty_database)
    monkeypatch.setenv("ORION_POSTGRES_DSN", empty_database)
    monkeypatch.setenv("ORION_TIMELINE_TABLE", "mesh.collapse_mirror")
    assert await asyncio.to_thread(cli, ["doctor", "--json"]) == 1
    (own,) = json.loads(capsys.readouterr().out)["stores"]
    assert "ORION_TIMELINE_TENANT" in own["problems"][0]
    async with timeline(empty_database, TimelineTable.mapped("mesh.collapse_mirror", {}, None)) as source:
        with pytest.raises(SourceError, match="ORION_TIMELINE_TENANT"):
            await source.search(ask("crane"))
    assert [one.getMessage() for one in caplog.records if "ORION_TIMELINE_TENANT" in one.getMessage()]


async def test_a_malformed_row_costs_itself_only(empty_database: str) -> None:
    await run(
        empty_database,
        "CREATE TABLE log (id uuid, ts bigint, text jsonb, title int, tags jsonb)",
        f"""INSERT INTO log VALUES
        (gen_random_uuid(), {int(NOW)}, '"the crane"', 1, '["a"]'), (NULL, {int(NOW)}, '"no id"', 2, NULL),
        (gen_random_uuid(), {int(NOW)}, NULL, 3, '[]'), (gen_random_uuid(), {int(NOW)}, 'null', 4, '{{"b": 1}}'),
        (gen_random_uuid(), NULL, '"no time"', 5, '7'), (gen_random_uuid(), -1, '"before"', 6, '"c"'),
        (gen_random_uuid(), 9223372036854775807, '"far ahead"', 7, '[null, 1]'),
        (gen_random_uuid(), {int(NOW) * 1000}, '{{"what": "crane"}}', NULL, '{{"b": 1}}'),
        (gen_random_uuid(), {int(NOW)}, to_jsonb(repeat('word crane winch ', 200000)), 8, '"d"')""",
    )
    table = TimelineTable.mapped("log", {}, "acme")
    found = memories(await hits(empty_database, ask("crane"), table))
    assert {(memory.text[:17], memory.title) for memory in found} == {
        ("the crane", "1"), ('{"what": "crane"}', None), ("word crane winch ", "8"),
    }  # fmt: skip
    assert all(memory.ts == NOW for memory in found)
    assert {memory.tags for memory in found} == {("a",), (), ("d",)}
