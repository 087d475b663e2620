"""The review sample: random decisions with the memories that were shown, read from a real Postgres."""

from __future__ import annotations

import asyncio
from importlib.resources import files
from pathlib import Path

import pytest
from decision_samples import decision, envelope

from orion_recall.cli.main import run
from orion_recall.contracts import MemoryV1
from orion_recall.decisions.sample import ShownMemory, sample_decisions
from orion_recall.evaluation.dataset import read_queries
from orion_recall.memory.record.compose import compose
from orion_recall.memory.record.record import Record
from orion_recall.postgres.pool import open_pool

INSERT = files("orion_recall.decisions").joinpath("insert.sql").read_text("utf-8")


async def filled(database: str) -> None:
    pool = await open_pool(database, name="test", max_size=1)
    memory = compose(MemoryV1(id="m2", text="I sold the boat.", speaker="Bo"), "default")
    await Record(pool).store([memory])
    asked = "Who sold the boat?"
    decisions = [decision(query=asked, query_chars=len(asked), selected_ids=["m1", "m2"]) for _ in range(30)]
    decisions.append(
        decision(query=asked, query_chars=len(asked), selected_ids=[], outcome="empty", profile="p.v1")
    )
    decisions += [
        decision(query="blake2b:00", query_chars=10),
        decision(query="cut", query_chars=5000),
        decision(query=asked, query_chars=len(asked), outcome="expired"),
        decision(query=asked, query_chars=len(asked), shadow_of=decisions[0]["id"]),
    ]
    await pool.execute(INSERT, [envelope(each) for each in decisions])
    await pool.close()


async def test_the_sample_is_random_repeatable_and_has_the_texts(database: str) -> None:
    await filled(database)
    pool = await open_pool(database, name="test", max_size=1)
    try:
        first = await sample_decisions(pool, 10)
        assert [one.decision_id for one in await sample_decisions(pool, 10)] == [one.decision_id for one in first]
        other = await sample_decisions(pool, 10, seed=1)
        assert {one.decision_id for one in other} != {one.decision_id for one in first}
        assert len(await sample_decisions(pool, 1000)) == 31, "no shadows, nothing cut, hashed or not recalled"
        (empty,) = await sample_decisions(pool, 1000, profile="p.v1")
        assert empty.shown == ()
        shown = next(one.shown for one in first if one.shown)
        assert shown == (ShownMemory(id="m1", text=None), ShownMemory(id="m2", text="Bo: I sold the boat."))
        assert await sample_decisions(pool, 5, tenant="elsewhere") == []
    finally:
        await pool.close()


async def test_the_commands_write_a_sample_and_read_it_back(
    database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await filled(database)
    monkeypatch.setenv("ORION_POSTGRES_DSN", database)
    monkeypatch.setenv("ORION_DATA_DIR", str(tmp_path))
    review, queries = tmp_path / "review.csv", tmp_path / "queries.jsonl"

    async def program(*arguments: str) -> int:
        return await asyncio.to_thread(run, arguments)

    assert await program("decisions", "sample", "--n", "5", "--out", str(review)) == 0
    lines = review.read_text("utf-8").splitlines()
    assert await program("eval", "review", str(review), "--out", str(queries)) == 1, "nothing is judged yet"
    judged = [f"relevant{line}" if ",m2," in line else line for line in lines]
    review.write_text("\n".join(judged) + "\n", "utf-8")
    assert await program("eval", "review", str(review), "--out", str(queries)) == 0
    found = read_queries(queries)
    assert found
    assert {query.evidence for query in found} == {frozenset({"m2"})}
