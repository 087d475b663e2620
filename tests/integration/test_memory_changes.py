"""`memory.update.v1`, `memory.delete.v1` and `recall.feedback.v1`: receipts, and nothing old found again."""

from __future__ import annotations

import json
from typing import Any
from uuid import uuid4

import pytest
from executor import Executor, rows, until
from serving import caught_up

from orion_recall.client import RecallClient
from orion_recall.contracts import MemoryReceiptV1, RecallReplyV1
from orion_recall.errors import InvalidMessage
from orion_recall.postgres.pool import Connection
from orion_recall.serving.service import Service

PROFILES = ("assist.light.v1", "reflect.v1", "deep.graph.v1")


def memory(name: str, text: str, **fields: Any) -> dict[str, Any]:
    return {"id": name, "text": text} | fields


async def stored(client: RecallClient, service: Service, tenant: str, *memories: dict[str, Any]) -> None:
    receipt = await client.store([one | {"tenant": tenant} for one in memories])
    assert receipt.stored == len(memories), receipt
    await caught_up(service, receipt.position or 0)


async def said(client: RecallClient, tenant: str, question: str) -> dict[str, RecallReplyV1]:
    """The answers under every profile."""
    options = {"tenant": tenant, "include": {"chunks": True, "entities": True}}
    return {name: await client.recall(question, profile=name, options=options) for name in PROFILES}


def statuses(receipt: MemoryReceiptV1) -> list[tuple[str | None, str]]:
    return [(one.id, one.status) for one in receipt.results]


async def test_an_updated_memory_is_found_by_what_it_says_now_and_nowhere_by_what_it_said(
    client: RecallClient, service: Service, tenant: str
) -> None:
    at = "2026-11-21T10:00:00Z"
    await stored(
        client, service, tenant, memory("m-1", "Quentin works at Zephyr Labs.", speaker="Ana", occurred_at=at)
    )
    receipt = await client.update(
        [{"id": "m-1", "text": "Rosalind works at Umbra Works."}], tenant=tenant, actor="bo"
    )
    assert (statuses(receipt), receipt.updated, receipt.pending) == ([("m-1", "updated")], 1, False)
    for name, reply in (await said(client, tenant, "Who works at Umbra Works?")).items():
        assert [item.id for item in reply.bundle.items] == ["m-1"], name
        assert "Rosalind" in reply.bundle.rendered
    for name, reply in (await said(client, tenant, "Where does Quentin work? At Zephyr Labs?")).items():
        assert "Quentin" not in reply.model_dump_json().replace("Where does Quentin", ""), name
        assert "Zephyr" not in reply.bundle.rendered


async def test_a_deleted_memory_is_found_by_nobody_once_its_receipt_is_there(
    client: RecallClient, service: Service, tenant: str, service_database: Connection
) -> None:
    at = "2026-11-21T10:00:00Z"
    await stored(
        client,
        service,
        tenant,
        memory("m-1", "Bo works at Zephyr Labs.", speaker="Bo", session_id="s", occurred_at=at),
        memory("m-2", "The kettle at the lab is blue.", speaker="Ana", session_id="s", occurred_at=at),
    )
    assert "m-1" in str(await said(client, tenant, "Where does Bo work?"))
    receipt = await client.delete(["m-1", "m-404"], tenant=tenant, actor="bo", reason="wrong", erase=True)
    assert statuses(receipt) == [("m-1", "deleted"), ("m-404", "missing")]
    assert (receipt.deleted, receipt.missing, receipt.pending) == (1, 1, False)
    for name, reply in (await said(client, tenant, "Where does Bo work? At Zephyr Labs?")).items():
        assert "m-1" not in [item.id for item in reply.bundle.items], name
        assert "Zephyr" not in reply.bundle.rendered
    kept = await service_database.fetch(
        "SELECT m::text || h::text AS all FROM memories m JOIN memory_history h ON h.memory_id = m.id "
        "AND h.tenant = m.tenant WHERE m.tenant = $1 AND m.id = 'm-1'",
        tenant,
    )
    assert kept
    assert not any("Zephyr" in row["all"] for row in kept)
    again = await client.store([memory("m-1", "Bo works at Zephyr Labs.", tenant=tenant)])
    assert again.conflict == 1


