"""The specified flow: one call, three stores, one bundle for the prompt, one decision that is kept or skipped."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from executor import rows
from jinja2 import Environment
from serving import all_persisted, caught_up, started_with_client

from orion_recall import RecallClient
from orion_recall.bus.connect import connect
from orion_recall.engines.embedded import EmbeddedEngines
from orion_recall.postgres.pool import open_connection
from orion_recall.settings import Settings
from tests.stand_ins.patient_profiles import patient_profiles

PROMPT = '{{ memory_bundle.rendered | default("No additional memory context provided.") }}'
QUESTION = "Where does Ana work?"


def memories() -> list[dict[str, Any]]:
    """A fact for vectors and graph, and what was said a minute ago, for the timeline too."""
    now = datetime.now(UTC)
    old, fresh = (now - timedelta(days=40)).isoformat(), (now - timedelta(minutes=1)).isoformat()
    return [
        {"id": "fact", "text": "Ana works at Fjord Labs.", "speaker": "Bo", "occurred_at": old},
        {"id": "fresh", "text": "Ana works late tonight.", "speaker": "Bo", "occurred_at": fresh},
        {"id": "other", "text": "The kettle is blue.", "speaker": "Bo", "occurred_at": old},
    ]


async def step_context(client: RecallClient) -> dict[str, Any]:
    """What an executor's step has after its one call: the whole bundle, as its prompt reads it."""
    reply = await client.recall(
        QUESTION, profile="deep.graph.v1", verb="reflect", session_id="s-7", node_id="athena"
    )
    return {"memory_bundle": reply.bundle.model_dump(mode="json", by_alias=True, exclude_unset=True)}


async def decided(database: str) -> list[tuple[Any, ...]]:
    """What Postgres holds of every decision."""
    connection = await open_connection(database, name="test", statement_timeout_ms=10_000)
    try:
        found = await connection.fetch(
            "SELECT verb, session_id, node_id, profile, selected_ids FROM recall_decisions"
        )
    finally:
        await connection.close()
    return [tuple(row) for row in found]


async def test_three_stores_make_one_bundle_for_the_prompt_and_its_decision_is_kept(
    service_engines: EmbeddedEngines, database: str, tmp_path: Path, prefix: str
) -> None:
    settings = Settings.read(
        redis_url=service_engines.redis_url, postgres_dsn=database, data_dir=tmp_path / "data", prefix=prefix,
        reply_ttl_s=60, deadline_ms=20_000, profiles_dir=patient_profiles(tmp_path),
    )  # fmt: skip
    async with started_with_client(settings) as (service, client):
        receipt = await client.store(memories())
        await caught_up(service, receipt.position or 0)
        context = await step_context(client)
        await all_persisted(service)
    bundle = context["memory_bundle"]
    counts = bundle["stats"]["backend_counts"]
    assert {name for name, count in counts.items() if count > 0} >= {"vector", "rdf", "sql_timeline"}
    assert {item["id"] for item in bundle["items"]} >= {"fact", "fresh"}
    prompt = Environment(autoescape=False).from_string(PROMPT).render(context)
    assert prompt == bundle["rendered"]
    assert "Fjord Labs" in prompt
    assert all(line.startswith("- ") for line in prompt.split("\n"))
    assert await decided(database) == [
        ("reflect", "s-7", "athena", "deep.graph.v1", [item["id"] for item in bundle["items"]])
    ]


async def test_without_postgres_a_query_is_answered_and_its_decision_goes_to_the_bus_alone(
    service_engines: EmbeddedEngines, database: str, tmp_path: Path, prefix: str
) -> None:
    with_record = Settings.read(
        redis_url=service_engines.redis_url, postgres_dsn=database, data_dir=tmp_path / "data", prefix=prefix,
        reply_ttl_s=60, deadline_ms=20_000, profiles_dir=patient_profiles(tmp_path),
    )  # fmt: skip
    async with started_with_client(with_record) as (service, client):
        receipt = await client.store(memories())
        await caught_up(service, receipt.position or 0)
    alone = with_record.changed(postgres_dsn=None)
    async with started_with_client(alone) as (service, client):
        bundle = (await step_context(client))["memory_bundle"]
    assert "fact" in {item["id"] for item in bundle["items"]}
    assert "sql_timeline" not in bundle["stats"]["backend_counts"]
    async with connect(alone.bus_url or "") as redis:
        (entry,) = await rows(redis, alone.decision_stream)
    decision = json.loads(entry[1][b"envelope"])["payload"]
    assert (decision["outcome"], decision["selected_ids"]) == ("ok", [item["id"] for item in bundle["items"]])
    assert await decided(database) == []
