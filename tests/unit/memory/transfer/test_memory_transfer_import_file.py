from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orion_recall.contracts import MemoryReceiptV1, MemoryVerdictV1
from orion_recall.errors import ImportFileError
from orion_recall.memory.transfer import import_file
from orion_recall.memory.transfer.import_file import ImportProgress, ImportSummary, read_batches
from orion_recall.memory.transfer.import_mapping import ImportMapping, read_mapping

PLAIN = ImportMapping()


def write(path: Path, *lines: str | bytes) -> Path:
    file = path / "memories.jsonl"
    file.write_bytes(b"\n".join(line if isinstance(line, bytes) else line.encode() for line in lines))
    return file


def good(name: str) -> str:
    return json.dumps({"id": name, "text": f"text of {name}"})


@pytest.mark.parametrize("kind", ["a folder", "a pipe, a socket or a device"])
def test_what_is_no_file_is_said_at_once(tmp_path: Path, kind: str) -> None:
    place = tmp_path / "memories"
    if kind == "a folder":
        place.mkdir()
    else:
        os.mkfifo(place)  # opening it would wait for a writer for ever
    with pytest.raises(ImportFileError, match=f"memories: is {kind}; give a file"):
        list(read_batches(place, PLAIN))
    with pytest.raises(ImportFileError, match=f"is {kind}"):
        ImportProgress.open(tmp_path, place, PLAIN, "bus")
    with pytest.raises(ImportFileError, match="/dev/null: is a pipe, a socket or a device"):
        list(read_batches(Path("/dev/null"), PLAIN))


def test_an_id_that_cannot_be_stored_as_it_is_is_a_problem_and_text_is_cleaned(tmp_path: Path) -> None:
    file = write(tmp_path, json.dumps({"id": "a\x00", "text": "x"}), json.dumps({"id": "b", "text": "x\x00"}))
    (batch,) = read_batches(file, PLAIN)
    assert batch.memories == ({"id": "b", "text": "x\ufffd"},)
    assert "id: a name may hold neither NUL" in batch.problems[0].reason


def test_bad_lines_are_problems_with_file_line_and_reason_and_the_others_go_on(tmp_path: Path) -> None:
    file = write(
        tmp_path, good("a"), "{", "", "[1]", b"\xff\xfe", '{"id": "b"}', '{"id":"c","text":"x","n":NaN}',
        "[" * 20_000, '{"id":"d","text":"x","n":' + "9" * 5000 + "}", good("e"), '{"id":"f","text":""}',
    )  # fmt: skip
    [batch] = read_batches(file, PLAIN)
    assert [memory["id"] for memory in batch.memories] == ["a", "e"]
    assert batch.lines == (1, 10)
    assert [problem.line for problem in batch.problems] == [2, 4, 5, 6, 7, 8, 9, 11]
    reasons = [str(problem) for problem in batch.problems]
    assert reasons[0].startswith(f"{file}:2: not JSON")
    assert "one JSON object a line" in reasons[1]
    assert "not UTF-8 at byte 0" in reasons[2]
    assert "text: Field required" in reasons[3]
    assert "NaN" in reasons[4]
    assert "nested too deeply" in reasons[5]
    assert "text: String should have at least 1 character" in reasons[7], "it is there"
    assert batch.end.line == 11
    assert batch.end.offset == file.stat().st_size
    [batch] = read_batches(file, PLAIN, called="what was piped")
    assert str(batch.problems[0]).startswith("what was piped:2: not JSON")


def test_a_mark_at_the_beginning_of_the_file_is_no_part_of_the_first_line(tmp_path: Path) -> None:
    [batch] = read_batches(write(tmp_path, b"\xef\xbb\xbf" + good("a").encode()), PLAIN)
    assert [memory["id"] for memory in batch.memories] == ["a"]


def test_a_naive_time_stops_the_import_at_its_line(tmp_path: Path) -> None:
    file = write(tmp_path, good("a"), '{"id":"b","text":"x","occurred_at":"2026-01-01T10:00:00"}')
    with pytest.raises(ImportFileError, match=r":2: occurred_at: .* give --timezone"):
        list(read_batches(file, PLAIN))
    [batch] = read_batches(file, read_mapping(timezone="UTC"))
    assert batch.memories[1]["occurred_at"] == "2026-01-01T10:00:00+00:00"


def test_a_file_that_is_not_there_is_an_import_error(tmp_path: Path) -> None:
    with pytest.raises(ImportFileError, match=r"none\.jsonl"):
        list(read_batches(tmp_path / "none.jsonl", PLAIN))


def test_an_empty_file_has_no_batches(tmp_path: Path) -> None:
    assert list(read_batches(write(tmp_path, ""), PLAIN)) == []


