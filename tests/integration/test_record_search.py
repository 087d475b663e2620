"""Text search over the record on real Postgres: scope, order, what it costs, what happens when it hangs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from orion_recall.contracts import MemoryV1
from orion_recall.errors import SourceError, TransientSourceError
from orion_recall.interfaces import in_scope
from orion_recall.memory.record.compose import compose
from orion_recall.memory.record.record import Record
from orion_recall.postgres.pool import open_connection, open_pool
from orion_recall.sources.record import RecordSearch
from orion_recall.text.normal import content_words, memory_key, text_hash
from orion_recall.values import MemoryView, Question, Scope, SearchRequest

NOW = 1_772_366_400.0
HOUR, YEAR = 3600.0, 365 * 86_400.0


def ask(text: str, *, limit: int = 10, tenant: str = "acme", **scope: Any) -> SearchRequest:
    question = Question(
        text=text, dense_text=text, keyword_text=text, terms=frozenset(content_words(text)), now=NOW,
        text_hash=text_hash(text),
    )  # fmt: skip
    return SearchRequest(question=question, scope=Scope(tenant=tenant, **scope), limit=limit)


MEMORIES: tuple[dict[str, Any], ...] = (
    {"id": "all", "text": "The harbour crane needs a new gearbox.", "occurred_at": NOW - 3 * YEAR, "kind": "task"},
    {
        "id": "some", "text": "The crane was painted.", "occurred_at": NOW - HOUR, "session_id": "s1",
        "tags": ["a", "b"],
    },
    {
        "id": "undated", "text": "A gearbox for the harbour crane.", "user_id": "u1", "agent_id": "scout",
        "run_id": "r1",
    },
    {"id": "undated-some", "text": "A harbour without a date."},
    {"id": "other", "text": "Bo sold the boat.", "occurred_at": NOW - 2 * HOUR, "speaker": "Bo", "source": "diary"},
    {"id": "elsewhere", "text": "The harbour crane gearbox.", "occurred_at": NOW, "tenant": "umbra"},
)  # fmt: skip


@pytest.fixture
async def filled(database: str) -> str:
    pool = await open_pool(database, name="test")
    try:
        await Record(pool).store([compose(MemoryV1.model_validate(one), default_tenant="acme") for one in MEMORIES])
    finally:
        await pool.close()
    return database


@pytest.fixture
async def record(filled: str) -> AsyncGenerator[RecordSearch]:
    source = RecordSearch(filled)
    yield source
    await source.close()


async def views(record: RecordSearch, request: SearchRequest) -> list[MemoryView]:
    return [hit.read() for hit in await record.search(request) if hit.read is not None]


async def ids(record: RecordSearch, request: SearchRequest) -> list[str]:
    return [view.id for view in await views(record, request)]


async def test_every_word_comes_before_some_words_whatever_its_age(record: RecordSearch) -> None:
    hits = await record.search(ask("Which gearbox does the harbour crane have?"))
    assert [hit.read().id for hit in hits if hit.read] == ["all", "undated", "some"]
    assert [hit.score >= 1 for hit in hits] == [True, True, False]
    assert hits[0].key == memory_key("acme", "all")


async def test_a_question_without_words_finds_nothing_and_asks_nobody() -> None:
    assert await RecordSearch("postgresql://nobody@127.0.0.1:1/none").search(ask("What is it? 😀")) == []


@pytest.mark.parametrize(
    "text", ["crane'); DROP TABLE memories; --", '-crane OR "harbour', "crane & !gearbox | :*"]
)
async def test_what_looks_like_syntax_is_words(record: RecordSearch, text: str) -> None:
    assert "some" in await ids(record, ask(text))


SCOPES: tuple[dict[str, Any], ...] = (
    {},
    {"session_id": "s1"},
    {"session_id": "nobody's"},
    {"user_id": "u1"},
    {"agent_id": "scout"},
    {"agent_id": "scout", "run_id": "r1"},
    {"run_id": "r2"},
    {"kinds": ("task", "plan")},
    {"tags": ("b", "x")},
    {"since": NOW - 1.5 * HOUR},
    {"since": NOW - HOUR, "until": NOW - HOUR + 0.001},
    {"until": NOW - HOUR},
    {"as_of": NOW - HOUR},
    {"since": -62_135_596_800.0, "until": 253_402_300_799.999999},
    {"tenant": "umbra"},
    {"tenant": "nobody"},
)


@pytest.mark.parametrize("scope", SCOPES, ids=str)
async def test_the_scope_is_that_of_every_other_source(record: RecordSearch, scope: dict[str, Any]) -> None:
    request = ask("harbour crane gearbox", **scope)
    found = await views(record, request)
    assert all(in_scope(view, request.scope) for view in found)
    wide = await views(record, ask("harbour crane gearbox", tenant=request.scope.tenant))
    assert {view.id for view in found} == {view.id for view in wide if in_scope(view, request.scope)}


async def test_a_memory_is_as_the_record_holds_it(record: RecordSearch) -> None:
    (boat,) = await views(record, ask("Who sold the boat?"))
    assert (boat.id, boat.speaker, boat.ts, boat.source_ref) == ("other", "Bo", NOW - 2 * HOUR, "diary")
    assert boat.text_hash == text_hash(boat.text)
    (painted, *_) = await views(record, ask("painted", session_id="s1"))
    assert (painted.tags, painted.kind, painted.source_ref) == (("a", "b"), "experience", "record")


@pytest.mark.slow
async def test_a_large_record_is_searched_as_fast_as_a_small_one(filled: str, record: RecordSearch) -> None:
    connection = await open_connection(filled, name="test", statement_timeout_ms=60_000)
    try:
        await connection.execute(
            "INSERT INTO memories (tenant, id, text, kind, occurred_at, text_hash, content_hash) "
            "SELECT 'acme', 'n-' || n, 'The crane of the harbour lifts box ' || n, 'world', "
            "now() - n * interval '1 minute', n, n FROM generate_series(1, 30000) AS n"
        )
        await connection.execute("ANALYZE memories")
    finally:
        await connection.close()
    async with asyncio.timeout(30):
        assert len(await ids(record, ask("crane harbour", limit=300))) == 300
        assert (await ids(record, ask("gearbox crane harbour", limit=300)))[:2] == ["all", "undated"]


async def test_without_the_table_it_says_so_and_goes_on(empty_database: str) -> None:
    source = RecordSearch(empty_database)
    try:
        for _ in range(2):
            with pytest.raises(SourceError, match="memories"):
                await source.search(ask("crane"))
    finally:
        await source.close()


async def test_a_postgres_that_is_away_is_a_passing_error() -> None:
    with pytest.raises(TransientSourceError, match="cannot be reached"):
        await RecordSearch("postgresql://nobody@127.0.0.1:1/none").search(ask("crane"))


async def test_a_search_that_is_cancelled_leaves_no_connection_behind(filled: str, record: RecordSearch) -> None:
    connection = await open_connection(filled, name="test", statement_timeout_ms=60_000)
    try:
        async with connection.transaction():
            await connection.execute("LOCK TABLE memories IN ACCESS EXCLUSIVE MODE")
            searching = asyncio.create_task(record.search(ask("crane")))
            await asyncio.sleep(0.3)
            assert not searching.done()
            searching.cancel()
            await asyncio.gather(searching, return_exceptions=True)
        async with asyncio.timeout(30):
            while await connection.fetchval(
                "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'orion-recall:record-search' "
                "AND datname = current_database()"
            ):
                await asyncio.sleep(0.05)
        assert "some" in await ids(record, ask("crane"))
    finally:
        await connection.close()
