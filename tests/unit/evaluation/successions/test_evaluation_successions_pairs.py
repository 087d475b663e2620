"""Judged pairs: how they are read, and what is counted as right, wrong and missed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from orion_recall.errors import EvaluationError
from orion_recall.evaluation.successions.pairs import Judgement, Pair, measured, read_pairs
from orion_recall.memory.succession.find import Found
from orion_recall.values import Memory


def memory(name: str, tenant: str = "a") -> Memory:
    return Memory(tenant=tenant, id=name, text=name, kind="experience", text_hash=name, content_hash=name)


def written(folder: Path, *lines: dict[str, str]) -> Path:
    path = folder / "pairs.jsonl"
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines), "utf-8")
    return path


def test_right_wrong_and_missed_are_counted_from_a_confidence_on() -> None:
    judged = {
        Pair("a", "m1", "m4"): Judgement("replaced", "another price"),
        Pair("a", "m2", "m4"): Judgement("part", ""),
        Pair("a", "m3", "m4"): Judgement("trap", ""),
        Pair("b", "m1", "m4"): Judgement("replaced", "another day"),
    }
    found = [
        ("a", Found("m4", "m1", 0.6, "value: ")),
        ("a", Found("m4", "m2", 0.8, "value: ")),
        ("a", Found("m4", "m3", 0.9, "value: ")),
        ("b", Found("m3", "m2", 0.7, "value: ")),
        ("b", Found("m4", "m1", 0.45, "value: ")),
    ]
    result = measured(found, judged)
    assert [(one.pair.old, one.kind, one.is_right) for one in result.recognised] == [
        ("m3", "trap", False),
        ("m2", "part", True),
        ("m2", None, False),
        ("m1", "replaced", True),
    ]
    assert (result.precision, result.recall, result.judged) == (0.5, 0.5, 2)
    assert result.missed == {Pair("b", "m1", "m4"): "another day"}
    surer = measured(found, judged, least=0.75)
    assert (len(surer.recognised), surer.right, surer.recall) == (2, 1, 0.0)
    assert measured([], judged).precision is None


def test_a_pair_is_found_by_its_ids_or_its_conversation(tmp_path: Path) -> None:
    memories = [
        memory("m1"),
        memory("m2"),
        memory("m1", "b"),
        memory("m2", "b"),
        memory("m3", "b"),
        memory("m4", "b"),
    ]
    path = written(
        tmp_path,
        {"old": "m3", "new": "m4", "kind": "replaced"},
        {"old": "m1", "new": "m2", "kind": "trap", "conversation_id": "a", "why": "one time"},
    )
    assert read_pairs(path, memories) == {
        Pair("b", "m3", "m4"): Judgement("replaced", ""),
        Pair("a", "m1", "m2"): Judgement("trap", "one time"),
    }


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ({"old": "m1", "new": "m2", "kind": "replaced"}, "in several conversations"),
        ({"old": "m3", "new": "m9", "kind": "replaced"}, "no memory 'm9'"),
        ({"old": "m3", "new": "m2", "kind": "maybe"}, "kind"),
    ],
)
def test_a_pair_that_cannot_be_used_is_refused(tmp_path: Path, line: dict[str, str], told: str) -> None:
    memories = [memory("m1"), memory("m2"), memory("m1", "b"), memory("m3", "b")]
    with pytest.raises(EvaluationError, match=told):
        read_pairs(written(tmp_path, line), memories)
