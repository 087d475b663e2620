"""The candidates of a recall in the decision log: through bus and sink, in their view, and after a forgetting."""

from __future__ import annotations

import json
from typing import Any

import pytest
from decision_samples import INSERT, decision
from executor import until
from serving import caught_up

from orion_recall.client import RecallClient
from orion_recall.contracts import RecallDecisionV1
from orion_recall.decisions.log import DecisionLog
from orion_recall.decisions.removal import DecisionsWanted, blank_decisions, count_decisions
from orion_recall.postgres.pool import Connection, open_connection, open_pool
from orion_recall.serving.service import Service

MEMORIES = [
    {"id": "crane-1", "text": "The harbour crane needs a new gearbox by Friday.", "speaker": "Bo"},
    {"id": "crane-2", "text": "The harbour crane needs a new gearbox by friday!", "speaker": "Bo"},
    {"id": "boat-1", "text": "Bo sold the old sailing boat to a dentist.", "speaker": "Bo"},
    {"id": "crane-3", "text": "The crane is painted yellow.", "speaker": "Ana"},
]


async def test_a_recall_with_a_trace_leaves_its_candidates_in_the_view(
    service: Service, client: RecallClient, tenant: str, service_database: Connection
) -> None:
    receipt = await client.store([{**one, "tenant": tenant} for one in MEMORIES])
    await caught_up(service, receipt.position or 0)
    options = {"tenant": tenant, "k": 1, "include": {"trace": True}}
    reply = await client.recall("What does the harbour crane need?", options=options)
    plain = await client.recall("What does the harbour crane need?", options={"tenant": tenant, "k": 1})
    asked, other = (one.bundle.stats.decision_id for one in (reply, plain))

    async def persisted() -> bool:
        found = "SELECT count(*) FROM recall_decisions WHERE id::text = ANY($1)"
        return await service_database.fetchval(found, [asked, other]) == 2

    await until(persisted, "both decisions")
    rows: list[Any] = await service_database.fetch(
        "SELECT * FROM recall_candidates WHERE decision_id::text = ANY($1) ORDER BY number", [asked, other]
    )
    assert {str(row["decision_id"]) for row in rows} == {asked}, "the other one keeps none"
    (item,) = reply.bundle.items
    first = rows[0]
    assert (first["memory_id"], first["place"], first["kept"], first["dropped"]) == (item.id, 1, True, None)
    assert (first["score"], json.loads(first["ranks"]), first["tenant"]) == (item.score, item.ranks, tenant)
    parts, weights = json.loads(first["parts"]), json.loads(first["weights"])
    mean = sum(value * weights[name] for name, value in parts.items()) / sum(weights.values())
    assert mean == pytest.approx(item.score, abs=1e-5)
    why = {row["memory_id"]: (row["dropped"], row["dropped_for"]) for row in rows}
    (repeated,) = {"crane-1", "crane-2"} - {item.id}
    assert why[repeated] == ("near_duplicate", item.id)
    assert why["boat-1"] == ("max_total_items", None)


def _kept(*candidates: dict[str, Any]) -> dict[str, Any]:
    made = [{"source": "vector", "ranks": {"vector": 1}, "fused": 0.5, **one} for one in candidates]
    return decision(candidates=made, selected_ids=["m1"])


async def test_a_forgotten_memory_goes_from_the_candidates_and_their_figures_stay(database: str) -> None:
    import_of = RecallDecisionV1.model_validate
    with_it = _kept({"id": "m1", "kept": True}, {"id": "m7", "dropped": "near_duplicate", "dropped_for": "m1"})
    for_it = _kept({"id": "m1", "kept": True}, {"id": "m8", "dropped": "near_duplicate", "dropped_for": "m7"})
    without = decision()
    connection = await open_connection(database, name="test", statement_timeout_ms=5000)
    pool = await open_pool(database, name="test", max_size=1)
    try:
        envelopes = [
            ('{"payload": ' + import_of(one).model_dump_json() + "}").encode() for one in (with_it, for_it, without)
        ]
        await connection.execute(INSERT, envelopes)
        wanted = DecisionsWanted(tenant="default", ids=("m7",))
        assert await count_decisions(connection, wanted) == 2
        assert [await blank_decisions(connection, wanted) for _ in range(2)] == [2, 0]
        log = DecisionLog(pool)
        found = [(await log.get(one["id"]))[0] for one in (with_it, for_it, without)]
        assert [[(each.id, each.dropped_for) for each in one.candidates or ()] for one in found] == [
            [("m1", None)],
            [("m1", None), ("m8", None)],
            [],
        ]
        assert [one.query for one in found] == ["what do we remember?"] * 3, "it was not shown: words stay"
        await blank_decisions(connection, DecisionsWanted(tenant="default", ids=("m1",)))
        (left,) = await log.get(with_it["id"])
        assert (left.candidates, left.query) == ([], "")
        assert [one.candidates for one in (await log.latest())[0]] == [None] * 3, "a list does without them"
    finally:
        await connection.close()
        await pool.close()
