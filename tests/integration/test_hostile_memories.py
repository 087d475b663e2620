"""Names that are code somewhere are kept as they are, found by themselves alone, and reach no other tenant."""

from __future__ import annotations

from typing import Any

from serving import caught_up

from orion_recall.client import RecallClient
from orion_recall.postgres.pool import Connection
from orion_recall.serving.service import Service

NAMES = (
    "\"; DROP TABLE memories; --",
    "' OR '1'='1",
    "http://example.org/x> . } ; DROP ALL ; INSERT {",
    "urn:orion:tenant:default",
    ")-[:X]->(b) RETURN b//",
    "{a:Person {name:'x'}}",
    "back\\slash\\",
    "new\nline\r\nhere",
    "</script><script>alert(1)</script>",
    "\u202egnp.exe",
    "[[m-0]]",
    "a\x1fb",
    "--help",
)  # fmt: skip
FIELDS = ("speaker", "session_id", "title", "uri", "source", "user_id", "agent_id", "run_id", "node_id")


async def test_hostile_names_are_only_names(
    client: RecallClient, service: Service, tenant: str, service_database: Connection
) -> None:
    def memory(number: int, name: str, whose: str) -> dict[str, Any]:
        fields = dict.fromkeys(FIELDS, name) | {"tags": [name], "entities": [name], "metadata": {name: name}}
        return {"id": f"m-{number}", "text": f"{name} works at Fjord Labs.", "tenant": whose} | fields

    # What would end a name of a tenant elsewhere is one here, too.
    tenants = (tenant, "tenant> { } ; DROP ALL #")
    for whose in tenants:
        receipt = await client.store([memory(number, name, whose) for number, name in enumerate(NAMES)])
        assert (receipt.stored, receipt.rejected) == (len(NAMES), 0), receipt
        await caught_up(service, receipt.position or 0)
    for number, name in enumerate(NAMES):
        for where in ({"speaker": name}, {"session_id": name}, {"tags": [name]}, {"entities": [name]}):
            looked = await client.delete(where=where, tenant=tenant)
            assert [one.id for one in looked.results] == [f"m-{number}"], where
        reply = await client.recall(f"Where does {name} work?", options={"tenant": tenant})
        assert f"m-{number}" in [item.id for item in reply.bundle.items], name
    changed = await client.update([{"id": "m-0", "speaker": NAMES[1], "tags": [NAMES[2]]}], tenant=tenant)
    gone = await client.delete([f"m-{number}" for number in range(1, len(NAMES))], tenant=tenant)
    assert (changed.updated, gone.deleted, gone.pending) == (1, len(NAMES) - 1, False)
    rows = await service_database.fetch(
        "SELECT tenant, count(*) AS count FROM memories WHERE live AND tenant = ANY($1::text[]) GROUP BY tenant",
        list(tenants),
    )
    assert {row["tenant"]: row["count"] for row in rows} == {tenants[0]: 1, tenants[1]: len(NAMES)}
    for number, name in enumerate(NAMES):
        reply = await client.recall(f"Where does {name} work?", options={"tenant": tenants[1]})
        assert f"m-{number}" in [item.id for item in reply.bundle.items], name