async def test_a_query_says_first_how_many_and_is_carried_out_when_that_is_still_so(
    client: RecallClient, service: Service, tenant: str
) -> None:
    kettles = [
        memory(f"k-{n}", f"Kettle number {n} is blue.", tags=["kitchen"], session_id="s-1") for n in range(5)
    ]
    await stored(client, service, tenant, *kettles, memory("other", "The blue boat sails.", tags=["harbour"]))
    where = {"text": "blue kettles", "tags": ["kitchen", "bath"], "session_id": "s-1"}
    looked = await client.update(where=where, set={"speaker": "Ana"}, tenant=tenant)
    assert (looked.matched, looked.updated, looked.pending) == (5, 0, None)
    assert statuses(looked) == [(f"k-{n}", "matched") for n in range(5)]
    wrong = await client.update(where=where, set={"speaker": "Ana"}, tenant=tenant, expected_count=4)
    assert wrong.error is not None
    assert (wrong.error.type, wrong.matched, wrong.updated) == ("refused", 5, 0)
    assert "5 memories match now, not 4" in wrong.error.message
    done = await client.update(where=where, set={"speaker": "Ana"}, tenant=tenant, expected_count=5)
    assert (done.matched, done.updated, done.pending) == (5, 5, False)
    gone = await client.delete(where={"speaker": "Ana", "kinds": ["experience"]}, tenant=tenant, expected_count=5)
    assert (gone.deleted, gone.pending) == (5, False)
    left = await client.delete(where={"text": "blue"}, tenant=tenant)
    assert statuses(left) == [("other", "matched")]


async def test_a_query_that_matches_too_many_is_refused(
    client: RecallClient, service: Service, tenant: str
) -> None:
    cap = service.settings.where_cap
    for first in range(0, cap + 1, 500):
        some = [memory(f"m-{n}", "Fog.", tenant=tenant) for n in range(first, min(first + 500, cap + 1))]
        assert (await client.store(some)).stored == len(some)
    receipt = await client.delete(where={"text": "fog"}, tenant=tenant, expected_count=cap + 1)
    assert receipt.error is not None
    assert (receipt.error.type, receipt.matched, receipt.deleted) == ("refused", cap + 1, 0)
    assert str(cap) in receipt.error.message
    looked = await client.delete(where={"text": "fog"}, tenant=tenant)
    assert looked.error is not None, "nobody is asked about what would be refused"
    assert (looked.error.type, looked.matched) == ("refused", cap + 1)


async def test_a_request_under_its_key_is_done_once_and_another_under_that_key_is_refused(
    client: RecallClient, service: Service, tenant: str, service_database: Connection
) -> None:
    await stored(client, service, tenant, memory("m-1", "The kettle is blue."))
    red = {"id": "m-1", "text": "The kettle is red.", "expected_version": 1}
    first = await client.update([red], tenant=tenant, idempotency_key="k")
    again = await client.update([red], tenant=tenant, idempotency_key="k")
    assert first == again
    assert first.updated == 1
    other = await client.update([red | {"text": "The kettle is green."}], tenant=tenant, idempotency_key="k")
    deleted = await client.delete(["m-1"], tenant=tenant, idempotency_key="k")
    for refused in (other, deleted):
        assert refused.error is not None
        assert refused.error.type == "refused"
        assert "idempotency_key" in refused.error.message
    steps = await service_database.fetchval("SELECT count(*) FROM memory_history WHERE tenant = $1", tenant)
    assert steps == 2


async def test_an_expired_message_changes_nothing(
    client: RecallClient, service: Service, executor: Executor, tenant: str
) -> None:
    await stored(client, service, tenant, memory("m-1", "The kettle is blue."))
    message = executor.message({"tenant": tenant, "ids": ["m-1"]}, kind="memory.delete.v1", ttl_ms=0)
    await executor.add({"envelope": json.dumps(message)}, stream=service.settings.intake_streams["deletes"])

    async def answered() -> bool:
        return bool(await executor.replies(executor.reply_to))

    await until(answered, "the receipt")
    (receipt,) = await executor.replies(executor.reply_to)
    assert receipt["payload"]["error"]["type"] == "expired"
    assert (await client.delete(where={"text": "kettle"}, tenant=tenant)).matched == 1


INVALID: dict[str, tuple[str, dict[str, Any], str]] = {
    "no ids": ("delete", {}, "either ids or where"),
    "no condition": ("delete", {"where": {}}, "payload.where: give at least one condition"),
    "an unknown kind": ("delete", {"where": {"kinds": ["gossip"]}}, "payload.where.kinds: 'gossip'"),
    "a field that is not there": (
        "update",
        {"where": {"text": "b"}, "set": {"txt": "new"}},
        "payload.set.txt: a memory has no such field; did you mean text?",
    ),
}


