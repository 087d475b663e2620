"""The parts of a candidate, read from columns."""

from __future__ import annotations

import math

import pytest

from orion_recall.scoring.candidates import PartsInColumns, rounded_parts

COLUMNS = {"fusion": [1.0, 0.5], "late": [None, 0.25], "similarity": [0.0, math.nan]}


def test_they_are_those_of_its_place_without_what_it_does_not_have() -> None:
    first, second = (PartsInColumns(COLUMNS, place) for place in (0, 1))
    assert first == {"fusion": 1.0, "similarity": 0.0}
    assert second == {"fusion": 0.5, "late": 0.25}
    assert list(second.items()) == [("fusion", 0.5), ("late", 0.25)]
    assert {**first, "rerank": 0.75} == {"fusion": 1.0, "similarity": 0.0, "rerank": 0.75}


def test_one_part_is_asked_for_as_of_a_dictionary() -> None:
    parts = PartsInColumns(COLUMNS, 1)
    assert [parts.get(name) for name in ("fusion", "similarity", "speaker")] == [0.5, None, None]
    assert parts.get("similarity", 0.0) == 0.0
    assert ("late" in parts, "similarity" in parts) == (True, False)
    with pytest.raises(KeyError):
        parts["speaker"]


def test_a_part_of_zero_is_a_part() -> None:
    parts = PartsInColumns(COLUMNS, 0)
    assert parts.get("similarity", 1.0) == 0.0
    assert parts["similarity"] == 0.0
    assert len(parts) == 2


def test_parts_are_rounded_alike_wherever_they_come_from():
    columns = {"fusion": (1 / 3, 0.5), "time": (None, 2 / 3), "late": (float("nan"), 0.1234567)}
    assert rounded_parts(PartsInColumns(columns, 0)) == {"fusion": 0.333333}
    assert rounded_parts({"fusion": 0.5, "time": 2 / 3}) == {"fusion": 0.5, "time": 0.666667}
    parts = PartsInColumns(columns, 1)
    assert rounded_parts(parts) == {"fusion": 0.5, "time": 0.666667, "late": 0.123457}
    assert rounded_parts(parts) is rounded_parts(parts), "reply and decision show the same ones"
    assert parts["late"] == 0.1234567, "the part itself is as it was"
