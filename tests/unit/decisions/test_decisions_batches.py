from __future__ import annotations

import pytest

from orion_recall.decisions.sink import BATCH_BYTES, Row, batches

HALF = BATCH_BYTES // 2


def _rows(*sizes: int) -> list[Row]:
    return [Row(entry_id=f"{index}-0", envelope=b"x" * size) for index, size in enumerate(sizes)]


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
