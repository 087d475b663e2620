"""The founding document's worked examples of a cascade, over the bus, with the real model and engines."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from executor import until
from serving import caught_up

from orion_recall.client import RecallClient
from orion_recall.contracts import MemoryBundleV1
from orion_recall.postgres.pool import Connection
from orion_recall.serving.service import Service

# No day of this run: what "last week" is, and how near a day is to another, hang on it.
NOW = datetime(2026, 11, 18, 12, 0, tzinfo=UTC)
CONFIGURATION = (
    "The database configuration was changed last week: the connection pool of PostgreSQL went from 10 to 20."
)
TEMPLATE = "1. Measure the present speed. 2. Identify the bottleneck. 3. Change one thing and measure again."
PROCEDURE = {"category": "system_improvement", "template": TEMPLATE, "success_rate": 0.85}
PLAN = {"pattern_type": "performance_optimization", "rationale": "Based on historical patterns"}
# Id, kind, days ago, text, metadata.
WORLD: list[tuple[str, str, int, str, dict[str, Any]]] = [
    ("e-config", "experience", 7, CONFIGURATION, {}),
    ("e-reindex", "experience", 9, "Reindexing the PostgreSQL tables at night made them faster.", {}),
    ("p-parcel", "procedure", 3, "To send a parcel abroad, fill in the customs form at the counter.", {}),
    ("p-optimise", "procedure", 20, f"Optimise the memory system. {TEMPLATE}", PROCEDURE),
    ("n-merge", "plan", 2, "Merge duplicate notes once a month.", PLAN),
    ("w-memory", "world", 30, "The memory system consolidates 1000 events in 2 to 3 seconds.", {}),
    ("w-postgres", "world", 40, "PostgreSQL is faster when its statistics are up to date.", {}),
    ("x-budgerigar", "opinion", 90, "Leila's budgerigar Pico is the loudest bird of the house.", {}),
    ("w-fresh", "world", 0, "The office kitchen has been painted yellow.", {}),
    ("w-door", "world", 0, "The code of the garage door is kept by the porter.", {}),
]


@pytest.fixture
async def asks(client: RecallClient, service: Service, tenant: str) -> Any:
    """Asks with the cascade on; the world is stored."""
    names = ("id", "kind", "occurred_at", "text", "metadata")
    rows = [(name, kind, (NOW - timedelta(days=days)).isoformat(), *said) for name, kind, days, *said in WORLD]
    memories = [{**dict(zip(names, row, strict=True)), "tenant": tenant} for row in rows]
    receipt = await client.store(memories)
    assert receipt.stored == len(WORLD), receipt
    await caught_up(service, receipt.position or 0)

    async def ask(text: str, **options: Any) -> MemoryBundleV1:
        include = {"trace": True, "layers": True, "metadata": True}
        asked = {"tenant": tenant, "cascade": True, "include": include, "as_of": NOW.isoformat(), **options}
        return (await client.recall(text, timeout_s=60, profile="reflect.v1", options=asked)).bundle

    return ask


def path(bundle: MemoryBundleV1) -> dict[str, Any]:
    assert bundle.stats.trace is not None
    way = bundle.stats.trace["cascade"]
    assert isinstance(way, dict)
    return way


async def test_what_happened_last_week_is_answered_by_episodes_alone(asks: Any):
    bundle = await asks("What happened with the database configuration last week?")
    way = path(bundle)
    assert (way["primary_layer"], way["cascaded_to"], way["ended"]) == ("episodic", [], "confident")
    assert bundle.items[0].id == "e-config"
    assert way["trigger"] == "sure"
    assert list(bundle.layers) == ["episodic"]


async def test_a_stricter_threshold_asks_further_layers_and_groups_what_they_found(asks: Any):
    question = "How should we optimise the memory system?"
    bundle = await asks(question, confidence_threshold=0.65, k=5)
    way = path(bundle)
    assert way["primary_layer"] == "planning"
    assert way["cascaded_to"][:2] == ["semantic", "procedural"]
    assert way["final_confidence"] > way["primary_confidence"]
    assert bundle.layers["procedural"][0] == "p-optimise"
    assert "w-memory" in bundle.layers["semantic"]
    assert sorted(id for ids in bundle.layers.values() for id in ids) == sorted(item.id for item in bundle.items)
    by_id = {item.id: item for item in bundle.items}
    assert by_id["p-optimise"].metadata == PROCEDURE, "fields of a procedure come back"
    assert by_id["p-optimise"].layer == "procedural"


async def test_a_weak_procedure_gains_facts_and_an_episode(asks: Any):
    bundle = await asks("How do I make PostgreSQL faster?")
    way = path(bundle)
    assert way["primary_layer"] == "procedural"
    assert way["trigger"] != "sure"
    assert {"w-postgres", "e-reindex"} <= {item.id for item in bundle.items[:4]}
    assert {item.kind for item in bundle.items} >= {"world", "experience"}


async def test_a_fresh_memory_that_has_nothing_to_do_with_it_does_not_answer(asks: Any):
    bundle = await asks("What is the name of Leila's budgerigar?")
    assert bundle.items[0].id == "x-budgerigar"


async def test_no_layer_is_sure_of_what_is_not_relevant(asks: Any):
    # Likeness of what has nothing in common wobbles around 0 with the memory's day, and below 0 nothing is found.
    bundle = await asks("How do I fill in the log of the generator?", max_cascade_depth=1)
    way = path(bundle)
    assert way["primary_confidence"] is not None
    assert way["cascaded_to"] == ["episodic", "semantic"]


async def test_the_order_of_merged_layers_is_the_callers_choice(asks: Any):
    strategy = "confidence_weighted"
    bundle = await asks(
        "How should we optimise the memory system?", confidence_threshold=0.65, merge_strategy=strategy
    )
    assert path(bundle)["merge_strategy"] == strategy


async def test_feedback_and_the_senders_doubt_change_the_quality_of_a_source(
    asks: Any, client: RecallClient, tenant: str, service_database: Connection
):
    question = "How do I make PostgreSQL faster?"
    before = await asks(question)
    quality = {item.id: item.confidence.source_quality for item in before.items}
    for _ in range(3):
        await client.feedback(
            decision_id=before.stats.decision_id, wrong=["w-postgres"], used=["e-reindex"], tenant=tenant
        )

    async def is_said() -> bool:
        return (
            await service_database.fetchval("SELECT count(*) FROM recall_feedback WHERE tenant = $1", tenant) == 3
        )

    await until(is_said, "the feedback")
    after = {item.id: item.confidence.source_quality for item in (await asks(question)).items}
    assert after["w-postgres"] < quality["w-postgres"]
    assert after["e-reindex"] > quality["e-reindex"]
