"""Views for what is asked of the log again and again: each with the question that its page shows."""

from __future__ import annotations

from datetime import timedelta

import pytest
from decision_samples import NOON, decision, insert

from docs.tools.decision_log import decision_log_page
from docs.tools.decision_log_questions import OF_READERS, QUESTIONS
from docs.tools.reference import FOLDER
from orion_recall.contracts import MemoryV1
from orion_recall.decisions.log import DecisionLog
from orion_recall.errors import RecordError
from orion_recall.memory.record.compose import compose
from orion_recall.memory.record.record import Record
from orion_recall.postgres.pool import Pool


async def test_every_view_has_a_question_and_every_question_runs(pool: Pool) -> None:
    views = await pool.fetch("SELECT viewname FROM pg_views WHERE viewname LIKE 'recall\\_%'")
    assert {row["viewname"] for row in views} == QUESTIONS.keys()
    log = DecisionLog(pool)
    for view, sql in QUESTIONS.items():
        if view in OF_READERS:
            await pool.fetch(sql)
            with pytest.raises(RecordError, match=r"permission denied.*orion_reader.*with psql"):
                await log.run_sql(sql)
        else:
            assert not (await log.run_sql(sql)).truncated


async def test_a_query_is_one_flat_row_and_a_shadow_is_none(pool: Pool) -> None:
    asked = {"options": {"k": 2}, "clock": "2026-03-01T12:00:00+00:00", "zone": "Europe/Oslo", "limits": {}}
    build = {"version": "1.2", "model": "small", "weights": "00ff", "extractor": "light"}
    first = decision(
        asked=asked,
        build=build,
        read_at={"index": 7, "graph": 6},
        understood={"class": "temporal", "language": "en"},
    )
    await insert(pool, first, decision(shadow_of=first["id"]))
    (row,) = await pool.fetch("SELECT * FROM recall_queries")
    told = {name: value for name, value in row.items() if value is not None}
    assert told == {
        "decision_id": row["decision_id"],
        "created_at": NOON,
        "corr_id": "c-1",
        "tenant": "default",
        "scope": "global",
        "session_id": "s-1",
        "node_id": "athena",
        "verb": "reflect",
        "profile": "reflect.v1",
        "profile_fallback": False,
        "unsure": False,
        "dropped": {"near_duplicate": 1},
        "class": "temporal",
        "language": "en",
        "query": "what do we remember?",
        "options": {"k": 2},
        "clock": "2026-03-01T12:00:00+00:00",
        "zone": "Europe/Oslo",
        "outcome": "ok",
        "found": 7,
        "kept": 2,
        "tokens": 40,
        "latency_ms": 10.0,
        "deliveries": 1,
        "index_position": 7,
        "graph_position": 6,
        "version": "1.2",
        "model": "small",
        "weights": "00ff",
        "extractor": "light",
        "worker": "w-1",
    }
    assert str(row["decision_id"]) == first["id"]


async def test_a_memory_that_is_in_every_answer_of_a_day_has_the_share_one(pool: Pool) -> None:
    first = decision(selected_ids=["always", "once"])
    await insert(
        pool,
        first,
        decision(selected_ids=["twice", "always"], created_at=(NOON + timedelta(hours=1)).isoformat()),
        decision(selected_ids=["always", "twice"]),
        decision(selected_ids=["always"], tenant="other"),
        decision(selected_ids=["twice"], created_at=(NOON + timedelta(days=1)).isoformat()),
        decision(selected_ids=[], outcome="empty"),
        decision(selected_ids=["once"], shadow_of=first["id"]),
    )
    columns = "memory_id, selected, first, bundles, share, last_at"
    rows = await pool.fetch(
        f"SELECT {columns} FROM recall_memory_usage WHERE day = '2026-03-01' AND tenant = 'default' "
        "ORDER BY share DESC"
    )
    assert [tuple(row) for row in rows] == [
        ("always", 3, 2, 3, 1.0, NOON + timedelta(hours=1)),
        ("twice", 2, 1, 3, pytest.approx(2 / 3), NOON + timedelta(hours=1)),
        ("once", 1, 0, 3, pytest.approx(1 / 3), NOON),
    ]
    assert await pool.fetchval("SELECT count(*) FROM recall_memory_usage") == 5


