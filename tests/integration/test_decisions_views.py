from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from decision_samples import INSERT, NOON, decision, envelope, insert

from orion_recall.decisions.comparison import compared_trials
from orion_recall.decisions.log import DecisionLog, overview_since
from orion_recall.postgres.pool import Pool

VIEWS = (
    "recall_by_profile_hour",
    "recall_by_source",
    "recall_dropped",
    "recall_selected",
    "recall_layers",
    "recall_trials",
    "recall_follow_ups",
    "recall_queries",
    "recall_memory_usage",
    "recall_stage_ms",
    "recall_feedback_by_profile",
    "recall_texts",
    "recall_never_selected",
    "recall_candidates",
)

QUESTIONS = (
    ("FROM recall_decisions WHERE corr_id = 'c-77'", "recall_decisions_corr_id"),
    ("FROM recall_decisions WHERE session_id = 's-77'", "recall_decisions_session_id"),
    ("FROM recall_decisions WHERE selected_ids @> '[\"m77\"]'", "recall_decisions_selected_ids"),
    ("FROM recall_decisions ORDER BY created_at DESC LIMIT 5", "recall_decisions_created_at"),
    ("FROM recall_decisions WHERE outcome <> 'ok' AND outcome = 'failed'", "recall_decisions_not_ok"),
    ("FROM recall_by_profile_hour WHERE hour = '2026-03-01 12:00+00'", "recall_decisions_hour"),
    ("FROM recall_by_source WHERE hour = '2026-03-01 12:00+00'", "recall_decisions_hour"),
    (
        "FROM recall_decisions WHERE shadow_of = '875a5172-46c0-4014-94f6-ee2cdfb0d3b0'",
        "recall_decisions_shadow_of",
    ),
    ("FROM recall_dropped WHERE day = '2026-03-01'", "recall_decisions_day"),
    ("FROM recall_queries WHERE created_at >= now() - interval '1 day'", "recall_decisions_created_at"),
    ("FROM recall_stage_ms WHERE created_at >= now() - interval '1 day'", "recall_decisions_created_at"),
    ("FROM recall_memory_usage WHERE day = '2026-03-01'", "recall_decisions_day"),
    ("FROM recall_queries WHERE unsure ORDER BY created_at DESC LIMIT 5", "recall_decisions_unsure"),
    ("FROM recall_feedback_by_profile WHERE day = '2026-03-01'", "recall_feedback_day"),
    ("FROM recall_trials WHERE created_at >= now() - interval '1 day'", "recall_decisions_canaries"),
)


async def test_an_hour_of_a_profile_has_its_rates_and_its_latencies(pool: Pool) -> None:
    await insert(
        pool,
        decision(latency_ms=10.0),
        decision(latency_ms=20.0),
        decision(latency_ms=30.0, outcome="empty"),
        decision(latency_ms=0.1, outcome="expired"),
        decision(latency_ms=99.0, created_at=(NOON + timedelta(hours=1)).isoformat(), outcome="degraded"),
        decision(latency_ms=5.0, profile="assist.light.v1"),
    )
    rows = await pool.fetch("SELECT * FROM recall_by_profile_hour ORDER BY profile, hour")
    light, noon, one = (dict(row.items()) for row in rows)
    assert (light["profile"], light["count"], light["p50_ms"]) == ("assist.light.v1", 1, 5.0)
    assert noon == {
        "profile": "reflect.v1",
        "hour": NOON,
        "count": 4,
        "empty_rate": 0.25,
        "degraded_rate": 0.0,
        "error_rate": 0.25,
        "p50_ms": 20.0,
        "p95_ms": pytest.approx(29.0),
        "p99_ms": pytest.approx(29.8),
    }
    assert (one["hour"], one["degraded_rate"]) == (NOON + timedelta(hours=1), 1.0)


async def test_a_source_has_its_statuses_hits_times_and_share_of_what_was_selected(pool: Pool) -> None:
    late = {"vector": {"status": "late", "count": 0, "ms": 100.0}, "rdf": {"status": "off", "count": 0, "ms": 0}}
    await insert(pool, decision(), decision(), decision(sources=late, selected=[]))
    rows = await pool.fetch("SELECT * FROM recall_by_source ORDER BY source")
    rdf, vector = (dict(row.items()) for row in rows)
    assert vector == {
        "hour": NOON,
        "source": "vector",
        "searches": 3,
        "ok": 2,
        "empty": 0,
        "late": 1,
        "failed": 0,
        "off": 0,
        "hits": 10,
        "median_ms": 2.0,
        "p95_ms": pytest.approx(90.2),
        "selected": 2,
        "share_of_selected": 0.5,
        "p99_ms": pytest.approx(98.04),
        "fallbacks": 0,
    }
    assert (rdf["searches"], rdf["off"], rdf["empty"], rdf["median_ms"]) == (2, 1, 2, 4.0)


