"""Questions that nothing answers: small talk has an empty bundle, the others the nearest, and the reply says so."""

from __future__ import annotations

from typing import Any

import pytest
from executor import Executor, until

from orion_recall.postgres.pool import Connection
from orion_recall.recall.confidence.answer import UNSURE_NOTE

OPTIONS: dict[str, Any] = {"profile": "reflect.v1", "options": {"include": {"trace": True}}}


async def recalled(
    executor: Executor, database: Connection, fragment: str
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The bundle, and the row of its decision."""
    bundle = (await executor.answer(OPTIONS | {"fragment": fragment}))["bundle"]
    decision = bundle["stats"]["decision_id"]
    sql = (
        "SELECT outcome, no_answer ->> 'reason' AS reason, answer_probability, understood ->> 'class' AS class, "
        "jsonb_array_length(selected_ids) AS selected, unsure "
        "FROM recall_decisions WHERE id = $1"
    )

    async def written() -> bool:
        return await database.fetchrow(sql, decision) is not None

    await until(written, "the row of the decision")
    row = await database.fetchrow(sql, decision)
    assert row is not None
    return bundle, dict(row)


async def test_a_greeting_is_not_searched_for(executor: Executor, service_database: Connection) -> None:
    bundle, row = await recalled(executor, service_database, "Good morning, thank you!")
    stats = bundle["stats"]
    assert (bundle["rendered"], bundle["items"], stats["outcome"]) == ("", [], "empty")
    assert (stats["backend_counts"], stats["sources"]) == ({}, {})
    assert stats["no_answer"] == {"reason": "greeting", "near_misses": 0}
    assert "probability" not in stats
    assert (row["outcome"], row["reason"], row["answer_probability"]) == (
        "empty",
        stats["no_answer"]["reason"],
        None,
    )
    assert row["class"] == "factual"


@pytest.mark.parametrize("fragment", ["How many feet are there in a mile?", "Who taught Gunnar the violin?"])
async def test_what_nothing_answers_has_the_nearest_and_says_that_it_is_unsure(
    executor: Executor, service_database: Connection, fragment: str
) -> None:
    bundle, row = await recalled(executor, service_database, fragment)
    stats = bundle["stats"]
    assert (stats["outcome"], stats["unsure"]) == ("ok", True)
    assert 1 <= len(bundle["items"]) <= 3
    assert bundle["rendered"].startswith(UNSURE_NOTE)
    assert "no_answer" not in stats
    assert 0 <= stats["probability"] < 0.35
    assert row["answer_probability"] == stats["probability"]
    assert (row["outcome"], row["selected"], row["reason"], row["unsure"]) == (
        "ok",
        len(bundle["items"]),
        None,
        True,
    )
    assert stats["trace"]["answer_signals"]["found"] < 1


async def test_what_is_answered_has_its_probability_beside_the_confidence(
    executor: Executor, service_database: Connection
) -> None:
    bundle, row = await recalled(executor, service_database, "Who sold the old sailing boat?")
    stats = bundle["stats"]
    assert "dentist" in bundle["rendered"]
    assert 0.5 < stats["probability"] <= 1
    assert stats["confidence"] == bundle["items"][0]["confidence"]["overall"], "that of its first item"
    assert (row["outcome"], row["answer_probability"]) == ("ok", stats["probability"])


async def test_a_caller_without_options_gets_an_empty_bundle_and_no_new_field(executor: Executor) -> None:
    bundle = (await executor.answer({"fragment": "Thanks!", "profile": "reflect.v1"}))["bundle"]
    assert (bundle["rendered"], bundle["items"]) == ("", [])
    assert set(bundle["stats"]) == {"backend_counts", "latency_ms", "profile"}


async def test_a_query_may_have_whatever_was_found_or_nothing_that_is_unsure(executor: Executor) -> None:
    asked: dict[str, Any] = {"profile": "reflect.v1", "fragment": "Who taught Gunnar the violin?"}
    withheld = (await executor.answer({**asked, "options": {"no_answer": True}}))["bundle"]
    reason = withheld["stats"]["no_answer"]
    assert (withheld["items"], withheld["rendered"], reason["reason"]) == ([], "", "below_min_probability")
    assert reason["near_misses"] == withheld["stats"]["dropped"]["no_answer"] > 0
    assert reason["value"] == withheld["stats"]["probability"] < reason["minimum"] == 0.35
    handed_over = (await executor.answer({**asked, "options": {"no_answer": False}}))["bundle"]
    assert len(handed_over["items"]) >= 1
    assert handed_over["stats"].get("unsure") is not True
    assert "no_answer" not in handed_over["stats"]
    assert not handed_over["rendered"].startswith(UNSURE_NOTE)
    assert handed_over["stats"]["probability"] < 0.35
