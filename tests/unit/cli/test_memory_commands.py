"""`orion-recall memory`: what is refused before anything is sent, and what is printed of the record."""

from __future__ import annotations

import io
import json
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from orion_recall.cli.main import run
from orion_recall.cli.memory import browse
from orion_recall.cli.memory.import_ import lines_of
from orion_recall.cli.memory.write import conditions_of, confirmed, fields_of
from orion_recall.contracts import MemoryWhereV1
from orion_recall.errors import ImportFileError, SettingsError
from orion_recall.memory.record.reader import ListedMemory, MemoryDetails
from orion_recall.values import Memory, Statement

NOON = datetime(2026, 3, 9, 12, tzinfo=UTC)
MEMORY = Memory(
    tenant="default", id="m-1", text="The crane is repaired.", kind="world", text_hash="h", content_hash="c",
    speaker="Ana", occurred_at=NOON.timestamp(), tags=("harbour",), metadata={"mood": "calm"},
    statements=(Statement(subject="crane", relation="is", object="repaired"),), superseded_by="m-2",
)  # fmt: skip
DETAILS = MemoryDetails(
    memory=MEMORY, recorded_at=NOON, updated_at=None, steps=1, replaced=(), accesses=1, accessed_at=NOON, used=2,
    wrong=0, extraction_due="llm",
)  # fmt: skip


def listed(name: str, **fields: Any) -> ListedMemory:
    given: dict[str, Any] = {
        "at": NOON, "is_dated": True, "recorded_at": NOON, "text": f"text of {name}", "kind": "world",
        "title": None, "speaker": None, "session_id": None, "user_id": None, "tags": (), "version": 1,
    }  # fmt: skip
    return ListedMemory(id=name, **given | fields)


class Browser:
    """A record of three memories; it keeps what it was asked for."""

    asked: tuple[Any, ...] = ()

    def __init__(self, _pool: object) -> None:
        pass

    async def newest(self, *asked: Any) -> list[ListedMemory]:
        """All of them."""
        Browser.asked = asked
        found = [
            listed("m-1", speaker="Ana", tags=("harbour", "quay")),
            listed("m-2", is_dated=False),
            listed("m-3"),
        ]
        return found[: asked[-1]]

    async def search(self, *asked: Any) -> list[ListedMemory]:
        """The one there is."""
        Browser.asked = asked
        return [listed("m-1", text="x " * 999, passage="the crane at the quay", score=0.5)]

    async def details(self, _tenant: str, memory_id: str) -> MemoryDetails | None:
        """Of that one."""
        return DETAILS if memory_id == "m-123" else None


