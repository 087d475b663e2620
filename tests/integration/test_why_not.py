"""Why a memory is not in an answer: it is lost in each of twelve ways on real engines, and the stage is named."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from explained import CRANE, KEEPS, NEAR, PLAIN, SHED, SURE, TIMED, Asked

from orion_recall.contracts import MemoryV1
from orion_recall.memory.record.compose import compose
from orion_recall.memory.record.record import Record
from orion_recall.serving.explain import decision_named, why_not

pytestmark = pytest.mark.slow

NOW = datetime.now(UTC)
BOTH = pytest.mark.parametrize("profile", [KEEPS, PLAIN])


async def test_filter(asked: Asked) -> None:
    await asked.stored(CRANE, SHED)
    asked_for: list[tuple[dict[str, Any], str]] = [
        ({"kinds": ["plan"]}, "other_kind"),
        ({"tags": ["sea"]}, "other_tag"),
        ({"exclude": ["crane"]}, "excluded"),
    ]
    for options, code in asked_for:
        told = await asked.lost(await asked.decided(**options), "crane")
        assert (told.stage, told.code) == ("filter", code), told


async def test_what_was_said_after_the_time_asked_as_of(asked: Asked) -> None:
    await asked.stored({**CRANE, "occurred_at": "2026-03-02T09:00:00Z"}, SHED)
    told = await asked.lost(await asked.decided(as_of="2026-03-02T08:59:00Z"), "crane")
    assert (told.stage, told.code, told.by_how_much) == ("time", "after_as_of", 60)


async def test_scope(asked: Asked) -> None:
    await asked.stored({**CRANE, "user_id": "u-1", "session_id": "s-1"}, {**SHED, "user_id": "u-2"})
    told = await asked.lost(await asked.decided(scope="user", user="u-2"), "crane")
    assert (told.stage, told.facts) == ("scope", {"what": "user", "wanted": "u-2", "own": "u-1"})
    told = await asked.lost(await asked.decided(scope="session", session_id="s-9"), "crane")
    assert (told.stage, told.facts["wanted"]) == ("scope", "s-9")


async def test_rank_pool_of_the_fusion_and_of_every_list(asked: Asked) -> None:
    await asked.stored(
        *({"id": f"boat-{n}", "text": f"Boat {n} of the harbour lies at quay {n * 7}."} for n in range(130)), SHED
    )
    decision = await asked.decided("Which boat of the harbour lies at quay 7?", k=5)
    names = [f"boat-{n}" for n in range(130)]
    told = {name: await asked.lost(decision, name) for name in (*names[40:60:10], "shed")}
    assert {one.stage for one in told.values()} == {"rank_pool"}
    shed = told["shed"]
    assert shed.by_how_much is not None
    assert 1 <= shed.by_how_much <= 31
    assert (shed.unit, shed.code, shed.facts["limit"]) == ("places", "beyond_lists", 100)
    assert any(one.code == "rank_pool" and "place" in one.facts for one in told.values())


@BOTH
async def test_near_duplicate(asked: Asked, profile: str) -> None:
    await asked.stored(CRANE, {**CRANE, "id": "crane-again", "text": CRANE["text"].upper()}, SHED)
    decision = await asked.decided(profile=profile)
    (repeated,) = {"crane", "crane-again"} - set(decision.selected_ids)
    (kept,) = {"crane", "crane-again"} & set(decision.selected_ids)
    told = await asked.lost(decision, repeated)
    assert (told.stage, told.facts["for"], told.unit) == ("near_duplicate", kept, "score")
    assert (await asked.lost(decision, kept)).stage == "kept"


@BOTH
async def test_cap(asked: Asked, profile: str) -> None:
    await asked.stored(CRANE, SHED)
    decision = await asked.decided(profile=profile, k=1)
    assert decision.selected_ids == ["crane"]
    told = await asked.lost(decision, "shed")
    assert (told.stage, told.by_how_much, told.unit) == ("cap", 1, "places")
    assert told.code == "max_total_items"


@BOTH
async def test_budget(asked: Asked, profile: str) -> None:
    await asked.stored(CRANE, {**SHED, "text": f"{SHED['text']} {'It took the whole week. ' * 20}"})
    decision = await asked.decided(profile=profile, max_tokens=32)
    assert decision.selected_ids == ["crane"]
    told = await asked.lost(decision, "shed")
    assert (told.stage, told.facts["budget"]) == ("budget", 32)
    if profile == PLAIN:
        assert (told.unit, (told.by_how_much or 0) > 0) == ("tokens", True)


@BOTH
async def test_score(asked: Asked, profile: str) -> None:
    await asked.stored(CRANE, SHED)
    decision = await asked.decided(profile=profile, min_score=0.6)
    assert decision.selected_ids == ["crane"]
    told = await asked.lost(decision, "shed")
    assert (told.stage, told.unit) == ("score", "score")
    assert 0 < (told.by_how_much or 0) < 0.6


async def test_score_of_an_answer_that_was_not_sure_enough(asked: Asked) -> None:
    await asked.stored(CRANE, SHED)
    decision = await asked.decided(profile=SURE)
    assert decision.selected_ids == []
    told = await asked.lost(decision, "crane")
    assert (told.stage, told.unit, told.code) == ("score", "score", "no_answer")
    assert told.by_how_much == pytest.approx(0.99 - (decision.confidence or 0), abs=0.01)


async def test_time_of_the_options_and_of_the_question(asked: Asked) -> None:
    at = NOW - timedelta(days=40)
    await asked.stored({**CRANE, "occurred_at": at.isoformat()}, {**SHED, "occurred_at": NOW.isoformat()})
    since = at + timedelta(days=10)
    told = await asked.lost(await asked.decided(since=since.isoformat()), "crane")
    assert (told.stage, told.unit) == ("time", "seconds")
    assert told.by_how_much == pytest.approx(10 * 86_400, abs=1)
    for question in ("Which gearbox did the harbour crane need yesterday?", "What did we talk about yesterday?"):
        decision = await asked.decided(question, profile=TIMED)
        told = await asked.lost(decision, "crane")
        assert (told.stage, told.unit) == ("time", "seconds"), told
        assert 37 * 86_400 < (told.by_how_much or 0) < 40 * 86_400


async def test_deleted_before_and_after_the_question(asked: Asked) -> None:
    await asked.stored(CRANE, SHED)
    before = await asked.decided(k=1)
    for name in ("crane", "shed"):
        await asked.client.delete([name], tenant=asked.tenant)
    told = await asked.lost(await asked.decided(), "crane")
    assert (told.stage, told.unit, told.facts["when"]) == ("deleted", "seconds", "before")
    assert (await asked.lost(before, "crane")).stage == "kept"
    told = await asked.lost(before, "shed")
    assert (told.stage, told.facts["when"]) == ("deleted", "after")


async def test_not_indexed_yet_and_not_stored_yet(asked: Asked) -> None:
    await asked.stored(SHED)
    too_early = await asked.decided()
    index, graph = asked.service.background.projectors
    async with index.writing, graph.writing:
        memory = compose(MemoryV1.model_validate(CRANE), asked.tenant)
        await Record(asked.pool).store([memory])
        decision = await asked.decided()
    assert "crane" not in decision.selected_ids
    told = await asked.lost(decision, "crane")
    assert (told.stage, told.by_how_much, told.unit) == ("not_indexed", 1, "changes")
    told = await asked.lost(too_early, "crane")
    assert (told.stage, told.unit) == ("not_stored", "seconds")


async def test_source_failed(asked: Asked) -> None:
    await asked.stored({"id": "auto", "text": "My automobile broke down."}, SHED)
    breaker = asked.service.opened.sources.breakers["vector"]
    breaker.failures, breaker.retry_at, breaker.last_error = 3, time.monotonic() + 600, "the disk is on fire"
    try:
        decision = await asked.decided("Which car has a defect?")
    finally:
        breaker.record(None, time.monotonic())
    assert (decision.outcome, decision.selected_ids) == ("degraded", [])
    told = await asked.lost(decision, "auto")
    assert (told.stage, "on fire" in str(told.facts["silent"])) == ("source", True)


async def test_never_found(asked: Asked) -> None:
    await asked.stored(CRANE, SHED)
    decision = await asked.decided(profile=NEAR)
    assert decision.selected_ids == ["crane"]
    told = await asked.lost(decision, "shed")
    assert (told.stage, told.by_how_much) == ("never_found", None)


async def test_what_is_not_there_or_is_another_tenants_is_no_memory(asked: Asked) -> None:
    await asked.stored(CRANE)
    other = Asked(asked.service, asked.client, asked.pool)
    await other.stored({**SHED, "id": "theirs"})
    decision = await asked.decided()
    for name in ("theirs", "nowhere"):
        assert await why_not(asked.pool, asked.service.settings, decision, name) is None
    assert await decision_named(asked.pool, decision.id, tenant=other.tenant) is None
    assert (await decision_named(asked.pool, decision.corr_id, tenant=asked.tenant)) == decision
