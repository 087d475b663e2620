from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from orion_recall.contracts import RecallDecisionV1, v1_decision
from tests.stand_ins.mesh import MeshDecision

EXAMPLE = Path(__file__).parents[3] / "contracts" / "examples" / "decision.json"


def decision(**changes: Any) -> RecallDecisionV1:
    """The decision of the examples, with other values."""
    return RecallDecisionV1.model_validate(json.loads(EXAMPLE.read_text("utf-8"))["payload"] | changes)


@pytest.mark.parametrize(
    "changes",
    [{}, {"session_id": None, "node_id": None, "verb": None}, {"selected_ids": [], "dropped": {}}],
    ids=str,
)
def test_the_v1_form_of_a_decision_is_what_a_strict_reader_takes(changes: dict[str, Any]) -> None:
    made = decision(**changes)
    told = json.loads(json.dumps(v1_decision(made)))
    read = MeshDecision.model_validate(told)
    assert set(told) == set(MeshDecision.model_fields)
    assert (read.id, read.corr_id, read.query, read.profile) == (made.id, made.corr_id, made.query, made.profile)
    assert (read.selected_ids, read.dropped) == (made.selected_ids, made.dropped)
    assert (read.backend_counts, read.created_at) == (made.backend_counts, made.created_at)


@pytest.mark.parametrize(
    ("measured", "whole"), [(38.214, 38), (0.5, 1), (1.5, 2), (2.5, 3), (0.499, 0), (-0.7, 0), (12, 12)]
)
def test_the_milliseconds_of_a_decision_are_whole_and_never_negative(measured: float, whole: int) -> None:
    made = decision(latency_ms=measured)
    assert made.latency_ms == whole
    assert f'"latency_ms":{whole},' in made.model_dump_json()
    assert v1_decision(made)["latency_ms"] == whole
