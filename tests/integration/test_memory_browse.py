"""The record for people: lists, text search, ids by a prefix, everything about one memory."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from datetime import UTC, datetime
from typing import Any

import pytest

from orion_recall.contracts import MemoryV1, MemoryWhereV1
from orion_recall.errors import InvalidMessage
from orion_recall.memory.record.compose import compose
from orion_recall.memory.record.reader import RecordBrowser
from orion_recall.memory.record.record import Record
from orion_recall.postgres.pool import Pool, open_pool
from orion_recall.values import Memory


@pytest.fixture
async def pool(database: str) -> AsyncGenerator[Pool]:
    opened = await open_pool(database, name="browse", max_size=2)
    yield opened
    await opened.close()


@pytest.fixture
def browser(pool: Pool) -> RecordBrowser:
    return RecordBrowser(pool)


def memory(name: str, text: str = "", day: int | None = None, **fields: Any) -> Memory:
    when = {} if day is None else {"occurred_at": f"2026-03-{day:02}T12:00:00Z"}
    return compose(
        MemoryV1.model_validate({"id": name, "text": text or f"text of {name}", **when, **fields}), "acme"
    )


async def test_the_newest_come_first_and_undated_ones_where_they_were_stored(
    pool: Pool, browser: RecordBrowser
) -> None:
    await Record(pool).store([memory("a", day=2), memory("b", day=9), memory("c"), memory("d", day=5)])
    found = await browser.newest("acme", None, 3)
    assert [one.id for one in found] == ["c", "b", "d"]
    assert [one.is_dated for one in found] == [False, True, True]
    assert found[1].at == datetime(2026, 3, 9, 12, tzinfo=UTC)
    assert await browser.newest("other", None, 3) == []


async def test_a_list_has_the_memories_that_meet_every_condition(pool: Pool, browser: RecordBrowser) -> None:
    await Record(pool).store(
        [
            memory("a", day=2, session_id="s", user_id="u", tags=["x"], kind="plan"),
            memory("b", day=4, session_id="s", tags=["y"]),
            memory("c", session_id="s"),
        ]
    )
    for where, ids in (
        ({"session_id": "s"}, ["c", "b", "a"]),
        ({"user_id": "u"}, ["a"]),
        ({"tags": ["x", "y"]}, ["b", "a"]),
        ({"kinds": ["plan"]}, ["a"]),
        ({"since": "2026-03-03T00:00:00Z"}, ["b"]),
        ({"until": "2026-03-03T00:00:00Z"}, ["a"]),
    ):
        found = await browser.newest("acme", MemoryWhereV1.model_validate(where), 9)
        assert [one.id for one in found] == ids, where


async def test_a_search_finds_word_forms_phrases_and_leaves_words_out(pool: Pool, browser: RecordBrowser) -> None:
    await Record(pool).store(
        [
            memory("a", "The harbour cranes were repaired.", day=1),
            memory("b", "The crane of the harbour stands still.", day=2, session_id="s"),
            memory("c", "Nobody came.", day=3),
        ]
    )
    for words, ids in (
        ("crane harbour", {"a", "b"}),
        ('"harbour crane"', {"a"}),
        ("crane -repair", {"b"}),
        ("repaired or nobody", {"a", "c"}),
    ):
        assert {one.id for one in await browser.search("acme", words, None, 9)} == ids, words
    (only,) = await browser.search("acme", "crane", MemoryWhereV1(session_id="s"), 9)
    assert (only.id, only.passage) == ("b", "The crane of the harbour stands still.")
    assert only.score is not None
    await Record(pool).store([memory("long", f"{'mud ' * 400}the crane at the quay {'sand ' * 400}")])
    (long,) = await browser.search("acme", "quay", None, 9)
    assert "crane at the quay" in (long.passage or "")
    assert len(long.passage or "") < 300
    with pytest.raises(InvalidMessage, match="no word that can be searched for"):
        await browser.search("acme", "the of", None, 9)


async def test_everything_about_one_memory(pool: Pool, browser: RecordBrowser) -> None:
    record = Record(pool)
    await record.store([memory("old")])
    await record.store([memory("new", "I work at Fjord Labs.", supersedes=["old"])])
    await record.touch("acme", ["new", "new"])
    await pool.execute(
        "INSERT INTO recall_feedback (tenant, used, wrong) VALUES ('acme', '{new}', '{}'), ('acme', '{}', '{new}')"
    )
    new, old = await browser.details("acme", "new"), await browser.details("acme", "old")
    assert new is not None
    assert old is not None
    assert new.memory == (await record.get("acme", ["new"]))["new"]
    assert (new.replaced, new.accesses, new.used, new.wrong, new.steps) == (("old",), 2, 1, 1, 1)
    assert old.memory.superseded_by == "new"
    assert old.steps == 2
    assert await browser.details("acme", "none") is None