def test_a_line_that_is_too_long_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(import_file, "MAX_LINE_BYTES", 100)
    [batch] = read_batches(write(tmp_path, good("a" * 1000), good("b")), PLAIN)
    assert [memory["id"] for memory in batch.memories] == ["b"]
    assert "longer than 100 bytes" in batch.problems[0].reason


def test_a_batch_is_closed_by_its_size_in_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(import_file, "MAX_BATCH_BYTES", 60)
    sizes = [len(batch.memories) for batch in read_batches(write(tmp_path, *map(good, "abcde")), PLAIN)]
    assert sizes == [2, 2, 1]


@given(count=st.integers(0, 30), batch_size=st.integers(1, 10), stop=st.integers(0, 30))
def test_an_import_taken_up_again_reads_every_line_once(
    tmp_path: Path, count: int, batch_size: int, stop: int
) -> None:
    lines = [good(f"é{index}") if index % 4 else "bad" for index in range(count)]
    file = write(tmp_path, *lines)
    first = list(read_batches(file, PLAIN, batch_size=batch_size))[:stop]
    start = first[-1].end if first else None
    batches = [*first, *read_batches(file, PLAIN, start=start, batch_size=batch_size + 1)]
    seen = [line for batch in batches for line in batch.lines]
    bad = [problem.line for batch in batches for problem in batch.problems]
    assert seen == [index + 1 for index in range(count) if index % 4]
    assert bad == [index + 1 for index in range(count) if index % 4 == 0]


def test_the_summary_counts_lines_and_names_the_line_of_a_verdict(tmp_path: Path) -> None:
    file = write(tmp_path, "bad", good("a"), good("b"), good("c"))
    [batch] = read_batches(file, PLAIN)
    summary = ImportSummary(file=str(file))
    receipt = MemoryReceiptV1(
        stored=1,
        unchanged=1,
        conflict=1,
        rejected=0,
        results=[
            MemoryVerdictV1(id="a", status="stored"),
            MemoryVerdictV1(id="b", status="conflict", reason="other content"),
            MemoryVerdictV1(id="c", status="unchanged"),
        ],
    )
    summary.add(batch, receipt)
    assert (
        summary.describe() == f"{file}: 4 lines read, 1 stored, 1 unchanged, 1 in conflict, 1 rejected; "
        "3 without a date (occurred_at: see --map)"
    )
    assert [problem.line for problem in summary.problems] == [1, 3]
    assert "other content" in summary.problems[1].reason


def test_the_summary_keeps_a_hundred_problems_and_counts_all(tmp_path: Path) -> None:
    file = write(tmp_path, *["bad"] * 150)
    summary = ImportSummary(file=str(file))
    for batch in read_batches(file, PLAIN, batch_size=40):
        summary.add(batch, None)
    assert (summary.read, summary.rejected, len(summary.problems)) == (150, 150, 100)


def test_the_problems_of_a_batch_come_in_the_order_of_lines(tmp_path: Path) -> None:
    file = write(tmp_path, good("a"), "{")
    [batch] = read_batches(file, PLAIN)
    summary = ImportSummary(file=str(file))
    reason = "memories.0.kind: 'gossip' is no kind of memory"
    told = [MemoryVerdictV1(id="a", status="rejected", reason=reason)]
    summary.add(batch, MemoryReceiptV1(stored=0, unchanged=0, conflict=0, rejected=1, results=told))
    assert [problem.line for problem in summary.problems] == [1, 2]
    assert summary.problems[0].reason == "rejected 'a': kind: 'gossip' is no kind of memory"


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ('{"id": "a", "text": "one", "text": "two"}', "the field 'text' is given twice"),
        ('{"id": "a", "text": "x", "metadata": {"b": 1, "b": 2}}', "the field 'b' is given twice"),
        ('{"id": "a", "text": "x", "n": -' + "9" * 5000 + "}", "the number -999.* has 5001 digits"),
        ('{"id": "a", "text": "x", "confidence": true}', r"confidence: expected a number \(got True\)"),
    ],
)
def test_nothing_of_a_line_is_dropped_silently(tmp_path: Path, line: str, why: str) -> None:
    (batch,) = read_batches(write(tmp_path, line, good("m")), PLAIN)
    assert [memory["id"] for memory in batch.memories] == ["m"]
    assert re.fullmatch(why, batch.problems[0].reason)


@pytest.mark.parametrize("odd", ["1e400", "NaN", "[" * 120 + "]" * 120])
def test_a_line_that_no_message_could_carry_costs_only_itself(tmp_path: Path, odd: str) -> None:
    bad = f'{{"id": "e", "text": "x", "metadata": {{"a": {odd}}}}}'
    (batch,) = read_batches(write(tmp_path, bad, good("m")), read_mapping())
    assert [memory["id"] for memory in batch.memories] == ["m"]
    assert [problem.line for problem in batch.problems] == [1]
