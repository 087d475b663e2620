"""`orion-recall eval successions`: what is recognised in twenty worlds whose writers did not know the rules."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from orion_recall.cli.main import run

WORLDS = Path(__file__).parents[1] / "data" / "successions" / "worlds"
FILES = ["--memories", str(WORLDS / "memories.jsonl"), "--pairs", str(WORLDS / "pairs.jsonl")]


@pytest.mark.slow
def test_most_of_what_is_recognised_is_right(capsys: pytest.CaptureFixture[str]) -> None:
    """The rules were mended on these worlds: docs, "What to expect", has what they did on unseen ones."""
    assert run(["eval", "successions", *FILES, "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["judged"] == 327
    assert printed["precision"] >= 0.85
    assert printed["recall"] >= 0.15


def test_wrong_and_missed_ones_are_listed_with_their_texts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    texts = [
        "The yoga class is on Mondays at six.",
        "The yoga class has gone to Thursdays at six.",
        "Rain all day.",
    ]
    memories, pairs = tmp_path / "memories.jsonl", tmp_path / "pairs.jsonl"
    memories.write_text(
        "".join(
            json.dumps(
                {"memory_id": f"m{n}", "conversation_id": "c", "turn_datetime": f"2026-03-0{n}", "text": text}
            )
            + "\n"
            for n, text in enumerate(texts, start=1)
        ),
        "utf-8",
    )
    judged = [
        {"old": "m1", "new": "m2", "kind": "trap"},
        {"old": "m1", "new": "m3", "kind": "replaced", "why": "rain"},
    ]
    pairs.write_text("".join(f"{json.dumps(one)}\n" for one in judged), "utf-8")
    files = ["--memories", str(memories), "--pairs", str(pairs)]
    assert run(["eval", "successions", *files, "--wrong", "--missed"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "m1 → m2" in out and texts[1] in out
    assert "m1 → m3 not recognised: rain" in out
    assert run(["eval", "successions", "--memories", str(memories), "--pairs", str(memories)]) == 2
    assert f"{memories}:1" in capsys.readouterr().err
