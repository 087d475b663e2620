"""Example messages, as they stand in the field `envelope` of a stream entry."""

from __future__ import annotations

from typing import Any

from orion_recall.contracts import (
    DECISION_KIND,
    DELETE_KIND,
    FEEDBACK_KIND,
    FEEDBACK_RECEIPT_KIND,
    QUERY_ALIASES,
    QUERY_KIND,
    RECEIPT_KIND,
    REPLY_KIND,
    STORE_KIND,
    UPDATE_KIND,
)

Json = dict[str, Any]

_EXECUTOR: Json = {"name": "cortex-exec", "node": "athena", "version": "1.4.0", "instance": "cortex-exec-1"}
_SERVICE: Json = {"name": "orion-recall", "node": "athena", "instance": "athena-4711"}
_ASKED, _ANSWERED = "2026-03-02T08:15:30.250000+00:00", "2026-03-02T08:15:30.291000+00:00"
_CORRELATION_ID = "0c1f8e5a-63c2-4f0b-a1de-2f9d4c7b8e10"
_DECISION_ID = "b0c7a3b4-4f0e-4d54-8a39-6a2f5a3c9d11"
_FRAGMENT = "What keeps the harbour crane from running?"
_REPLY_TO = "recall.reply.v1:5f0f6c1e0a2b4c7d8e9f00112233aabb"

_QUERY: Json = {
    "fragment": _FRAGMENT,
    "verb": "reflect",
    "intent": "plan the day's repairs",
    "session_id": "shift-2026-03-02",
    "node_id": "athena",
    "profile": "reflect.v1",
    "reply_to": _REPLY_TO,
}
_OPTIONS: Json = {
    "tenant": "default",
    "scope": "global",
    "k": 8,
    "budget": "mid",
    "max_tokens": 200,
    "kinds": ["experience", "world"],
    "tags": ["harbour"],
    "since": "2026-02-01T00:00:00Z",
    "as_of": "2026-03-02T09:15:30+01:00",
    "exclude": ["mem-03"],
    "include": {"trace": False},
}
# What newer executors send besides; an empty text says that there is none.
_HINTS: Json = {
    "session_id": "",
    "lane": "chat",
    "exclude": {"active_turn_ids": ["mem-40"], "active_turn_text": _FRAGMENT, "active_turn_ts": 1772439330.0},
}
_ITEM: Json = {
    "id": "mem-17",
    "source": "lexical",
    "source_ref": "index",
    "uri": None,
    "score": 0.963431,
    "ts": 1772355600.0,
    "title": None,
    "snippet": "Bo: The harbour crane needs a new gearbox by Friday.",
    "tags": ["harbour"],
}
_COUNTS = {"vector": 1, "lexical": 1, "rdf": 0, "sql_timeline": 0}
_V1_STATS: Json = {"backend_counts": _COUNTS, "latency_ms": 38, "profile": "reflect.v1"}
_BUNDLE: Json = {
    "rendered": f"- [2026-03-01 lexical mem-17] {_ITEM['snippet']}",
    "items": [_ITEM],
    "stats": _V1_STATS,
}
_PARTS: Json = {"parts": {"fusion": 1.0, "recency": 0.890899}, "ranks": {"vector": 2, "lexical": 1}}
_SOURCES: Json = {
    "vector": {"status": "ok", "count": 1, "ms": 9.214, "error": None},
    "lexical": {"status": "ok", "count": 1, "ms": 1.022, "error": None},
}
_DECISION: Json = {
    "id": _DECISION_ID,
    "corr_id": _CORRELATION_ID,
    "session_id": _QUERY["session_id"],
    "node_id": "athena",
    "verb": "reflect",
    "profile": "reflect.v1",
    "query": _FRAGMENT,
    "selected_ids": ["mem-17"],
    "backend_counts": _COUNTS,
    "latency_ms": 38,
    "dropped": {"near_duplicate": 1},
    "created_at": _ANSWERED,
    "outcome": "ok",
    "tenant": "default",
    "scope": "global",
    "sources": _SOURCES,
    "selected": [{"id": "mem-17", "source": "lexical", "score": _ITEM["score"], **_PARTS}],
    "stage_ms": {"understand": 0.4, "search": 30.1, "fuse": 0.2, "rank": 0.6, "total": 38.214},
    "entry_id": "1772439330251-0",
    "worker": "athena-4711",
}
_MEMORY: Json = {
    "id": "mem-17",
    "text": "The harbour crane needs a new gearbox by Friday.",
    "speaker": "Bo",
    "session_id": "shift-2026-03-01",
    "occurred_at": "2026-03-01T09:00:00Z",
    "tags": ["harbour"],
    "metadata": {"channel": "radio"},
}
_CONFLICT = "the id holds other content: update it (memory.update.v1), or take another id"
_RESULTS = [{"id": "mem-17", "status": "stored"}, {"id": "mem-03", "status": "conflict", "reason": _CONFLICT}]
_RECEIPT: Json = {"stored": 1, "unchanged": 0, "conflict": 1, "rejected": 0, "position": 5, "results": _RESULTS}
_PATCH: Json = {"id": "mem-17", "expected_version": 1, "text": "The crane needs a new gearbox by Monday."}
_WHERE: Json = {"session_id": "shift-2026-02-01", "until": "2026-02-02T00:00:00Z"}


