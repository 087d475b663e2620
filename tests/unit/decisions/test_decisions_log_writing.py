"""Decisions on their way into the log: statements of a bounded size, and every field of the contract."""

from __future__ import annotations

import re
from importlib.resources import files

import pytest

from orion_recall.contracts import RecallDecisionV1
from orion_recall.decisions.sink import BATCH_BYTES, Row, batches

HALF = BATCH_BYTES // 2


def _rows(*sizes: int) -> list[Row]:
    return [(f"{index}-0", b"x" * size) for index, size in enumerate(sizes)]


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ([], []),
        ([1, 2, 3], [3]),
        ([HALF, HALF], [2]),
        ([HALF, HALF, 1], [2, 1]),
        ([HALF, HALF + 1], [1, 1]),
        ([BATCH_BYTES + 1, 1, 1], [1, 2]),
        ([1, BATCH_BYTES + 1], [1, 1]),
    ],
)
def test_rows_go_in_statements_of_a_bounded_size_and_in_order(sizes: list[int], expected: list[int]) -> None:
    rows = _rows(*sizes)
    split = list(batches(rows))
    assert [len(batch) for batch in split] == expected
    assert [row for batch in split for row in batch] == rows


_SQL = files("orion_recall.decisions").joinpath("insert.sql").read_text("utf-8")
_TABLE = files("orion_recall.decisions").joinpath("schema", "decisions.sql").read_text("utf-8")


def _names(pattern: str, text: str = _SQL) -> list[str]:
    found = re.search(pattern, text, re.DOTALL)
    assert found is not None
    return [part.split()[0] for part in re.sub(r"--[^\n]*", "", found.group(1)).split(",") if part.strip()]


def test_every_field_of_the_contract_is_read_inserted_and_has_a_column() -> None:
    inserted = _names(r"INSERT INTO recall_decisions \((.*?)\)\nSELECT")
    assert inserted == _names(r"AS d \((.*?)\)\nON CONFLICT")
    assert set(RecallDecisionV1.model_fields) <= set(inserted)
    columns = re.findall(
        r"^    ([a-z_]+) ", _TABLE.partition("CREATE TABLE recall_decisions (")[2].partition("\n);")[0], re.M
    )
    assert sorted(columns) == sorted([*inserted, "persisted_at"])
