"""Every row of the specifications stands in the table, and every test and command that it names is there."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from docs.tools.requirements import DOCUMENTS, FILE, STATES, Requirement, read_requirements

ROOT = Path(__file__).parents[3]
ROWS = read_requirements(FILE.read_text("utf-8"))

# The numbers that the specifications' rows have. Some were never given.
NUMBERED = (
    *(f"O-{number:02}" for number in range(1, 31)),
    *(f"H-{number:02}" for number in range(2, 34)),
    *(f"C-{number:02}" for number in range(1, 36)),
    *(f"G-{number:02}" for number in range(1, 38)),
    "G-07a",
    *(f"R-{number:02}" for number in range(2, 41) if number not in (14, 16, 23, 24, 39)),
)
A_ROW = Requirement(id="O-01", asks="One hub", state="yes", commands=("make demo",))


def test_every_row_is_there_once() -> None:
    ids = [row.id for row in ROWS]
    assert [one for one in NUMBERED if one not in ids] == []
    assert sorted({one for one in ids if ids.count(one) > 1}) == []
    assert [one for one in ids if one not in NUMBERED and not re.fullmatch(r"[OHCGR]\+\d+", one)] == []
    assert {one[0] for one in ids} == set(DOCUMENTS)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)
def test_what_a_row_names_is_there(row: Requirement) -> None:
    assert list(faults(row)) == []


def test_what_is_wrong_with_a_row_is_seen() -> None:
    here = "tests/unit/docs/test_docs_requirements.py"
    cases: tuple[tuple[dict[str, Any], str | None], ...] = (
        ({}, None),
        ({"tests": (f"{here}::test_every_row_is_there_once",)}, None),
        ({"tests": (f"{here}::test_of_nothing",)}, "test_of_nothing"),
        ({"tests": ("tests/unit/test_nowhere.py::test_x",)}, "test_nowhere"),
        ({"tests": (here,)}, "PATH::NAME"),
        ({"commands": ("make nonsense",)}, "make nonsense"),
        ({"commands": ("rm -r /",)}, "rm -r /"),
        ({"commands": ("python -m tests.bench.nothing",)}, "tests.bench.nothing"),
        ({"commands": ()}, "nothing shows it"),
        ({"state": "true"}, "true"),
        ({"state": "in part"}, "why"),
        ({"state": "no"}, "why"),
        ({"state": "no", "note": "Never tried."}, None),
    )
    for changes, said in cases:
        found = list(faults(replace(A_ROW, **changes)))
        assert (said is None) == (found == []), found
        assert said is None or said in found[0]


def test_a_field_that_there_is_not_is_refused() -> None:
    with pytest.raises(TypeError, match="colour"):
        read_requirements("- {id: O-01, asks: x, state: yes, colour: red}")


def faults(row: Requirement) -> Iterator[str]:
    """What is wrong with a row, one sentence each."""
    if row.state not in STATES:
        yield f"{row.state} is no state: write one of {', '.join(STATES)}"
    elif row.state != "yes" and not row.note:
        yield f"{row.state}: say why in a note"
    elif row.state == "yes" and not row.tests and not row.commands:
        yield "nothing shows it: name a test or a command"
    for named in row.tests:
        path, _, name = named.partition("::")
        if not name:
            yield f"{named}: write PATH::NAME"
        elif name not in functions(path):
            yield f"{path} has no test {name}"
    for command in row.commands:
        if not is_command(command):
            yield f"{command}: there is no such command"


def is_command(command: str) -> bool:
    """Whether it is a target of make, a module, or the program's (whose commands are looked up on all pages)."""
    words = command.split()
    if words[:2] == ["python", "-m"]:
        return (ROOT / f"{words[2].replace('.', '/')}.py").is_file()
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    return words[0] == "orion-recall" or (words[0] == "make" and words[1] in targets)


@cache
def functions(path: str) -> Sequence[str]:
    """The names of a module's functions; none where there is no module."""
    if not (ROOT / path).is_file():
        return ()
    tree = ast.parse((ROOT / path).read_text("utf-8"))
    return [one.name for one in tree.body if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)]