def examples() -> dict[str, Json]:
    """The messages by file name."""
    item = _ITEM | {"kind": "experience", "speaker": "Bo", "score_parts": _PARTS["parts"], "ranks": _PARTS["ranks"]}
    stats: Json = {"latency_ms": 38.214, "outcome": "ok", "decision_id": _DECISION_ID, "tokens": 58}
    stats |= {"dropped": {"near_duplicate": 1}, "sources": _SOURCES, "unsure": False, "probability": 0.94}
    extended = _BUNDLE | {"items": [item], "stats": _V1_STATS | stats}
    empty: Json = {"rendered": "", "items": [], "stats": _V1_STATS}
    invalid: Json = {"bundle": empty | {"stats": _V1_STATS | {"latency_ms": 0.412, "outcome": "invalid"}}}
    invalid["error"] = {"type": "invalid", "message": "payload.fragment: Input should be a valid string (got 7)"}
    feedback = {"decision_id": _DECISION_ID, "used": ["mem-17"], "wrong": ["mem-21"], "note": "ordered twice"}
    return {
        "query": _request(QUERY_KIND, _QUERY),
        "query_with_options": _request(QUERY_KIND, _QUERY | {"options": _OPTIONS}),
        "query_with_short_names": {
            "corr_id": _CORRELATION_ID,
            "event": QUERY_KIND,
            "service": "cortex-exec",
            "ts": 1772439330.25,
            "payload": {"fragment": _FRAGMENT},
        },
        "query_of_newer_executors": _request(QUERY_ALIASES[0], _QUERY | _HINTS),
        "reply": _answer(REPLY_KIND, {"bundle": _BUNDLE}),
        "reply_with_options": _answer(REPLY_KIND, {"bundle": extended}),
        "reply_empty": _answer(REPLY_KIND, {"bundle": empty}),
        "reply_error": _answer(REPLY_KIND, invalid),
        "decision": _answer(DECISION_KIND, _DECISION),
        "store": _request(STORE_KIND, {"memories": [_MEMORY]}),
        "receipt": _answer(RECEIPT_KIND, _RECEIPT, to=STORE_KIND),
        "update": _request(UPDATE_KIND, {"memories": [_PATCH], "idempotency_key": "shift-7/1", "actor": "bo"}),
        "delete": _request(DELETE_KIND, {"where": _WHERE, "expected_count": 2, "reason": "an old shift"}),
        "feedback": _request(FEEDBACK_KIND, feedback),
        "feedback_receipt": _answer(FEEDBACK_RECEIPT_KIND, {"recorded": True}, to=FEEDBACK_KIND),
    }


def _request(kind: str, payload: Json) -> Json:
    """A message of the executor."""
    told = _envelope(kind, payload, "7d0c2f2e-5a43-4a55-9a60-0f6f3a0b7a01", _EXECUTOR, _ASKED)
    return told | {"ttl_ms": 2000, "reply_to": _REPLY_TO}


def _answer(kind: str, payload: Json, *, to: str = QUERY_KIND) -> Json:
    """A message of the service that follows from one of the kind `to`."""
    told = _envelope(kind, payload, "e2a5b7d0-9c1f-4a3e-8b56-1d2c3b4a5f02", _SERVICE, _ANSWERED)
    link = {"correlation_id": _CORRELATION_ID, "kind": to, "source": _EXECUTOR, "created_at": _ASKED}
    return told | {"causality_chain": [link]}


def _envelope(kind: str, payload: Json, message_id: str, source: Json, at: str) -> Json:
    return {
        "schema": "orion.envelope",
        "schema_version": "2.0.0",
        "id": message_id,
        "correlation_id": _CORRELATION_ID,
        "kind": kind,
        "source": source,
        "created_at": at,
        "ttl_ms": None,
        "reply_to": None,
        "trace": {"traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"},
        "causality_chain": [],
        "payload": payload,
    }
