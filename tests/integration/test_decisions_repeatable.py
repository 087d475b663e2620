"""What a decision was taken on is in the log: what was asked, of which data, by which build and profile."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from executor import Executor, until
from redis.asyncio import Redis
from serving import OneMemory, opened_with, quick_settings, serving
from test_profile_reload import write

from orion_recall import __version__
from orion_recall.decisions.profile_texts import ProfileTexts, profile_text
from orion_recall.decisions.removal import DecisionsWanted, blank_decisions, count_decisions
from orion_recall.engines.embedded import EmbeddedEngines
from orion_recall.models.tokenizer import TokenCounter
from orion_recall.postgres.pool import open_connection, open_pool
from orion_recall.profile.reading import dump_profile, load_profile
from orion_recall.profile.watch import loaded_profiles
from orion_recall.tasks import cancel

pytestmark = pytest.mark.slow


async def test_a_recall_leaves_what_it_was_asked_and_forgetting_blanks_it(
    bus: Redis, bus_alone: EmbeddedEngines, database: str, tokens: TokenCounter
) -> None:
    settings = quick_settings(bus_alone.redis_url, postgres_dsn=database)
    executor = Executor(bus, settings.prefix)
    options = {"scope": "user", "user": "u-7", "k": 2, "tags": ["Ophelia"], "as_of": "2026-03-01T12:00:00Z"}
    connection = await open_connection(database, name="test", statement_timeout_ms=5000)
    try:
        async with serving(settings, opened_with(OneMemory(), tokens)):
            await executor.ended(await executor.ask({"fragment": "Who feeds the gulls?", "options": options}))

            async def persisted() -> bool:
                return await connection.fetchval("SELECT count(*) FROM recall_decisions") == 1

            await until(persisted, "a decision in the log")
        row: Any = await connection.fetchrow("SELECT * FROM recall_decisions")
        assert row["asked"]["options"] == options | {"as_of": row["asked"]["options"]["as_of"]}
        assert row["asked"]["scope"] == {"name": "user", "user_id": "u-7", "tags": ["Ophelia"]}
        assert (row["asked"]["clock"], row["asked"]["zone"]) == ("2026-03-01T12:00:00+00:00", "UTC")
        assert 0 < row["asked"]["limits"]["search_ms"] <= settings.deadline_ms
        assert (row["build"]["version"], row["build"]["extractor"]) == (__version__, settings.extractor)
        assert row["not_replayable"] is None
        wanted = DecisionsWanted(tenant=row["tenant"], naming=r"(^|\W)(Ophelia)(\W|$)")
        assert await count_decisions(connection, wanted) == 1
        assert [await blank_decisions(connection, wanted) for _ in range(2)] == [1, 0]
        row = await connection.fetchrow("SELECT * FROM recall_decisions")
        assert row["asked"].keys() == {"clock", "zone", "limits"}
        assert (row["not_replayable"], row["user_id"]) == ("forgotten", "u-7")
    finally:
        await connection.close()
        await executor.close()


async def test_who_asked_goes_from_what_was_asked_too_where_no_text_was_kept(database: str) -> None:
    connection = await open_connection(database, name="test", statement_timeout_ms=5000)
    try:
        await connection.execute(
            "INSERT INTO recall_decisions (id, corr_id, profile, query, latency_ms, created_at, outcome, tenant, "
            "session_id, asked) VALUES (gen_random_uuid(), 'c', 'p', '', 1, now(), 'ok', 't', 's-9', "
            """'{"scope": {"name": "session", "session_id": "s-9"}, "options": {"k": 1}, "zone": "UTC"}')"""
        )
        wanted = DecisionsWanted(tenant="t", by=("session", "s-9"))
        assert [await blank_decisions(connection, wanted) for _ in range(2)] == [1, 0]
        held = await connection.fetchval("SELECT d::text FROM recall_decisions AS d")
    finally:
        await connection.close()
    assert "s-9" not in held


async def test_the_text_behind_every_hash_is_there_also_after_an_edit(
    bus: Redis, bus_alone: EmbeddedEngines, database: str, tokens: TokenCounter, tmp_path: Path
) -> None:
    first = write(tmp_path)
    settings = quick_settings(
        bus_alone.redis_url, postgres_dsn=database, profiles_dir=tmp_path, default_profile="edited.v1"
    )
    connection = await open_connection(database, name="test", statement_timeout_ms=5000)

    async def known() -> dict[str, str]:
        return {
            one["hash"]: one["text"] for one in await connection.fetch("SELECT hash, text FROM recall_profiles")
        }

    async def is_known(wanted: str) -> None:
        async def found() -> bool:
            return wanted in await known()

        await until(found, "the text of a profile")

    try:
        async with serving(settings, opened_with(OneMemory(), tokens)):
            await is_known(first)
            second = write(tmp_path, vector_top_k=5)
            await is_known(second)
        texts = await known()
        assert texts.keys() == {first, second}
        for content_hash, text in texts.items():
            file = tmp_path / "example.yaml"
            file.write_text(text, "utf-8")
            assert load_profile(file).content_hash == content_hash
    finally:
        await connection.close()


async def test_a_profile_that_was_replaced_before_postgres_was_there_is_written_too(database: str) -> None:
    shipped = loaded_profiles(None)
    first, second = shipped["reflect.v1"], shipped["deep.graph.v1"]
    current = {"p": first}
    texts = ProfileTexts(lambda: current)
    current = {"p": second}
    texts.note()
    pool = await open_pool(database, name="test", max_size=1)
    running = asyncio.create_task(texts.run(pool, every_s=0.01))  # again and again: that is no error
    try:

        async def written() -> bool:
            found = [await profile_text(pool, one.content_hash) for one in (first, second)]
            return found == [dump_profile(first.profile), dump_profile(second.profile)]

        await until(written, "both texts")
        assert await profile_text(pool, "0" * 16) is None
        assert not running.done()
    finally:
        await cancel(running)
        await pool.close()
