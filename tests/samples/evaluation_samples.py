"""Queries, runs and files for the evaluation, made in one line each."""

from __future__ import annotations

import json
from pathlib import Path

from orion_recall.evaluation.dataset import JudgedQuery, RunLine


def judged_query(name: str, *evidence: str, category: str = "any", scored: bool = True) -> JudgedQuery:
    return JudgedQuery(
        id=name,
        conversation="c",
        text=f"what about {name}?",
        category=category,
        evidence=frozenset(evidence),
        scored=scored,
        line=1,
    )


def run_line(*ranked: str, selected: tuple[str, ...] | None = None) -> RunLine:
    return RunLine(ranked=ranked, selected=selected, line=1)


def written(folder: Path, name: str, *lines: object) -> Path:
    """A file of JSON lines; what is text already is written as it is."""
    path = folder / name
    path.write_text("".join(f"{line if isinstance(line, str) else json.dumps(line)}\n" for line in lines), "utf-8")
    return path
