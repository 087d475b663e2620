"""Example envelopes: the requests of one executor, and the service's replies."""

from __future__ import annotations

from typing import Any

from orion_recall.contracts import QUERY_KIND

Json = dict[str, Any]

EXECUTOR: Json = {"name": "cortex-exec", "node": "athena", "version": "1.4.0", "instance": "cortex-exec-1"}
SERVICE: Json = {"name": "orion-recall", "node": "athena", "instance": "athena-4711"}
TRACE: Json = {"traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}
ASKED = "2026-03-02T08:15:30.250000+00:00"
ANSWERED = "2026-03-02T08:15:30.291000+00:00"
CORRELATION_ID = "0c1f8e5a-63c2-4f0b-a1de-2f9d4c7b8e10"
QUERY_ID = "7d0c2f2e-5a43-4a55-9a60-0f6f3a0b7a01"
REPLY_TO = "recall.reply.v1:5f0f6c1e0a2b4c7d8e9f00112233aabb"
FRAGMENT = "What keeps the harbour crane from running?"
DECISION_ID = "b0c7a3b4-4f0e-4d54-8a39-6a2f5a3c9d11"


def request(kind: str, payload: Json) -> Json:
    """A message of the executor."""
    return _envelope(kind, payload, EXECUTOR, QUERY_ID, ASKED) | {"ttl_ms": 2000, "reply_to": REPLY_TO}


def answer(kind: str, payload: Json, *, answers: str = QUERY_KIND) -> Json:
    """A message of the service that follows from one of the kind `answers`."""
    told = _envelope(kind, payload, SERVICE, "e2a5b7d0-9c1f-4a3e-8b56-1d2c3b4a5f02", ANSWERED)
    link = {"correlation_id": CORRELATION_ID, "kind": answers, "source": EXECUTOR, "created_at": ASKED}
    return told | {"causality_chain": [link]}


def _envelope(kind: str, payload: Json, source: Json, message_id: str, at: str) -> Json:
    return {
        "schema": "orion.envelope",
        "schema_version": "2.0.0",
        "id": message_id,
        "correlation_id": CORRELATION_ID,
        "kind": kind,
        "source": source,
        "created_at": at,
        "ttl_ms": None,
        "reply_to": None,
        "trace": TRACE,
        "causality_chain": [],
        "payload": payload,
    }
