from __future__ import annotations

import pytest

from orion_recall.contracts import RecallOptionsV1, RecallQueryV1, read_message
from orion_recall.contracts.recall import ignored_fields
from orion_recall.errors import InvalidMessage


def test_hindsights_names_of_budget_and_kinds_are_understood() -> None:
    """LOW, MID and HIGH in any letter case; `fact_type` for `kinds`, one or several."""
    told = {"fragment": "crane", "options": {"budget": "HIGH", "fact_type": "world"}}
    options = read_message(RecallQueryV1, told, "payload").options
    assert options is not None
    assert (options.budget, options.kinds) == ("high", ("world",))
    assert RecallOptionsV1.model_validate({"budget": "Mid", "fact_type": ["world", "opinion"]}).kinds == (
        "world",
        "opinion",
    )
    assert RecallOptionsV1.model_validate({"kinds": "opinion", "fact_type": ["world"]}).kinds == ("opinion",)
    assert ignored_fields(told) == 0
    with pytest.raises(InvalidMessage, match=r"options\.budget: .*'low', 'mid' or 'high'"):
        read_message(RecallQueryV1, {"fragment": "crane", "options": {"budget": "huge"}}, "payload")
