"""Decisions for tests, as they lie on the bus."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from importlib.resources import files
from typing import Any
from uuid import uuid4

from redis.asyncio import Redis

from orion_recall.postgres.pool import Pool

INSERT = files("orion_recall.decisions").joinpath("insert.sql").read_text("utf-8")
NOON = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


CASCADE: dict[str, Any] = {
    "primary_layer": "semantic",
    "primary_confidence": 0.4,
    "cascaded_to": [],
    "cascade_confidences": [],
    "final_confidence": 0.4,
    "threshold": 0.5,
    "depth": 0,
    "max_depth": 0,
    "ended": "depth",
    "trigger": "confidence_below_threshold",
    "merge_strategy": None,
    "combined": {"semantic": 2},
    "path": [{"layer": "semantic", "depth": 0, "hits": 2, "confidence": 0.4, "ms": 1.5, "late": []}],
}


def decision(**changes: Any) -> dict[str, Any]:
    """The payload of one decision; `changes` win."""
    return {
        "id": str(uuid4()),
        "corr_id": "c-1",
        "session_id": "s-1",
        "node_id": "athena",
        "verb": "reflect",
        "profile": "reflect.v1",
        "query": "what do we remember?",
        "selected_ids": ["m1", "m2"],
        "backend_counts": {"vector": 5, "rdf": 2},
        "latency_ms": 10.0,
        "dropped": {"near_duplicate": 1},
        "created_at": NOON.isoformat(),
        "outcome": "ok",
        "tenant": "default",
        "scope": "global",
        "profile_fallback": False,
        "sources": {
            "vector": {"status": "ok", "count": 5, "ms": 2.0, "error": None},
            "rdf": {"status": "empty", "count": 0, "ms": 4.0, "error": None},
        },
        "selected": [
            {"id": "m1", "source": "vector", "score": 0.9, "parts": {"dense": 0.8}, "ranks": {"vector": 1}},
            {"id": "m2", "source": "rdf", "score": 0.5, "parts": {"graph": 0.4}, "ranks": {"rdf": 1}},
        ],
        "stage_ms": {"search": 5.0},
        "tokens": 40,
        "query_chars": 20,
        "unknown_fields": 0,
        "deliveries": 1,
        "worker": "w-1",
    } | changes


def envelope(payload: object) -> bytes:
    """A decision's envelope as the entry's field carries it."""
    return json.dumps({"schema": "orion.envelope", "kind": "recall.decision.v1", "payload": payload}).encode()


async def publish(redis: Redis, stream: str, *envelopes: bytes) -> list[str]:
    """Put envelopes on the stream; gives the entry ids."""
    ids: list[Any] = [await redis.xadd(stream, {"envelope": text}) for text in envelopes]
    return [entry_id.decode() for entry_id in ids]


async def insert(pool: Pool, *decisions: dict[str, Any]) -> None:
    """Decisions written to the log, as the sink writes them."""
    await pool.execute(INSERT, [envelope(each) for each in decisions])