@pytest.mark.parametrize("name", INVALID)
async def test_an_invalid_change_is_answered_and_set_aside(
    name: str, executor: Executor, service: Service, tenant: str
) -> None:
    what, payload, says = INVALID[name]
    kind = f"memory.{what}.v1"
    stream = f"{executor.prefix}{kind}"
    message = executor.message(payload | {"tenant": tenant}, kind=kind)
    entry_id = await executor.add({"envelope": json.dumps(message)}, stream=stream)

    async def answered() -> bool:
        return not await executor.redis.xrange(stream, entry_id, entry_id)

    await until(answered, "an answer")
    (receipt,) = await executor.replies(executor.reply_to)
    assert receipt["kind"] == "memory.receipt.v1"
    assert receipt["payload"]["error"]["type"] == "invalid"
    assert says in receipt["payload"]["error"]["message"]
    letters = [fields for _, fields in await rows(executor.redis, f"{stream}:dead", entry_id)]
    assert [one[b"entry_id"].decode() for one in letters] == [entry_id]


async def test_a_tenant_that_is_not_served_is_refused(client: RecallClient) -> None:
    for receipt in (
        await client.update([{"id": "a", "title": "x"}], tenant="elsewhere"),
        await client.delete(["a"], tenant="elsewhere"),
        await client.feedback(decision_id="d", used=["a"], tenant="elsewhere"),
    ):
        assert receipt.error is not None
        assert receipt.error.type == "refused"


async def test_feedback_about_a_decision_that_is_unknown_or_anothers_is_refused(
    client: RecallClient, tenant: str, service_database: Connection
) -> None:
    asked = await client.recall("Who feeds the gulls?", options={"tenant": tenant}, correlation_id="f-1")
    decision = asked.bundle.stats.decision_id
    assert (await client.feedback(decision_id=decision, used=["m-1"], tenant=tenant)).recorded
    for about in (
        {"decision_id": decision},  # of another tenant
        {"correlation_id": "f-1"},
        {"decision_id": str(uuid4()), "tenant": tenant},
        {"decision_id": "no uuid", "tenant": tenant},
        {"correlation_id": "f-2", "tenant": tenant},
    ):
        receipt = await client.feedback(used=["m-1"], **about)  # pyright: ignore[reportArgumentType]
        assert receipt.error is not None, about
        assert (receipt.recorded, receipt.error.type) == (False, "refused")
        assert "has no decision with this id" in (receipt.error.message or "")
    kept = await service_database.fetchval("SELECT count(*) FROM recall_feedback WHERE corr_id LIKE 'f-%'")
    others = await service_database.fetchval(
        "SELECT count(*) FROM recall_feedback WHERE decision_id = $1", decision
    )
    assert (kept, others) == (0, 1)


async def test_feedback_is_kept_once(
    client: RecallClient, service: Service, executor: Executor, tenant: str, service_database: Connection
) -> None:
    decision = (await client.recall("Who feeds the gulls?", options={"tenant": tenant})).bundle.stats.decision_id
    receipt = await client.feedback(
        decision_id=decision, correlation_id="c-1", tenant=tenant, used=["m-1"], wrong=["m-2"], note="n", actor="bo"
    )
    assert receipt.recorded
    (row,) = await service_database.fetch("SELECT * FROM recall_feedback WHERE decision_id = $1", decision)
    assert (row["tenant"], row["corr_id"], row["used"], row["wrong"], row["note"], row["actor"]) == (
        tenant, "c-1", ["m-1"], ["m-2"], "n", "bo",
    )  # fmt: skip
    with pytest.raises(InvalidMessage, match="decision_id or correlation_id"):
        await client.feedback(used=["m-1"])


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
    def named(number: int, name: str, whose: str) -> dict[str, Any]:
        fields = dict.fromkeys(FIELDS, name) | {"tags": [name], "entities": [name], "metadata": {name: name}}
        return {"id": f"m-{number}", "text": f"{name} works at Fjord Labs.", "tenant": whose} | fields

    # What would end a name of a tenant elsewhere is one here, too.
    tenants = (tenant, "tenant> { } ; DROP ALL #")
    for whose in tenants:
        receipt = await client.store([named(number, name, whose) for number, name in enumerate(NAMES)])
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
