"""The page of what the specifications ask for, made from the rows in `requirements.yaml`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

FILE = Path(__file__).with_suffix(".yaml")
STATES = ("yes", "in part", "no")

# The specifications by the first letter of their rows, in the order of the page.
DOCUMENTS: Mapping[str, tuple[str, str]] = {
    "O": ("The bus service", "One service on the mesh's bus that executors ask, and what it promises them."),
    "H": ("The recall pipeline", "Four ways to search at once, fusion, a cross-encoder, a token budget."),
    "C": ("Confidence and cascade", "How sure an answer is, and the layers that are searched when it is not."),
    "G": ("The graph-first memory", "Statements from texts, changes, walks over the graph, and the commands."),
    "R": ("Ranking, scale, evaluation", "Keyword search with decay, the conversation graph, and what is measured."),
}

_INTRODUCTION = (
    "# Requirements",
    "",
    "This page lists what the five specifications of this service ask for, and what shows each of it.",
    "",
    "`yes`: it works, and the test or command in the row shows it. `in part` and `no` say what is missing and why.",
    "A test is run as `python -m pytest PATH::NAME`. Rows with a `+` are asked for in the text of a specification,",
    "and have no number there. The rows are kept in `docs/tools/requirements.yaml`.",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirement:
    """One row: what is asked, whether it works, and the tests (`path::name`) or commands that show it."""

    id: str
    asks: str
    state: str
    tests: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    note: str = ""


def read_requirements(text: str) -> list[Requirement]:
    """The rows of a file, in its order. TypeError for a field that there is not, or that is missing."""
    # Every value is text: `yes` is no truth value here.
    rows: Any = yaml.load(text, Loader=yaml.BaseLoader)  # noqa: S506
    return [_requirement(**row) for row in rows]


def requirements_page() -> str:
    """The page as Markdown."""
    requirements = _shipped()
    lines = [*_INTRODUCTION, "", "| specification | rows | yes | in part | no |", "|---|---|---|---|---|"]
    for letter, (title, _) in DOCUMENTS.items():
        lines.append(_counts(f"[{title}](#{_anchor(title)})", [one for one in requirements if one.id[0] == letter]))
    lines.append(_counts("all", requirements))
    for letter, (title, about) in DOCUMENTS.items():
        lines += ["", f"## {title}", "", about, ""]
        lines += ["| id | what is asked | works | shown by | note |", "|---|---|---|---|---|"]
        lines += [_row(one) for one in requirements if one.id[0] == letter]
    return "\n".join(lines) + "\n"


@cache
def _shipped() -> Sequence[Requirement]:
    return read_requirements(FILE.read_text("utf-8"))


def _requirement(*, tests: Sequence[str] = (), commands: Sequence[str] = (), **texts: str) -> Requirement:
    told = {name: " ".join(text.split()) for name, text in texts.items()}
    return Requirement(tests=tuple(tests), commands=tuple(commands), **told)


def _counts(title: str, rows: Sequence[Requirement]) -> str:
    states = Counter(row.state for row in rows)
    return f"| {title} | {len(rows)} | {' | '.join(str(states[state]) for state in STATES)} |"


def _anchor(title: str) -> str:
    return title.lower().replace(",", "").replace(" ", "-")


def _row(one: Requirement) -> str:
    shown = "<br>".join(f"`{which}`" for which in (*one.tests, *one.commands))
    cells = (one.id, one.asks, one.state, shown, one.note)
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"
