from __future__ import annotations

import io
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from tests.bench.peers.serve import Kind, Peer, Place, Told, answer, cell, fused, hindsight_settings, serve
from tests.bench.peers.systems import CannotMeasure, open_process


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


async def test_a_peer_that_cannot_be_opened_is_left_out_with_the_reason(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(CannotMeasure, match=r"\.venv-of-nobody is not there"):
        async with open_process("x", ECHO, tmp_path):
            pass
    out = io.StringIO()
    serve(replace(ECHO, packages=("not-there",)), Place(folder=tmp_path), iter(()), out)
    assert json.loads(out.getvalue())["error"].startswith("PackageNotFoundError")
    assert "Traceback" in capsys.readouterr().err


def test_requests_are_answered_by_the_peer_and_a_question_that_fails_is_counted(
    capsys: pytest.CaptureFixture[str],
) -> None:
    peer = Echo(Place(folder=Path()))
    memories = [{"id": "a", "text": "", "at": ""}, {"id": "b", "text": "", "at": ""}]
    assert answer(peer, {"do": "fill", "memories": memories})["seconds"] >= 0
    assert answer(peer, {"do": "ask", "question": "?", "k": 1, "at": None}) == {"ids": ["b"]}
    assert cell(peer, ["fail"], 1, 0.0, 10)["taken_s"] == [None]
    assert "LookupError" in capsys.readouterr().err


def test_ranks_are_fused_and_hindsight_asks_no_language_model(tmp_path: Path) -> None:
    assert fused([["a", "b", "c"], ["c", "b"]], 2) == ["c", "b"]
    model = tmp_path / "onnx" / "model.onnx"
    given = hindsight_settings(Place(folder=tmp_path, postgres_dsn="postgresql://x", onnx_model=model))
    assert given["HINDSIGHT_API_LLM_PROVIDER"] == "none"
