from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from orion_recall.errors import EvaluationError
from orion_recall.evaluation.dataset import read_memories, read_queries, read_run
from tests.samples.evaluation_samples import written

QUERY: dict[str, Any] = {"query_id": "q1", "conversation_id": "c", "query": "where?", "evidence": ["m1"]}
MEMORY: dict[str, Any] = {"memory_id": "m1", "conversation_id": "c", "text": "Ana lives in Oslo."}


def test_a_query_is_read_with_its_own_now_in_utc(tmp_path: Path) -> None:
    file = written(
        tmp_path,
        "q",
        {**QUERY, "query_date": "2023-10-22T09:55:00", "category": 2, "answer": 7, "scored": False},
        "",
        {**QUERY, "query_id": "q2", "query_date": "2023-10-22T11:55:00+02:00", "evidence": ["m1", "m1", "m2"]},
        {**QUERY, "query_id": "q3"},
    )
    first, second, third = read_queries(file)
    assert first.asked_at == second.asked_at == 1_697_968_500.0
    assert (first.category, first.scored, first.line) == ("2", False, 1)
    assert (second.evidence, second.line, third.asked_at, third.scored) == (frozenset(("m1", "m2")), 3, None, True)


def test_a_limit_stops_before_what_it_leaves_out(tmp_path: Path) -> None:
    file = written(tmp_path, "q", QUERY, "not json")
    assert [query.id for query in read_queries(file, limit=1)] == ["q1"]


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("not json", ":2: .*Invalid JSON"),
        ("[1]", ":2: .*"),
        ({**QUERY, "query_id": "q2", "query": ""}, ":2: query: "),
        ({"query_id": "q2", "query": "x"}, ":2: conversation_id: Field required"),
        ({**QUERY, "query_id": "q2", "evidence": "m1"}, ":2: evidence: "),
        ({**QUERY, "query_id": "q2", "query_date": "May"}, ":2: query_date: 'May' is not an ISO 8601 time"),
        (QUERY, ":2: query_id 'q1' is in line 1 already"),
        ({**QUERY, "query_id": "q2", "wrong": ["m2"]}, ":2: .*wrong needs shown"),
        ({**QUERY, "query_id": "q2", "wrong": ["m1"], "shown": ["m1"]}, ":2: .*'m1' is evidence and wrong"),
        ({**QUERY, "query_id": "q2", "shown": ["m2"]}, ":2: .*'m1' is judged and was not shown"),
        ({**QUERY, "query_id": "q2", "scope": "session"}, ":2: .*scope session needs session_id"),
        ({**QUERY, "query_id": "q2", "scope": "user"}, ":2: .*scope user needs user_id"),
        ({**QUERY, "query_id": "q2", "scope": "all"}, ":2: scope: "),
    ],
)
def test_a_bad_query_is_named_with_file_and_line(tmp_path: Path, line: object, told: str) -> None:
    file = written(tmp_path, "q.jsonl", QUERY, line)
    with pytest.raises(EvaluationError, match=f"^{file}{told}"):
        read_queries(file)


def test_empty_and_absent_files_are_refused(tmp_path: Path) -> None:
    empty = written(tmp_path, "empty")
    for read, told in ((read_queries, "no query"), (read_run, "no line"), (read_memories, "no memory")):
        with pytest.raises(EvaluationError, match=told):
            read(empty)
    with pytest.raises(EvaluationError, match="No such file"):
        read_queries(tmp_path / "nowhere")


def test_a_run_of_somebody_elses_needs_no_bundle(tmp_path: Path) -> None:
    file = written(
        tmp_path,
        "r",
        {"query_id": "q1", "ranked": ["m1", "m2"]},
        {"query_id": "q2", "ranked": [], "selected": ["m1"], "tokens": 9},
    )
    run = read_run(file)
    assert (run["q1"].ranked, run["q1"].selected) == (("m1", "m2"), None)
    assert (run["q2"].ranked, run["q2"].selected) == ((), ("m1",))
    bad: tuple[tuple[dict[str, Any], str], ...] = (
        ({"query_id": "q1"}, "ranked: Field required"),
        ({"query_id": 1, "ranked": []}, "line 1"),
    )
    for line, told in bad:
        with pytest.raises(EvaluationError, match=f":2: .*{told}"):
            read_run(written(tmp_path, "bad", {"query_id": "1", "ranked": []}, line))


def test_an_export_of_the_record_is_read_as_it_is(tmp_path: Path) -> None:
    exported = {"id": "m1", "tenant": "acme", "text": "Ana lives in Oslo.", "occurred_at": "2026-03-01T12:00:00Z"}
    file = written(tmp_path, "m", {**exported, "metadata": {"memory_id": "of another"}}, {**exported, "id": "m2"})
    first, second = read_memories(file)
    assert (first.tenant, first.id, first.occurred_at, second.id) == ("acme", "m1", 1_772_366_400.0, "m2")
    assert first.metadata == {"memory_id": "of another"}
    with pytest.raises(EvaluationError, match="conversation_id: Field required"):
        read_memories(written(tmp_path, "none", {"id": "m1", "text": "Ana lives in Oslo."}))


def test_memories_are_composed_with_their_conversation_as_tenant(tmp_path: Path) -> None:
    file = written(
        tmp_path,
        "m",
        {**MEMORY, "turn_datetime": "2023-05-08T13:56:00", "session_id": "s", "speaker": "Ana"},
        {**MEMORY, "memory_id": "m2", "session_datetime": "2023-05-08T13:56:00", "turn_datetime": None},
        {**MEMORY, "conversation_id": "d", "session_datetime": None, "title": "Ana"},
    )
    dated, by_session, undated = read_memories(file)
    assert (dated.tenant, dated.id, dated.session_id, dated.occurred_at) == ("c", "m1", "s", 1_683_554_160.0)
    assert by_session.occurred_at == dated.occurred_at
    assert (undated.tenant, undated.occurred_at, undated.title) == ("d", None, "Ana")
    assert "Oslo" in dated.entities


def test_all_bad_memories_are_named_up_to_five(tmp_path: Path) -> None:
    bare: dict[str, Any] = {"memory_id": "m2", "conversation_id": "c"}
    file = written(tmp_path, "m", MEMORY, "x", bare, {"memory_id": "m3", "text": "t"}, MEMORY, *["y"] * 4)
    with pytest.raises(EvaluationError) as caught:
        read_memories(file)
    lines = str(caught.value).splitlines()
    assert len(lines) == 6
    assert {line.split(":")[1] for line in lines[:5]} <= {"2", "3", "4", "5", "6", "7", "8", "9"}
    assert lines[5] == "… and 3 more"
    with pytest.raises(EvaluationError, match="memory_id 'm1' is in line 1 already"):
        read_memories(written(tmp_path, "twice", MEMORY, MEMORY))
    with pytest.raises(EvaluationError, match="conversation_id: Field required"):
        read_memories(written(tmp_path, "nobody", {"memory_id": "m3", "text": "t"}))
