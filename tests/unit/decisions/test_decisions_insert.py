from __future__ import annotations

import re
from importlib.resources import files

from orion_recall.contracts import RecallDecisionV1

_SQL = files("orion_recall.decisions").joinpath("insert.sql").read_text("utf-8")
_TABLE = files("orion_recall.decisions").joinpath("schema/0001_recall_decisions.sql").read_text("utf-8")


def _names(pattern: str) -> list[str]:
    found = re.search(pattern, _SQL, re.DOTALL)
    assert found is not None
    return [part.split()[0] for part in found.group(1).split(",")]


def test_every_field_of_the_contract_is_inserted_in_the_contracts_order() -> None:
    contract = list(RecallDecisionV1.model_fields)
    assert _names(r"INSERT INTO recall_decisions \((.*?)\)\nSELECT") == contract
    assert _names(r"AS d \((.*?)\)\nON CONFLICT") == contract


def test_the_table_has_the_contracts_fields_in_the_contracts_order() -> None:
    body = _TABLE.partition("CREATE TABLE recall_decisions (")[2].partition("\n);")[0]
    columns = re.findall(r"^    ([a-z_]+) ", body, re.MULTILINE)
    assert columns == [*RecallDecisionV1.model_fields, "persisted_at"]
