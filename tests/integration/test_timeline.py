"""The timeline arm on real Postgres: our own view, and tables of anybody's through a column map."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from timelines import NOW, ask, hits, ids, run, timeline

from orion_recall.contracts import MemoryV1
from orion_recall.errors import SettingsError, SourceError, TransientSourceError
from orion_recall.memory.record.compose import compose
from orion_recall.memory.record.record import Record
from orion_recall.postgres.pool import open_pool
from orion_recall.sources.timeline import TimelineTable, timeline_query
from orion_recall.text.normal import memory_key, text_hash
from orion_recall.values import Interval, QuestionTime


async def remember(dsn: str, *rows: tuple[str, str, float | None], tenant: str = "acme", **fields: Any) -> None:
    """Stores (id, text, minutes before now)."""
    pool = await open_pool(dsn, name="test")
    memories = [
        compose(
            MemoryV1.model_validate(
                {"id": name, "text": text, **fields}
                | ({} if minutes is None else {"occurred_at": NOW - 60 * minutes})
            ),
            tenant,
        )
        for name, text, minutes in rows
    ]
    result = await Record(pool).store(memories)
    assert {verdict.status for verdict in result.verdicts} == {"stored"}
    await pool.close()


async def test_the_rows_of_the_window_come_back_as_memories(database: str) -> None:
    await remember(
        database, ("m1", "The crane is mended.", 10), title="Crane", speaker="Bo", session_id="s", user_id="u",
        kind="observation", uri="x:1", tags=["harbour"],
    )  # fmt: skip
    (hit,) = await hits(database, ask())
    assert hit.key == memory_key("acme", "m1")
    assert 0 < hit.score <= 1
    assert hit.read is not None
    memory = hit.read()
    assert (memory.id, memory.text, memory.title, memory.speaker) == ("m1", "The crane is mended.", "Crane", "Bo")
    assert (memory.session_id, memory.user_id, memory.kind, memory.uri) == ("s", "u", "observation", "x:1")
    assert (memory.ts, memory.tags, hit.source_ref) == (NOW - 600, ("harbour",), "collapse_mirror")
    assert memory.text_hash == text_hash("The crane is mended.")


async def test_only_what_happened_in_the_window_is_found(database: str) -> None:
    await remember(
        database, ("old", "crane", 181), ("first", "crane", 179), ("last", "crane", 0), ("ahead", "crane", -5),
        ("undated", "crane", None),
    )  # fmt: skip
    assert set(await ids(database, ask())) == {"first", "last"}
    assert set(await ids(database, ask(minutes=1))) == {"last"}
    assert set(await ids(database, ask(minutes=5_256_000))) == {"old", "first", "last"}


async def test_words_in_the_window_rank_first_then_what_is_newer(database: str) -> None:
    await remember(
        database, ("words", "the crane needs a gearbox", 170), ("new", "lunch", 1), ("newer", "coffee", 0.5),
        ("older", "tea", 100),
    )  # fmt: skip
    found = await hits(database, ask("which crane gearbox?"))
    assert [hit.read().id for hit in found if hit.read] == ["words", "newer", "new", "older"]
    assert [hit.score for hit in found] == sorted((hit.score for hit in found), reverse=True)
    assert all(0 <= hit.score <= 1 for hit in found)
    assert await ids(database, ask("?!")) == ["newer", "new", "older", "words"]


async def test_the_querys_own_session_or_node_ranks_higher(database: str) -> None:
    await remember(database, ("mine", "tea", 60), session_id="s")
    await remember(database, ("here", "tea", 60), node_id="athena")
    await remember(database, ("else", "tea", 55))
    assert (await ids(database, ask("x")))[0] == "else"
    assert (await ids(database, ask("x", session="s")))[0] == "mine"
    assert (await ids(database, ask("x", node="athena")))[0] == "here"


async def test_every_part_of_a_scope_filters(database: str) -> None:
    await remember(
        database,
        ("a", "crane", 10),
        session_id="s1",
        user_id="u1",
        agent_id="scout",
        run_id="r1",
        kind="plan",
        tags=["x", "y"],
    )
    await remember(database, ("b", "crane", 20), session_id="s2", user_id="u1", kind="task", tags=["z"])
    await remember(database, ("c", "crane", 30))
    scopes: list[tuple[dict[str, Any], set[str]]] = [
        ({}, {"a", "b", "c"}),
        ({"session_id": "s1"}, {"a"}),
        ({"user_id": "u1"}, {"a", "b"}),
        ({"agent_id": "scout"}, {"a"}),
        ({"run_id": "r2"}, set[str]()),
        ({"kinds": ("task", "opinion")}, {"b"}),
        ({"tags": ("y", "z")}, {"a", "b"}),
        ({"since": NOW - 15 * 60}, {"a"}),
        ({"until": NOW - 15 * 60}, {"b", "c"}),
        ({"until": NOW - 20 * 60}, {"c"}),
        ({"since": NOW - 20 * 60, "until": NOW - 10 * 60}, {"b"}),
        ({"as_of": NOW - 20 * 60}, {"b", "c"}),
        ({"until": 0.0}, set()),
        ({"session_id": "s1", "kinds": ("task",)}, set()),
        ({"session_id": "' OR true --"}, set()),
    ]
    for scope, seen in scopes:
        assert set(await ids(database, ask(**scope))) == seen, scope


async def test_since_begins_the_window_and_so_does_a_time_that_the_question_names(database: str) -> None:
    day = 24 * 60
    await remember(database, ("now", "crane", 5), ("day", "crane", day), ("week", "crane", 7 * day))
    assert set(await ids(database, ask(since=NOW - 8 * day * 60))) == {"now", "day", "week"}
    named: list[tuple[tuple[float | None, float | None], set[str]]] = [
        ((-1.5, -0.5), {"now", "day"}),  # yesterday: a day on both sides, and nothing after now
        ((-7.5, -6.5), {"week"}),
        ((-7.5, None), {"now", "day", "week"}),  # since then
        ((None, -6.5), {"now"}),  # before then: nothing says where that begins
        ((-0.1, 1.0), {"now"}),  # inside the profile's own window
    ]
    for (start, end), seen in named:
        request = ask()
        interval = Interval(
            None if start is None else NOW + start * day * 60, None if end is None else NOW + end * day * 60,
            "relative", "then",
        )  # fmt: skip
        time = QuestionTime(intervals=(interval,))
        request = replace(request, question=replace(request.question, time=time))
        assert set(await ids(database, request)) == seen, (start, end)


async def test_tenants_never_see_each_other(database: str) -> None:
    await remember(database, ("m", "crane", 5))
    await remember(database, ("m", "a secret crane", 5), tenant="other")
    assert [hit.read().text for hit in await hits(database, ask()) if hit.read] == ["crane"]
    assert [hit.key for hit in await hits(database, ask(tenant="other"))] == [memory_key("other", "m")]
    assert await ids(database, ask(tenant="nobody")) == []


FOREIGN = """
CREATE SCHEMA "Shop_Floor";
CREATE TABLE "Shop_Floor"."event_log" (
    "Event_Id" bigint, happened {type}, body text, who text, labels text[], doc tsvector
);
INSERT INTO "Shop_Floor"."event_log" VALUES
    (1, {one}, 'the crane fell', 'Bo', '{{harbour}}', to_tsvector('english', 'gearbox')),
    (2, {two}, 'lunch', NULL, NULL, NULL),
    (3, {two}, NULL, 'Cy', NULL, NULL),
    (4, NULL, 'undated', 'Cy', NULL, NULL);
