from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic import ValidationError

from orion_recall.contracts import MemoryWhereV1
from orion_recall.memory.record.reader import conditions

AT = "2026-11-21T10:00:00Z"
EACH: dict[str, tuple[Any, str, Any]] = {
    "text": ("a b", "search @@ plainto_tsquery('english', $2::text)", "a b"),
    "session_id": ("s", "session_id = $2", "s"),
    "user_id": ("u", "user_id = $2", "u"),
    "agent_id": ("a", "agent_id = $2", "a"),
    "run_id": ("r", "run_id = $2", "r"),
    "speaker": ("Ana", "speaker = $2", "Ana"),
    "kinds": (["plan"], "kind = ANY($2::text[])", ["plan"]),
    "tags": (["x", "y"], "tags && $2::text[]", ["x", "y"]),
    "entities": (["Oslo"], "entities && $2::text[]", ["Oslo"]),
    "source": ("chat", "source = $2", "chat"),
    "since": (AT, "ts >= $2::timestamptz", datetime(2026, 11, 21, 10, tzinfo=UTC)),
    "until": (AT, "ts < $2::timestamptz", datetime(2026, 11, 21, 10, tzinfo=UTC)),
}


def test_every_condition_of_the_contract_is_one():
    assert set(EACH) == set(MemoryWhereV1.model_fields)


@pytest.mark.parametrize("name", EACH)
def test_a_condition_is_a_parameter_of_the_tenants_live_memories(name: str):
    given, said, value = EACH[name]
    where = MemoryWhereV1.model_validate({name: given})
    assert conditions("acme", where) == (f"tenant = $1 AND {said} AND live", ["acme", value])


def test_what_is_said_never_becomes_sql():
    nasty = "'; DROP TABLE memories; --"
    condition, values = conditions(nasty, MemoryWhereV1.model_validate({"speaker": nasty, "tags": [nasty]}))
    assert "DROP" not in condition
    assert values == [nasty, nasty, [nasty]]


@pytest.mark.parametrize("where", [{}, {"tags": []}, {"spaeker": "Ana"}, {"text": ""}, {"since": "2026-11-21"}])
def test_a_query_without_conditions_or_with_unknown_ones_is_none(where: dict[str, Any]):
    with pytest.raises(ValidationError):
        MemoryWhereV1.model_validate(where)
