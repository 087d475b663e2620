"""The page of what the specifications ask for, made from the rows in `requirements.yaml`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

FILE = Path(__file__).with_suffix(".yaml")
STATES = ("yes", "in part", "no")
# The specifications by the first letter of their rows, in the order of the page.
DOCUMENTS: Mapping[str, str] = {
    "O": "The bus service",
    "H": "The recall pipeline",
    "C": "Confidence and cascade",
    "G": "The graph-first memory",
    "R": "Ranking, scale, evaluation",
}
_INTRODUCTION = """\
# Requirements

What the five specifications of this service ask for, and what shows it: a test (`python -m pytest PATH::NAME`), a
folder of tests, or a command. A row works unless it says `in part` or `no`, and why. Rows with a `+` are asked for
in the text of a specification, and have no number there. The rows are kept in `docs/tools/requirements.yaml`.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirement:
    """One row: what is asked, whether it works, and the tests or commands that show it."""

    id: str
    asks: str
    state: str = "yes"
    shown: Sequence[str] = ()
    note: str = ""


def read_requirements(text: str) -> list[Requirement]:
    """The rows of a file, in its order. TypeError for a field that there is not, or that is missing."""
    # Every value is text: `yes` is no truth value here.
    rows: Any = yaml.load(text, Loader=yaml.BaseLoader)  # noqa: S506
    return [Requirement(**row) for row in rows]


def requirements_page() -> str:
    rows = read_requirements(FILE.read_text("utf-8"))
    states = Counter(row.state for row in rows)
    lines = [_INTRODUCTION, f"{len(rows)} rows: {', '.join(f'{states[one]} {one}' for one in STATES)}."]
    for letter, title in DOCUMENTS.items():
        lines += ["", f"## {title}", "", *(_row(one) for one in rows if one.id[0] == letter)]
    return "\n".join(lines) + "\n"


def _row(one: Requirement) -> str:
    state = "" if one.state == "yes" else f"**{one.state}**: "
    told = ". ".join(part for part in (one.asks, f"{state}{one.note}".removesuffix(".")) if part)
    return f"- **{one.id}** {told}. {', '.join(f'`{which}`' for which in one.shown)}".rstrip()