async def test_what_was_dropped_is_summed_by_day_profile_and_reason(pool: Pool) -> None:
    await insert(
        pool,
        decision(dropped={"near_duplicate": 2, "token_budget": 1}),
        decision(dropped={"near_duplicate": 3}),
        decision(dropped={}),
        decision(dropped={"near_duplicate": 7}, created_at="2026-03-01T23:30:00-05:00"),
    )
    rows = await pool.fetch("SELECT day::text, reason, count FROM recall_dropped ORDER BY day, reason")
    assert [tuple(row) for row in rows] == [
        ("2026-03-01", "near_duplicate", 5),
        ("2026-03-01", "token_budget", 1),
        ("2026-03-02", "near_duplicate", 7),
    ]


async def test_every_selected_item_is_a_row_with_its_rank_and_parts(pool: Pool) -> None:
    await insert(pool, decision(), decision(selected=[], outcome="empty"))
    rows = await pool.fetch(
        "SELECT rank, memory_id, source, score, parts, ranks FROM recall_selected ORDER BY rank"
    )
    assert [tuple(row) for row in rows] == [
        (1, "m1", "vector", 0.9, {"dense": 0.8}, {"vector": 1}),
        (2, "m2", "rdf", 0.5, {"graph": 0.4}, {"rdf": 1}),
    ]


async def test_every_layer_of_a_cascade_is_a_row_in_the_order_of_its_path(pool: Pool) -> None:
    path: list[dict[str, Any]] = [
        {"layer": "semantic", "depth": 0, "hits": 2, "confidence": 0.4, "ms": 1.5, "late": [], "not_asked": None},
        {"layer": "graph", "depth": 1, "hits": 0, "confidence": None, "ms": 9.0, "late": ["rdf"]},
        {"layer": "episodic", "depth": 2, "hits": 0, "not_asked": "no time was left"},
    ]
    cascade: dict[str, Any] = {"ended": "deadline", "combined": {"semantic": 2}, "path": path}
    await insert(pool, decision(cascade=cascade, confidence=0.4), decision(), decision(cascade={"path": "none"}))
    rows = await pool.fetch("SELECT * FROM recall_layers ORDER BY place")
    told = [tuple(row)[3:] for row in rows]
    assert told == [
        (1, "semantic", 0, 2, 0.4, 1.5, 0, None, 2, "deadline"),
        (2, "graph", 1, 0, None, 9.0, 1, None, 0, "deadline"),
        (3, "episodic", 2, 0, None, None, None, "no time was left", 0, "deadline"),
    ]
    assert await pool.fetchval("SELECT avg(confidence) FROM recall_decisions") == 0.4


async def test_a_shadow_stands_beside_what_was_answered_and_counts_in_no_other_view(pool: Pool) -> None:
    first, other = decision(latency_ms=20.0, unsure=True), decision(selected_ids=[], outcome="empty")
    shadow = {"profile": "deep.graph.v1", "shadow_of": first["id"], "latency_ms": 8.0}
    none: dict[str, Any] = {
        "profile": "deep.graph.v1",
        "shadow_of": other["id"],
        "selected_ids": [],
        "outcome": "empty",
    }
    await insert(pool, first, other, decision(selected_ids=["m2", "m3"], **shadow), decision(**none))
    said = "INSERT INTO recall_feedback (tenant, decision_id, used, wrong, at) VALUES ('default', $1, $2, $3, $4)"
    await pool.execute(said, first["id"], ["m1"], [], NOON)
    columns = "kind, profile, tried_profile, side, outcome, unsure, latency_ms"
    rows = await pool.fetch(
        f"SELECT {columns} FROM recall_trials WHERE pair = $1::text::uuid ORDER BY side", first["id"]
    )
    assert [tuple(row) for row in rows] == [
        ("shadow", "reflect.v1", "deep.graph.v1", "control", "ok", True, 20.0),
        ("shadow", "reflect.v1", "deep.graph.v1", "tried", "ok", False, 8.0),
    ]
    for view in ("recall_by_profile_hour", "recall_dropped"):
        assert await pool.fetchval(f"SELECT sum(count) FROM {view} WHERE profile = 'deep.graph.v1'") is None
    assert await pool.fetchval("SELECT searches FROM recall_by_source WHERE source = 'vector'") == 2

    ((*trial, found),) = await compared_trials(pool, profile="reflect.v1", since=NOON)
    assert trial == ["shadow", "reflect.v1", "deep.graph.v1"]
    assert (found.queries, found.answers, found.p50_ms, found.p95_ms) == (2, (2, 2), (10.0, 8.0), (20.0, 10.0))
    means = {name: mean.mean for name, (mean, _) in found.means.items()}
    assert means == {
        "overlap@5": pytest.approx(2 / 3), "same_first": 0.5, "identical": 0.5, "flip": 0.0, "used_kept": 0.0,
    }  # fmt: skip
    levels = {name: (one.before, one.after) for name, one in found.levels.items()}
    assert (levels["empty"], levels["unsure"], levels["hit"], levels["mrr"]) == (
        (0.5, 0.5),
        (0.5, 0),
        (1, 0),
        (1, 0),
    )
    assert await compared_trials(pool, profile="deep.graph.v1") == []
    assert await compared_trials(pool, since=NOON + timedelta(seconds=1)) == []


