"""Example messages about memories: stores, updates, deletions, feedback, and their receipts."""

from __future__ import annotations

from orion_recall.contracts import (
    DELETE_KIND,
    FEEDBACK_KIND,
    FEEDBACK_RECEIPT_KIND,
    RECEIPT_KIND,
    STORE_KIND,
    UPDATE_KIND,
)
from orion_recall.schemas.example_envelopes import DECISION_ID, Json, answer, request


def memory_examples() -> dict[str, Json]:
    """The messages by file name."""
    return {
        "store": request(STORE_KIND, {"memories": _memories()}),
        "receipt": answer(RECEIPT_KIND, _receipt(), answers=STORE_KIND),
        **_changes(),
    }


def _changes() -> dict[str, Json]:
    """Bo corrects himself, what a shift said goes, and the executor says what was of use."""
    by = {"actor": "bo"}
    where: Json = {"session_id": "shift-2026-02-01", "until": "2026-02-02T00:00:00Z", "tags": ["harbour"]}
    patches: list[Json] = [
        {"id": "mem-17", "expected_version": 1, "text": "The harbour crane needs a new gearbox by Monday."},
        {"id": "mem-03", "title": None, "confidence": 0.9},
    ]
    nothing: Json = {"stored": 0, "unchanged": 0, "conflict": 0, "rejected": 0}
    feedback: Json = {"decision_id": DECISION_ID, "used": ["mem-17"], "wrong": ["mem-21"], "note": "ordered twice"}
    return {
        "update": request(UPDATE_KIND, {"memories": patches, "idempotency_key": "shift-7/1", **by}),
        "update_where": request(UPDATE_KIND, {"where": where, "set": {"tags": ["old"]}, "expected_count": 2}),
        "delete": request(DELETE_KIND, {"ids": ["mem-21"], "reason": "never ordered", "erase": True, **by}),
        "delete_where": request(DELETE_KIND, {"where": where | {"text": "crane"}}),
        "receipt_of_update": answer(
            RECEIPT_KIND,
            nothing
            | {"position": 8, "updated": 2, "pending": False}
            | {"results": [{"id": name, "status": "updated"} for name in ("mem-17", "mem-03")]},
            answers=UPDATE_KIND,
        ),
        "receipt_of_dry_run": answer(
            RECEIPT_KIND,
            nothing | {"matched": 1, "results": [{"id": "mem-12", "status": "matched"}]},
            answers=DELETE_KIND,
        ),
        "receipt_of_delete": answer(
            RECEIPT_KIND,
            nothing
            | {"position": 10, "deleted": 1, "pending": False}
            | {"results": [{"id": "mem-21", "status": "deleted"}]},
            answers=DELETE_KIND,
        ),
        "feedback": request(FEEDBACK_KIND, feedback | by),
        "feedback_receipt": answer(FEEDBACK_RECEIPT_KIND, {"recorded": True}, answers=FEEDBACK_KIND),
    }


def _memories() -> list[Json]:
    return [
        {
            "id": "mem-17",
            "text": "The harbour crane needs a new gearbox by Friday.",
            "speaker": "Bo",
            "session_id": "shift-2026-03-01",
            "occurred_at": "2026-03-01T09:00:00Z",
            "tags": ["harbour"],
        },
        {
            "id": "mem-21",
            "text": "I ordered the gearbox for the crane at Fjord Labs.",
            "tenant": "default",
            "kind": "experience",
            "speaker": "Ana",
            "session_id": "shift-2026-03-01",
            "node_id": "athena",
            "user_id": "ana",
            "agent_id": "cortex-exec",
            "run_id": "plan-41",
            "occurred_at": 1772391600,
            "mentioned_at": "2026-03-01T20:05:00+01:00",
            "tags": ["harbour"],
            "entities": ["Fjord Labs"],
            "source": "chat",
            "uri": "chat://shift-2026-03-01/21",
            "metadata": {"channel": "radio"},
        },
        {"id": "mem-03", "text": "The crane lifts forty tonnes.", "kind": "world", "title": "Harbour crane"},
    ]


def _receipt() -> Json:
    return {
        "stored": 1,
        "unchanged": 1,
        "conflict": 1,
        "rejected": 0,
        "position": 5,
        "results": [
            {"id": "mem-17", "status": "unchanged"},
            {"id": "mem-21", "status": "stored"},
            {
                "id": "mem-03",
                "status": "conflict",
                "reason": "the id holds other content: update it (memory.update.v1), or take another id",
            },
        ],
    }