"""
MAP = {
    "id": "Event_Id", "ts": "happened", "text": "body", "speaker": "who", "tags": "labels", "title": "",
    "session_id": "", "node_id": "", "user_id": "", "kind": "", "uri": "", "search": "",
}  # fmt: skip


def foreign(**changes: str) -> TimelineTable:
    return TimelineTable.mapped("Shop_Floor.event_log", MAP | changes, "acme")


def at(minutes: float, *, zone: bool = True) -> str:
    moment = datetime.fromtimestamp(NOW - 60 * minutes, UTC)
    return f"'{moment.isoformat() if zone else moment.replace(tzinfo=None).isoformat()}'"


async def test_a_column_of_ready_search_vectors_is_used(empty_database: str) -> None:
    await run(empty_database, FOREIGN.format(type="timestamptz", one=at(20), two=at(10)))
    assert (await ids(empty_database, ask("gearbox"), foreign(search="doc")))[0] == "Shop_Floor.event_log:1"
    assert (await ids(empty_database, ask("gearbox"), foreign()))[0] == "Shop_Floor.event_log:2"


async def test_a_table_without_tenants_answers_for_its_one_tenant_only(empty_database: str) -> None:
    await run(empty_database, FOREIGN.format(type="timestamptz", one=at(20), two=at(10)))
    assert await ids(empty_database, ask(tenant="other"), foreign()) == []
    assert len(await ids(empty_database, ask(), foreign())) == 2


@pytest.mark.parametrize(
    "scope",
    [
        {"session_id": "s"},
        {"user_id": "u"},
        {"agent_id": "a"},
        {"run_id": "r"},
        {"kinds": ("plan",)},
        {"tags": ("x",)},
    ],
    ids=str,
)
async def test_a_scope_that_the_table_has_no_column_for_fails_closed(
    empty_database: str, scope: dict[str, Any]
) -> None:
    await run(empty_database, FOREIGN.format(type="timestamptz", one=at(20), two=at(10)))
    with pytest.raises(SourceError, match="has no column for"):
        await ids(empty_database, ask(**scope), foreign(tags=""))


async def test_a_table_that_is_not_there_is_an_error_that_will_not_pass(database: str) -> None:
    with pytest.raises(SourceError) as caught:
        await ids(database, ask(), TimelineTable(name="nowhere"))
    assert not isinstance(caught.value, TransientSourceError)
    assert "nowhere" in str(caught.value)


async def test_a_lost_connection_is_a_passing_error_and_is_replaced(database: str) -> None:
    await remember(database, ("m", "crane", 5))
    async with timeline(database) as source:
        assert len(await source.search(ask())) == 1
        await run(
            database,
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE application_name = 'orion-recall:timeline' AND datname = current_database()",
        )
        try:
            found = await source.search(ask())
        except TransientSourceError:
            found = await source.search(ask())
        assert len(found) == 1


async def test_a_server_that_is_away_is_a_passing_error() -> None:
    async with timeline("postgresql://nobody@127.0.0.1:1/none") as source:
        with pytest.raises(TransientSourceError):
            await source.search(ask())


@pytest.mark.parametrize(
    ("name", "changes", "tenant"),
    [
        ("log; DROP TABLE memories", {}, None),
        ("a.b.c.d", {}, None),
        ("", {}, None),
        ("log", {"text": 'body" --'}, None),
        ("log", {"ts": "now()"}, None),
        ("log", {"text": ""}, None),
        ("log", {"id": ""}, None),
        ("log", {"tenant": ""}, None),
    ],
    ids=str,
)
def test_names_that_are_no_identifiers_and_missing_roles_are_refused(
    name: str, changes: dict[str, str], tenant: str | None
) -> None:
    with pytest.raises(SettingsError):
        TimelineTable.mapped(name, changes, tenant)


def test_a_table_of_one_tenant_needs_no_tenant_column() -> None:
    whole = TimelineTable.mapped("log", {}, "acme")
    assert (whole.answers_for("acme"), whole.answers_for("other")) == (True, False)
    assert TimelineTable.mapped("log", {"tenant": "org"}, "acme").answers_for("other")


async def test_values_are_parameters_and_never_text_of_the_statement(database: str) -> None:
    nasty = "'; DROP TABLE memories; --"
    request = ask(
        nasty, tenant=nasty, session_id=nasty, user_id=nasty, kinds=(nasty,), tags=(nasty,), session=nasty
    )
    async with timeline(database) as source:
        statement, values = timeline_query(await source.shape(), request)
    assert "DROP" not in statement
    assert values.count(nasty) == 4
    assert statement.count("$") >= len(values)
