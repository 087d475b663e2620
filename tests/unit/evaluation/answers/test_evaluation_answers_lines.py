from __future__ import annotations

import json
from pathlib import Path

import pytest

from orion_recall.errors import EvaluationError
from orion_recall.evaluation.answers.lines import read_answer_lines

LINE = {
    "query_id": "q1",
    "conversation_id": "c1",
    "ranked": ["m1"],
    "selected": [],
    "answerable": False,
    "answer_probability": 0.1,
    "answer_signals": {"late": 0.3},
}


def written(folder: Path, *lines: object) -> Path:
    path = folder / "run.jsonl"
    path.write_text("\n".join(json.dumps(line) for line in lines))
    return path


def test_lines_are_read_but_for_queries_that_are_not_judged(tmp_path: Path):
    (line,) = read_answer_lines(written(tmp_path, LINE, LINE | {"query_id": "q2", "answerable": None}))
    assert (line.query_id, line.is_answerable, line.told, line.is_empty) == ("q1", False, 0.1, True)


def test_a_run_of_an_older_version_is_refused_with_its_line(tmp_path: Path):
    old = {name: value for name, value in LINE.items() if name != "answerable"}
    with pytest.raises(EvaluationError, match=r"run\.jsonl:2: answerable"):
        read_answer_lines(written(tmp_path, LINE, old))
    with pytest.raises(EvaluationError, match="no query of it is known to be answerable"):
        read_answer_lines(written(tmp_path, LINE | {"answerable": None}))