async def test_the_views_survive_a_row_whose_inner_values_are_not_what_they_should_be(pool: Pool) -> None:
    odd = decision(
        dropped={"x": "many"},
        sources={"vector": 7, "rdf": {"status": None, "count": "1", "ms": []}},
        selected=["m1", {"id": 3, "score": "high", "confidence": "sure"}],
        stage_ms={"search": "long", "rank": 2},
        backend_counts={"vector": "many"},
        no_answer=7,
        confidence=0.1,
        asked={"options": 3, "clock": []},
        read_at={"index": "late"},
        build=[],
        cascade={"path": [7, {"layer": [], "depth": "deep", "late": {}}], "combined": 3},
    )
    await insert(pool, odd)
    for view in VIEWS:
        await pool.fetch(f"SELECT * FROM {view}")


@pytest.mark.parametrize(
    ("number", "as_integer", "as_double"),
    [
        pytest.param(f"1{'0' * 30}", None, 1e30, id="10^30"),
        pytest.param(f"-1{'0' * 30}", None, -1e30, id="-10^30"),
        pytest.param(f"1{'0' * 400}", None, None, id="10^400"),
        pytest.param(f"0.{'0' * 400}1", 0, None, id="10^-401"),
    ],
)
async def test_a_number_that_does_not_fit_is_null_in_the_views_and_no_error(
    pool: Pool, number: str, as_integer: int | None, as_double: float | None
) -> None:
    huge = decision(
        dropped={"near_duplicate": "N"},
        sources={"vector": {"status": "ok", "count": "N", "ms": "N"}},
        selected=[{"id": "m1", "source": "vector", "score": "N", "confidence": {"overall": "N"}}],
        stage_ms={"search": "N"},
        backend_counts={"vector": "N", "rdf": 2},
        no_answer={"reason": "not sure"},
        read_at={"index": "N", "graph": 7},
        cascade={"path": [{"layer": "graph", "depth": "N", "hits": "N", "ms": "N"}], "combined": {"graph": "N"}},
        canary={"trial": "t-1", "profile": "a", "canary": "b", "variant": "control", "share": "N"},
        candidates=[{"id": "m1", "place": "N", "score": "N", "fused": "N"}],
    )
    await pool.execute(INSERT, [envelope(huge).replace(b'"N"', number.encode())])
    for view in VIEWS:
        await pool.fetch(f"SELECT * FROM {view}")
    told = {
        "SELECT hits, median_ms FROM recall_by_source": (as_integer or 0, as_double),
        "SELECT count FROM recall_dropped": (as_integer or 0,),
        "SELECT score, confidence FROM recall_selected": (as_double, as_double),
        "SELECT depth, hits, ms, selected FROM recall_layers": (as_integer, as_integer, as_double, 0),
        "SELECT kind, side FROM recall_trials": ("canary", "control"),
        "SELECT found, index_position, graph_position FROM recall_queries": (2, as_integer, 7),
        "SELECT stage, ms FROM recall_stage_ms": ("search", as_double),
        "SELECT place, score, fused FROM recall_candidates": (as_integer, as_double, as_double),
    }
    assert {sql: tuple(row) for sql in told for row in await pool.fetch(sql)} == told
    overview = await overview_since(pool, NOON)
    assert [stage["p95_ms"] for stage in overview.stages] == [as_double] * (as_double is not None)


