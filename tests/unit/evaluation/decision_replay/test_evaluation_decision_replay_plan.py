from __future__ import annotations

from pathlib import Path

import pytest

from orion_recall.errors import SettingsError
from orion_recall.evaluation.decision_replay.logged import Choice
from orion_recall.evaluation.decision_replay.plan import ReplayPlan, answered_by, listed_ids
from tests.samples.recall_fakes import profile


@pytest.mark.parametrize(
    ("profile_of", "is_tried", "expected"),
    [
        (None, False, None),
        (None, True, "reflect.v1"),
        ("deep.graph.v1", True, "deep.graph.v1"),
        ("any", True, None),
    ],
)
def test_the_queries_are_those_of_the_tried_profile_unless_another_is_named(
    profile_of: str | None, is_tried: bool, expected: str | None
) -> None:
    assert answered_by(profile_of, profile(profile="reflect.v1") if is_tried else None) == expected


def test_a_plan_has_the_name_of_its_tried_profile() -> None:
    assert ReplayPlan(choice=Choice()).name == "control"
    assert ReplayPlan(choice=Choice(), tried=profile(profile="reflect.v1")).name == "reflect.v1"


def test_ids_are_read_a_line_each_and_once(tmp_path: Path) -> None:
    file = tmp_path / "ids"
    file.write_text("d-2\n\n  d-1  \nd-2\n", "utf-8")
    assert listed_ids(file) == ("d-2", "d-1")


@pytest.mark.parametrize("content", [None, b"\xff\xfe"])
def test_a_file_of_ids_that_cannot_be_read_is_named(tmp_path: Path, content: bytes | None) -> None:
    file = tmp_path / "ids"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(SettingsError, match=rf"--ids: {file} cannot be read"):
        listed_ids(file)
