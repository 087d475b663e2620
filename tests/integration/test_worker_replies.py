"""What an executor gets back, by which names and by which way."""

from __future__ import annotations

import json
import re
from typing import Any
from uuid import UUID, uuid4

import pytest
from executor import Executor

from orion_recall.serving.service import Service

QUESTION = {"fragment": "Where does Ana work?"}
SEVEN: dict[str, Any] = QUESTION | {
    "verb": "reflect",
    "intent": "her employer",
    "session_id": "s-ana",
    "node_id": "athena",
    "profile": "reflect.v1",
}
NO_OPTIONS: dict[str, Any] = {"options": {}}
ITEM = {"id", "source", "source_ref", "uri", "score", "ts", "title", "snippet", "tags"}
STATS = {"backend_counts", "latency_ms", "profile"}
ENVELOPE = {
    "schema", "schema_version", "id", "correlation_id", "kind", "source", "created_at", "ttl_ms", "reply_to",
    "trace", "causality_chain", "payload",
}  # fmt: skip


async def test_a_query_with_the_seven_fields_gets_the_founding_documents_fields_only(executor: Executor) -> None:
    payload = await executor.answer(SEVEN | {"reply_to": executor.reply_to}, reply_to=None)
    assert set(payload) == {"bundle"}
    bundle = payload["bundle"]
    assert set(bundle) == {"rendered", "items", "stats"}
    assert set(bundle["stats"]) == STATS
    assert bundle["items"]
    assert all(set(item) == ITEM for item in bundle["items"])
    assert "Fjord Labs" in bundle["rendered"]
    assert bundle["stats"]["backend_counts"].keys() == {"vector", "lexical", "rdf", "sql_timeline"}
    assert {item["source"] for item in bundle["items"]} <= bundle["stats"]["backend_counts"].keys()


async def test_a_query_with_options_gets_the_further_fields_and_each_part_only_when_it_is_asked_for(
    executor: Executor,
) -> None:
    plain = (await executor.answer(SEVEN | NO_OPTIONS))["bundle"]
    assert set(plain["stats"]) == STATS | {
        "outcome",
        "decision_id",
        "tokens",
        "dropped",
        "sources",
        "confidence",
        "probability",
        "unsure",
    }
    further = ITEM | {"kind", "speaker", "session_id", "score_parts", "ranks", "confidence"}
    assert all(set(item) == further for item in plain["items"])

    include = {"trace": True, "entities": True, "chunks": True}
    whole = (await executor.answer(SEVEN | {"options": {"include": include}}))["bundle"]
    assert set(whole["stats"]) == set(plain["stats"]) | {"trace"}
    assert all(set(item) == further | {"entities", "chunk"} for item in whole["items"])


async def test_a_reply_names_its_decision_and_the_decision_names_its_memories(executor: Executor) -> None:
    ended = await executor.ended(await executor.ask(SEVEN | {"options": {"k": 2}}))
    bundle = ended.own[0]["payload"]["bundle"]
    decision = ended.decision
    assert bundle["stats"]["decision_id"] == decision["id"]
    assert [item["id"] for item in bundle["items"]] == decision["selected_ids"]
    assert [item["id"] for item in decision["selected"]] == decision["selected_ids"]
    assert len(decision["selected_ids"]) == 2
    assert decision["dropped"] == bundle["stats"]["dropped"]
    for name in ("session_id", "node_id", "verb", "intent"):
        assert decision[name] == SEVEN[name]


SHAPES: dict[str, dict[str, Any]] = {
    "long names": {
        "correlation_id": "c-shape",
        "kind": "recall.query.v1",
        "source": {"name": "executor", "node": "athena", "version": "1", "instance": "a"},
        "created_at": "2026-03-01T09:30:00+01:00",
        "reply_to": "OWN",
        "payload": QUESTION,
    },
    "short names": {
        "corr_id": "c-shape",
        "event": "recall.query.v1",
        "service": "executor",
        "ts": 1_772_000_000,
        "reply_to": "OWN",
        "payload": QUESTION,
    },
    "a naive time, and the address in the payload": {
        "correlation_id": "c-shape",
        "created_at": "2026-03-01T09:30:00",
        "payload": QUESTION | {"reply_to": "OWN"},
    },
    "the message's id for a correlation id": {"id": "c-shape", "reply_to": "OWN", "payload": QUESTION},
    "next to nothing": {"correlation_id": "c-shape", "reply_to": "OWN", "payload": QUESTION},
    "the address in the envelope before the payload's": {
        "correlation_id": "c-shape",
        "reply_to": "OWN",
        "payload": QUESTION | {"reply_to": "orion-exec:result:not-here"},
    },
}


@pytest.mark.parametrize("field", ["envelope", "data"])
@pytest.mark.parametrize("name", SHAPES)
async def test_an_envelope_may_have_short_or_long_names_and_the_reply_has_long_ones(
    name: str, field: str, executor: Executor, service: Service
) -> None:
    message = json.dumps(SHAPES[name]).replace('"OWN"', json.dumps(executor.reply_to))
    ended = await executor.ended(await executor.add({field: message}))
    assert ended.decision["outcome"] == "ok"
    assert ended.decision["unknown_fields"] == 0
    (reply,) = ended.own
    assert set(reply) == ENVELOPE
    assert (reply["schema"], reply["schema_version"], reply["kind"]) == (
        "orion.envelope",
        "2.0.0",
        "recall.reply.v1",
    )
    assert reply["correlation_id"] == "c-shape"
    assert reply["source"] == {
        "name": "orion-recall",
        "node": service.settings.node,
        "instance": service.settings.instance,
    }
    assert UUID(reply["id"])


async def test_a_query_without_an_address_is_answered_on_the_shared_stream(executor: Executor) -> None:
    ended = await executor.ended(await executor.ask(QUESTION, reply_to=None))
    assert [reply["payload"]["bundle"]["items"][0]["id"] for reply in ended.shared] == ["m-work"]


async def test_a_reply_stream_expires_when_nobody_deletes_it(executor: Executor, service: Service) -> None:
    await executor.answer(QUESTION)
    assert 0 < await executor.redis.ttl(executor.reply_to) <= service.settings.reply_ttl_s


async def test_a_trace_goes_on_and_the_chain_of_causes_grows(executor: Executor) -> None:
    trace_id, span_id = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
    traceparent = f"00-{trace_id}-{span_id}-01"
    theirs: dict[str, Any] = {"trace_id": "t-7", "work": {"steps": [1]}}
    turn = {
        "correlation_id": str(uuid4()),
        "kind": "cortex.turn",
        "source": {"name": "cortex-orch"},
        "created_at": "2026-03-01T09:30:00Z",
    }
    entry_id = await executor.ask(
        QUESTION,
        correlation_id=str(uuid4()),
        trace=theirs | {"traceparent": traceparent, "tracestate": "mesh=1"},
        causality_chain=["turn-1", turn, {"step": 2}],
    )
    ended = await executor.ended(entry_id)
    (reply,) = ended.own
    continued = re.fullmatch(r"00-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}", reply["trace"]["traceparent"])
    assert continued is not None
    assert continued[1] == trace_id == ended.decision["trace_id"]
    assert continued[2] != span_id
    assert reply["trace"]["tracestate"] == "mesh=1"
    assert reply["trace"].items() >= theirs.items()
    own, added = reply["causality_chain"]
    assert own == turn
    assert (added["correlation_id"], added["kind"]) == (reply["correlation_id"], "recall.query.v1")
    assert ended.decision["unknown_fields"] == 2, "the two steps that are no links"
