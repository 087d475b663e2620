from __future__ import annotations

import re
from importlib.resources import files

from orion_recall.contracts import RecallDecisionV1

_SQL = files("orion_recall.decisions").joinpath("insert.sql").read_text("utf-8")
_SCHEMA = files("orion_recall.decisions").joinpath("schema")
_TABLE = _SCHEMA.joinpath("0001_recall_decisions.sql").read_text("utf-8")


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
    later = sorted(part.name for part in _SCHEMA.iterdir())[1:]
    added = [
        name
        for part in later
        for name in re.findall(
            r"ALTER TABLE recall_decisions ADD COLUMN (\w+)", _SCHEMA.joinpath(part).read_text("utf-8")
        )
    ]
    first = len(RecallDecisionV1.model_fields) - len(added)
    contract = list(RecallDecisionV1.model_fields)
    assert [*columns, *added] == [*contract[:first], "persisted_at", *contract[first:]]
