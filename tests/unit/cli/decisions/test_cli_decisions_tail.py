from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from orion_recall.cli.decisions.tail import Shown
from orion_recall.contracts import NoAnswerV1, RecallDecisionV1


def line(capsys: pytest.CaptureFixture[str], **changes: Any) -> str:
    fields: dict[str, Any] = {
        "id": "875a5172-46c0-4014-94f6-ee2cdfb0d3b0",
        "corr_id": "c-1",
        "session_id": None,
        "node_id": "athena",
        "verb": "reflect",
        "profile": "reflect.v1",
        "query": "Where does Ida live?",
        "selected_ids": [],
        "backend_counts": {},
        "latency_ms": 1.0,
        "dropped": {},
        "created_at": datetime(2026, 11, 25, tzinfo=UTC),
        "outcome": "empty",
        "confidence": 0.55,
    }
    Shown(as_json=False).show(RecallDecisionV1(**(fields | changes)))
    return capsys.readouterr().out.splitlines()[-1]


def test_a_withheld_answer_is_not_shown_with_the_confidence_of_what_was_withheld(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert " 0.55 " in line(capsys)
    withheld = line(
        capsys, no_answer=NoAnswerV1(reason="below_min_confidence", value=0.55, minimum=0.6, near_misses=3)
    )
    assert "0.55" not in withheld
