from __future__ import annotations

import csv
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from orion_recall.decisions.sample import SampledDecision, ShownMemory
from orion_recall.errors import EvaluationError, SettingsError
from orion_recall.evaluation.dataset import read_queries
from orion_recall.evaluation.review import COLUMNS, is_csv, read_review, write_review
from orion_recall.evaluation.tuning.feedback import Converted


def decision(number: int, *shown: ShownMemory, query: str = "Who sold the boat?") -> SampledDecision:
    return SampledDecision(
        decision_id=f"d-{number}", tenant="acme", profile="reflect.v1", query=query,
        asked_at=datetime(2026, 3, 1, 12, number, tzinfo=UTC), outcome="ok", scope="session", session_id="s-1",
        user_id=None, intent=None, query_class="factual", shown=shown,
    )  # fmt: skip


SAMPLE = [
    decision(
        1,
        ShownMemory(id="m-1", text="Bo: I sold the boat,\nat last."),
        ShownMemory(id="m-2", text="=HYPERLINK(1)"),
        ShownMemory(id="m-3", text="'quoted'"),
        ShownMemory(id="gone", text=None),
    ),
    decision(2),
    decision(3, ShownMemory(id="m-1", text="Bo: I sold the boat"), query="-- and what else?"),
]


def written(path: Path) -> list[dict[str, Any]]:
    with path.open("w", encoding="utf-8", newline="") as lines:
        assert write_review(lines, SAMPLE, as_csv=is_csv(path)) == 6
    if not is_csv(path):
        return [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    with path.open(encoding="utf-8", newline="") as lines:
        return [dict(row) for row in csv.DictReader(lines)]


def judge(path: Path, rows: list[dict[str, Any]], judgements: dict[tuple[str, str], str]) -> None:
    for row in rows:
        row["judgement"] = judgements.get((row["decision_id"], row["memory_id"]), "")
    with path.open("w", encoding="utf-8", newline="") as lines:
        if is_csv(path):
            writer = csv.DictWriter(lines, COLUMNS)
            writer.writeheader()
            writer.writerows(rows)
        else:
            lines.writelines(json.dumps(row) + "\n" for row in rows)


@pytest.mark.parametrize("name", ["review.csv", "review.jsonl"])
def test_a_judged_sample_becomes_judged_queries(tmp_path: Path, name: str) -> None:
    path, queries = tmp_path / name, tmp_path / "queries.jsonl"
    rows = written(path)
    assert {row["judgement"] for row in rows} == {""}
    judgements = {("d-1", "m-1"): "Relevant", ("d-1", "m-2"): "no", ("d-1", "gone"): "yes", ("d-3", "m-1"): "0"}
    judge(path, rows, judgements)
    converted = Converted()
    made = [line for one in read_review(path) if (line := converted.add(one, 1)) is not None]
    queries.write_text("".join(json.dumps(line) + "\n" for line in made), "utf-8")
    (query,) = read_queries(queries)
    assert (query.id, query.text, query.conversation, query.session_id) == (
        "d-1", "Who sold the boat?", "acme", "s-1",
    )  # fmt: skip
    assert (query.evidence, query.wrong, query.shown) == ({"m-1"}, {"m-2"}, ("m-1", "m-2", "m-3"))
    assert query.asked_at == SAMPLE[0].asked_at.timestamp()
    assert (converted.recalls, converted.left_out) == (2, {"nothing_used": 1})


def test_a_cell_is_no_formula_and_comes_back_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "review.csv"
    rows = written(path)
    assert not [value for row in rows for value in row.values() if value.startswith(("=", "-", "+", "@"))]
    judge(path, rows, {("d-3", "m-1"): "relevant"})
    (judged,) = read_review(path)
    assert judged.query == "-- and what else?"


def test_a_judgement_that_is_not_understood_is_refused_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "review.jsonl"
    judge(path, written(path), {("d-1", "m-2"): "maybe"})
    with pytest.raises(EvaluationError, match=r"review.jsonl:2: judgement: 'maybe' is neither relevant"):
        read_review(path)


def test_a_file_that_is_no_review_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "other.csv"
    path.write_text("a,b\n1,2\n", "utf-8")
    with pytest.raises(EvaluationError, match="no column 'decision_id'"):
        read_review(path)
    path.write_text(",".join(COLUMNS) + "\n", "utf-8")
    with pytest.raises(EvaluationError, match="there is no row"):
        read_review(path)
    (tmp_path / "bad.jsonl").write_text("{\n", "utf-8")
    with pytest.raises(EvaluationError, match=r"bad.jsonl:1: no JSON"):
        read_review(tmp_path / "bad.jsonl")
    with pytest.raises(EvaluationError, match="No such file"):
        read_review(tmp_path / "none.csv")
    with pytest.raises(SettingsError, match=r"ends in \.csv or \.jsonl"):
        is_csv(tmp_path / "review.xls")