async def test_the_questions_an_analyst_asks_have_an_index(pool: Pool) -> None:
    async with pool.acquire() as connection:
        await connection.execute("SET enable_seqscan = off")
        for condition, index in QUESTIONS:
            plan = await connection.fetch(f"EXPLAIN SELECT * {condition}")
            assert index in "\n".join(row[0] for row in plan), condition


def _drawn(variant: str, **changes: Any) -> dict[str, Any]:
    canary = {"trial": "t-1", "profile": "old.v1", "canary": "new.v1", "variant": variant, "share": 0.1}
    return decision(canary=canary, profile="new.v1" if variant == "canary" else "old.v1", **changes)


async def test_both_profiles_of_a_canary_stand_side_by_side(pool: Pool) -> None:
    old, new = _drawn("control", latency_ms=20.0), _drawn("canary", outcome="empty", latency_ms=10.0)
    await insert(pool, old, new, _drawn("canary", latency_ms=30.0), _drawn("canary", outcome="expired"), decision())
    ((*trial, found),) = await compared_trials(pool)
    assert trial == ["canary", "old.v1", "new.v1"]
    assert (found.answers, found.means, found.p50_ms) == ((1, 2), {}, (20.0, 10.0))
    assert (found.levels["empty"].before, found.levels["empty"].after) == (0.0, 0.5)
    (read,) = await DecisionLog(pool).get(old["id"])
    assert read.canary is not None
    assert (read.canary.variant, read.canary.profile) == ("control", "old.v1")


async def test_a_question_has_the_next_one_of_its_session_and_the_words_that_they_share(pool: Pool) -> None:
    def asked(query: str, seconds: int, **changes: Any) -> dict[str, Any]:
        at = (NOON + timedelta(seconds=seconds)).isoformat()
        return _drawn("canary", query=query, created_at=at, **changes)

    first, again = asked("Who repaired the harbour crane?", 0), asked("The harbour crane: repaired, by whom?", 60)
    other = asked("What is for dinner?", 120)
    await insert(pool, first, again, other, asked("Who repaired the crane?", 30, session_id="s-2"))
    rows = await pool.fetch(
        "SELECT decision_id, next_id, seconds, shared_words, variant FROM recall_follow_ups "
        "WHERE session_id = 's-1' ORDER BY created_at"
    )
    assert [(str(row[0]), row[1] and str(row[1]), *tuple(row)[2:]) for row in rows] == [
        (first["id"], again["id"], 60.0, 1.0, "canary"),
        (again["id"], other["id"], 60.0, 0.0, "canary"),
        (other["id"], None, None, None, "canary"),
    ]


def at(minutes: float, **changes: Any) -> dict[str, Any]:
    return decision(created_at=(NOON + timedelta(minutes=minutes)).isoformat(), **changes)


async def test_outcomes_profiles_and_stages_are_counted(pool: Pool) -> None:
    decisions = [
        at(-1, outcome="failed"),  # before
        at(0.5, latency_ms=10, stage_ms={"search": 4.0, "rank": 1.0, "total": 10.0}),
        at(0.9, latency_ms=30, stage_ms={"search": 8.0, "total": 30.0}),
        at(2.1, outcome="empty", latency_ms=20, stage_ms={"search": 6.0, "total": 20.0}),
        at(2.2, outcome="refused", latency_ms=5000, stage_ms={}),
        at(2.3, profile="other.v1", outcome="degraded", latency_ms=7, stage_ms={"search": 2.0}),
        at(2.4, shadow_of=str(uuid4()), latency_ms=900),
        at(2.5, tenant="acme", outcome="empty", latency_ms=50),
    ]
    await insert(pool, *decisions)
    found = await overview_since(pool, NOON, tenant="default")
    assert found.outcomes == {"ok": 2, "empty": 1, "refused": 1, "degraded": 1}
    assert found.count == 5
    first, second = found.profiles
    assert tuple(first)[:4] == ("reflect.v1", 4, 0.25, 0.0)
    assert (first["p50_ms"], first["p95_ms"]) == (20.0, pytest.approx(29.0))  # what was refused searched nothing
    assert (second["profile"], second["degraded"], second["p50_ms"]) == ("other.v1", 1.0, 7.0)
    stages = {one["stage"]: (one["count"], one["p50_ms"]) for one in found.stages}
    assert stages == {"search": (4, 5.0), "rank": (1, 1.0)}
    assert (await overview_since(pool, NOON)).count == 6
    assert (await overview_since(pool, NOON + timedelta(days=1))).outcomes == {}