async def test_feedback_is_counted_for_the_profile_that_answered(pool: Pool) -> None:
    first = decision(profile_hash="h1", corr_id="c-9")
    again = decision(profile_hash="h2", corr_id="c-9", created_at=(NOON + timedelta(minutes=1)).isoformat())
    await insert(
        pool, first, again, decision(profile_hash="h3", corr_id="c-9", shadow_of=first["id"]),
        decision(profile_hash="h4", corr_id="c-9", tenant="other"),
    )  # fmt: skip
    said = (
        "INSERT INTO recall_feedback (tenant, corr_id, decision_id, used, wrong, at) "
        "VALUES ('default', $1, $2, $3, $4, $5)"
    )
    for corr_id, decision_id, used, wrong in (
        (None, first["id"], ["m1", "m2"], ["m3"]),
        (None, first["id"].upper(), ["m1"], []),
        ("c-9", None, [], ["m1"]),
        ("unknown", None, ["m1"], []),
        (None, "no uuid", ["m1"], []),
    ):
        await pool.execute(said, corr_id, decision_id, used, wrong, NOON)
    rows = await pool.fetch("SELECT * FROM recall_feedback_by_profile ORDER BY profile_hash")
    assert [tuple(row) for row in rows] == [
        (NOON.date(), "reflect.v1", "h1", 2, 1, 3, 1, 0.75),
        (NOON.date(), "reflect.v1", "h2", 1, 1, 0, 1, 0.0),
    ]


async def test_texts_are_those_of_now_and_what_became_of_a_memory_is_told(pool: Pool) -> None:
    names = ("same", "edited", "replaced", "deleted")
    await Record(pool).store([compose(MemoryV1(id=name, text=f"Of {name}."), "default") for name in names])
    asked_at = await pool.fetchval("SELECT now() + interval '1 second'")
    made = decision(selected_ids=[*names, "unknown"], created_at=asked_at.isoformat())
    await insert(pool, made)
    later = asked_at + timedelta(seconds=1)
    await pool.execute("UPDATE memories SET text = 'New.', updated_at = $1 WHERE id = 'edited'", later)
    await pool.execute("UPDATE memories SET superseded_by = 'same' WHERE id = 'replaced'")
    await pool.execute("UPDATE memories SET deleted_at = now() WHERE id = 'deleted'")
    rows = await pool.fetch("SELECT rank, memory_id, state, text FROM recall_texts ORDER BY rank")
    assert [tuple(row) for row in rows] == [
        (1, "same", "unchanged", "Of same."),
        (2, "edited", "changed", "New."),
        (3, "replaced", "superseded", "Of replaced."),
        (4, "deleted", "deleted", None),
        (5, "unknown", "gone", None),
    ]


async def test_never_selected_are_live_memories_that_no_answer_had(pool: Pool) -> None:
    names = ("answered", "shadowed", "accessed", "deleted", "left")
    await Record(pool).store([compose(MemoryV1(id=name, text=f"Of {name}."), "default") for name in names])
    await Record(pool).store([compose(MemoryV1(id="answered", text="Of another."), "other")])
    await Record(pool).touch("default", ["accessed"])
    await pool.execute("UPDATE memories SET deleted_at = now() WHERE id = 'deleted'")
    first = decision(selected_ids=["answered"])
    await insert(pool, first, decision(selected_ids=["shadowed"], shadow_of=first["id"]))
    rows = await pool.fetch("SELECT tenant, memory_id FROM recall_never_selected ORDER BY tenant, memory_id")
    assert [tuple(row) for row in rows] == [("default", "left"), ("default", "shadowed"), ("other", "answered")]


async def test_the_page_has_every_column_of_the_table_and_its_views(database: str) -> None:
    assert await decision_log_page(database) == (FOLDER / "decision-log.md").read_text("utf-8"), "run `make docs`"