@pytest.fixture
def record(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ORION_POSTGRES_DSN", "postgresql://nobody@127.0.0.1:1/none")
    monkeypatch.setenv("ORION_REDIS_URL", "redis://127.0.0.1:1")
    monkeypatch.setattr(browse, "RecordBrowser", Browser)


def test_a_list_is_a_table_with_undated_memories_marked(record: None, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["memory", "list", "--limit", "2"]) == 0
    printed = capsys.readouterr()
    assert [line.rstrip() for line in printed.out.splitlines()] == [
        "at (UTC)           id   what it says",
        "2026-03-09 12:00   m-1  Ana: text of m-1 [harbour, quay]",
        "2026-03-09 12:00*  m-2  text of m-2",
    ]
    assert printed.err.splitlines() == [
        "* undated: stored at this time",
        "limited to 2 memories: --limit shows more",
    ]
    assert Browser.asked == ("default", None, 3)


def test_the_filters_of_a_list_are_conditions_on_the_record(record: None) -> None:
    line = "memory list --since 2026-03-01 --until 2026-03-02 --timezone +01:00 --user u --session s"
    assert run([*line.split(), "--kind", "plan", "--tag", "a", "--tag", "b", "--tenant", "acme"]) == 0
    since = datetime(2026, 2, 28, 23, tzinfo=UTC)
    where = MemoryWhereV1(
        since=since, until=since + timedelta(days=2), user_id="u", session_id="s", kinds=("plan",), tags=("a", "b")
    )
    assert Browser.asked == ("acme", where, 21)


def test_a_list_with_words_is_a_search(record: None, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["memory", "list", "crane", "north quay"]) == 0
    assert Browser.asked[1] == 'crane "north quay"'
    assert "the crane at the quay" in capsys.readouterr().out
    assert run(["memory", "list", "crane -gearbox", "--json"]) == 0
    assert Browser.asked[1] == "crane -gearbox"
    (one,) = json.loads(capsys.readouterr().out)["memories"]
    assert (one["id"], one["score"], one["at"]) == ("m-1", 0.5, "2026-03-09T12:00:00+00:00")


def test_one_memory_is_shown_with_all_that_is_known_about_it(
    record: None, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["memory", "show", "m-123"]) == 0
    lines = capsys.readouterr().out.splitlines()
    rows = {name: value.strip() for name, value in (line.split("  ", 1) for line in lines)}
    assert rows["state"] == "superseded by m-2"
    assert rows["occurred at"] == "2026-03-09 12:00:00"
    assert rows["statements"] == "crane - is - repaired"
    assert (rows["extraction due"], rows["tags"], rows["used"]) == ("llm", "harbour", "2")
    assert not {"title", "uri", "updated at", "wrong"} & rows.keys()
    assert run(["memory", "show", "m-123", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["id"], told["live"], told["occurred_at"]) == ("m-1", False, "2026-03-09T12:00:00+00:00")
    assert (told["accesses"], told["used"], told["statements"][0]["object"]) == (1, 2, "repaired")
    assert run(["memory", "show", "m-12", "--json"]) == 1
    error = json.loads(capsys.readouterr().out)["error"]
    assert error == {"type": "NotFound", "message": "no memory of 'default' has the id 'm-12'"}


def test_without_anybody_to_ask_nothing_is_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    with pytest.raises(SettingsError, match=r"^delete 1 memory\?.*give --yes"):
        confirmed("delete 1 memory?", ["m-1"], 1, as_json=False)
    with pytest.raises(SettingsError, match=r"With --json nobody is asked: give --yes"):
        confirmed("delete 1 memory?", ["m-1"], 1, as_json=True)
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))
    assert confirmed("delete 1 memory?", ["m-1"], 1, as_json=False)


@pytest.mark.parametrize(
    ("pairs", "why"),
    [
        (["speaker"], "write FIELD=VALUE"),
        (["=Ana"], "write FIELD=VALUE"),
        (["spaker=Ana"], "no field 'spaker'"),
        (["id=m-2"], "id is no field to set: give the ID itself"),
        (["tenant=t"], "tenant is no field to set: give --tenant"),
        (["tags=a", "title=x", "tags=b"], "'tags' is given twice"),
        (['metadata={"a":'], "is not JSON"),
    ],
)
def test_a_set_that_would_not_do_what_it_says_is_refused(pairs: list[str], why: str) -> None:
    with pytest.raises(SettingsError, match=why):
        fields_of(pairs)


def test_a_value_may_hold_anything_and_nothing_clears() -> None:
    odd = 'a=b; "c" {d} \\ </script>\n'
    assert fields_of([f"speaker={odd}", "title=", "tags=a, b,", "confidence=0.5"]) == {
        "speaker": odd,
        "title": None,
        "tags": ["a", "b"],
        "confidence": 0.5,
    }


@pytest.mark.parametrize(
    ("pairs", "why"),
    [
        ([], "at least one"),
        (["tags=a", "tags=b"], "'tags' is given twice"),
        (["since=soon"], "'soon' is no time"),
        (["sesion=s-17"], r"no condition 'sesion'; there are .*session_id"),
    ],
)
def test_conditions_that_would_match_more_than_is_meant_are_refused(pairs: list[str], why: str) -> None:
    with pytest.raises(SettingsError, match=why):
        conditions_of(pairs)


def test_an_import_of_standard_input_can_be_read_twice_and_is_gone_after(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b'{"id": "a"}\nno\xffline\n')))
    with lines_of(Path("-")) as path:
        assert [path.read_bytes() for _ in range(2)] == [b'{"id": "a"}\nno\xffline\n'] * 2
    assert not path.exists()
    with lines_of(tmp_path / "m.jsonl") as path:
        assert path == tmp_path / "m.jsonl"
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    with pytest.raises(ImportFileError, match="pipe lines into it"), lines_of(Path("-")):
        pass
