from __future__ import annotations

import io
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from orion_recall.evaluation.measures import Mean
from tests.bench.peers.__main__ import IN_FLIGHT, Comparison, Measured, print_report
from tests.bench.peers.serve import Kind, Peer, Place, Told, answer, cell, fused, hindsight_settings, serve, words
from tests.bench.peers.systems import CannotMeasure, open_process
from tests.bench.running_worker import Cell, cell_of


class Echo(Peer):
    """A peer that finds what it was filled with, newest first; it cannot answer "fail"."""

    ids: Sequence[str] = ()

    def fill(self, memories: Sequence[Told]) -> None:
        self.ids = [one.id for one in memories]

    def ask(self, question: str, k: int, at: str | None) -> list[str]:
        if question == "fail":
            raise LookupError("no\nanswer")
        return list(self.ids[::-1][:k])


ECHO = Kind(shown="X", packages=(), open=Echo, environment=".venv-of-nobody")


def one_cell(in_flight: int, ms: float) -> Cell:
    return Cell(
        in_flight=in_flight, recalls=9, unanswered=1, p50_ms=ms, p95_ms=2 * ms, per_s=1000 / ms, loop_ms=0.0,
        cpu_ms={"peer": ms / 2},
    )  # fmt: skip


def measured(shown: str, *ms: float) -> Measured:
    return Measured(
        shown=shown,
        way="HTTP",
        versions={"a-package": "1.2"},
        fill_s=31.4,
        rounds=[{n: one_cell(n, one * n) for n in IN_FLIGHT} for one in ms],
        memory_mib=1234.5,
        recall={10: Mean(mean=0.75, low=0.6, high=0.8), 5: Mean(mean=0.5, low=0.4, high=0.6)},
    )


RESULT = Comparison(
    size=1000,
    k=10,
    measured=[measured("ours", 10, 30, 20)],
    skipped={"mem0": "ModuleNotFoundError: no mem0"},
    rest_busy=[0.5, 0.7, 0.6],
    seconds=60.0,
)


def test_the_report_has_medians_of_the_rounds_recall_by_depth_versions_skipped_peers_and_a_busy_machine():
    out = Console(file=io.StringIO(), width=180, record=True)
    print_report(RESULT, out)
    text = out.export_text()
    row = next(line for line in text.splitlines() if "HTTP" in line)
    assert [part for part in row.split() if part not in "│┃"] == [
        *("ours", "HTTP"),
        *("20.0", "40.0", "10.0"),
        *("160.0", "320.0", "6.2", "80.0"),
        *("1,234", "31", "0.500", "0.750"),
    ]
    assert "1,000 memories, 10 asked for, 3 rounds" in text
    assert "ours: a-package 1.2; 6 questions failed" in text
    assert "mem0 was skipped: ModuleNotFoundError: no mem0" in text
    assert "used 60% of it" in text


def test_a_failed_question_has_no_time():
    found = cell_of([0.01, None, 0.03], in_flight=8, passed_s=2.0, used_s={"peer": 0.1})
    assert (found.recalls, found.unanswered, found.per_s, found.cpu_ms) == (2, 1, 1.0, {"peer": 50.0})
    assert found.p50_ms == pytest.approx(20)


async def test_a_peer_without_its_environment_is_left_out_with_the_reason(tmp_path: Path):
    with pytest.raises(CannotMeasure, match=r"\.venv-of-nobody is not there"):
        async with open_process("x", ECHO, tmp_path):
            pass


def test_a_peer_that_cannot_be_opened_says_why(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    out = io.StringIO()
    serve(replace(ECHO, packages=("not-there",)), Place(folder=tmp_path), iter(()), out)
    assert json.loads(out.getvalue())["error"].startswith("PackageNotFoundError")
    assert "Traceback" in capsys.readouterr().err


def test_requests_are_answered_by_the_peer():
    peer = Echo(Place(folder=Path()))
    memories = [{"id": "a", "text": "", "at": ""}, {"id": "b", "text": "", "at": ""}]
    assert answer(peer, {"do": "fill", "memories": memories})["seconds"] >= 0
    assert answer(peer, {"do": "ask", "question": "?", "k": 1, "at": None}) == {"ids": ["b"]}
    with pytest.raises(ValueError, match="unknown request"):
        answer(peer, {"do": "dance"})


def test_a_question_that_fails_is_counted(capsys: pytest.CaptureFixture[str]):
    assert cell(Echo(Place(folder=Path())), ["fail"], 1, 0.0, 10)["taken_s"] == [None]
    assert len(cell(Echo(Place(folder=Path())), ["?"] * 3, 3, 0.0, 10)["taken_s"]) == 3, (
        "each thread asks once at least"
    )
    assert "LookupError" in capsys.readouterr().err


def test_ranks_are_fused_and_words_have_no_marks():
    assert fused([["a", "b", "c"], ["c", "b"]], 2) == ["c", "b"]
    assert words("Who's Oskar?") == ["who", "s", "oskar"]


def test_hindsight_asks_no_language_model_and_is_given_its_database(tmp_path: Path):
    model = tmp_path / "onnx" / "model.onnx"
    given = hindsight_settings(Place(folder=tmp_path, postgres_dsn="postgresql://x", onnx_model=model))
    assert given["HINDSIGHT_API_LLM_PROVIDER"] == "none"
    assert given["HINDSIGHT_API_EMBEDDINGS_ONNX_TOKENIZER_NAME_OR_PATH"] == str(tmp_path)
    with pytest.raises(ValueError, match="needs a Postgres"):
        hindsight_settings(Place(folder=tmp_path))
