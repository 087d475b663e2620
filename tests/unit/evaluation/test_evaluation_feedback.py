"""Feedback becomes queries that are judged in what was shown, and what is left out is counted by its reason."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest

from orion_recall.decisions.feedback import FeedbackMessage, JudgedRecall
from orion_recall.evaluation.dataset import read_queries
from orion_recall.evaluation.feedback import Converted
from tests.samples.evaluation_samples import written

QUESTION = "What did Ana say about the crane?"
RECALL = JudgedRecall(
    decision_id="d-1",
    correlation_id="c-1",
    tenant="acme",
    profile="reflect.v1",
    query=QUESTION,
    query_chars=len(QUESTION),
    asked_at=datetime(2026, 3, 1, 13, 0, tzinfo=timezone(timedelta(hours=1))),
    scope="session",
    session_id="s-1",
    user_id=None,
    intent="repairs",
    query_class="factual",
    shown=("a", "b", "c", "d"),
    live=frozenset("abcd"),
    feedback=(FeedbackMessage(used=("b",), wrong=("a",)),),
)


def test_a_line_is_read_back_as_the_query_that_was_asked(tmp_path: Path) -> None:
    converted = Converted()
    line = converted.add(RECALL, 1)
    assert line is not None
    assert (line["correlation_id"], line["profile"]) == ("c-1", "reflect.v1")
    (query,) = read_queries(written(tmp_path, "q.jsonl", json.dumps(line)))
    assert (query.id, query.conversation, query.text, query.category) == ("d-1", "acme", QUESTION, "factual")
    assert (query.scope, query.session_id, query.user_id, query.intent) == ("session", "s-1", None, "repairs")
    assert query.asked_at == datetime(2026, 3, 1, 12, 0, tzinfo=UTC).timestamp()
    assert (query.evidence, query.wrong, query.shown) == (frozenset("b"), frozenset("a"), ("a", "b", "c", "d"))
    assert query.scored
    assert (converted.queries, converted.used, converted.wrong, converted.passed_over) == (1, 1, 1, 2)


@pytest.mark.parametrize(
    ("said", "used", "wrong"),
    [
        ((FeedbackMessage(used=("a",), wrong=()), FeedbackMessage(used=("b",), wrong=("a",))), ["b"], ["a"]),
        ((FeedbackMessage(used=(), wrong=("a",)), FeedbackMessage(used=("a",), wrong=())), ["a"], []),
        ((FeedbackMessage(used=("a", "b"), wrong=("a",)),), ["b"], ["a"]),
        ((FeedbackMessage(used=("d", "a"), wrong=()), FeedbackMessage(used=("a",), wrong=())), ["a", "d"], []),
    ],
)
def test_the_last_word_on_a_memory_counts_and_wrong_before_used(
    said: tuple[FeedbackMessage, ...], used: list[str], wrong: list[str]
) -> None:
    line = Converted().add(replace(RECALL, feedback=said), len(said))
    assert line is not None
    assert (line["evidence"], line["wrong"]) == (used, wrong)


@pytest.mark.parametrize("text", ["", " ", "blake2b:0123456789abcdef0123456789abcdef"])
def test_a_text_that_was_not_kept_is_no_question(text: str) -> None:
    converted = Converted()
    assert converted.add(replace(RECALL, query=text), 1) is None
    assert converted.left_out == {"text_not_kept": 1}


def test_where_nothing_was_of_use_nothing_is_known_of_what_would_have_been() -> None:
    converted = Converted()
    for said in ((FeedbackMessage(used=(), wrong=("a", "b", "c", "d")),), (FeedbackMessage(used=(), wrong=()),)):
        assert converted.add(replace(RECALL, feedback=said), 1) is None
    assert converted.left_out == {"nothing_used": 2}


def test_memories_that_are_gone_or_were_not_shown_are_left_out_and_counted() -> None:
    converted = Converted()
    line = converted.add(
        replace(RECALL, feedback=(FeedbackMessage(used=("b", "z"), wrong=("c",)),), live=frozenset("abd")), 1
    )
    assert line is not None
    assert (line["evidence"], line["wrong"], line["shown"]) == (["b"], [], ["a", "b", "d"])
    assert (converted.not_shown, converted.gone) == (1, 1)
    assert converted.add(replace(RECALL, live=frozenset("acd")), 1) is None
    assert converted.add(replace(RECALL, feedback=(FeedbackMessage(used=("z",), wrong=()),)), 1) is None
    assert converted.left_out == {"used_is_gone": 1, "nothing_used": 1}
