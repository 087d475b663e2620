"""`orion-recall memory list`, `show` and `search`: what is printed of the record."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from orion_recall.cli.main import run
from orion_recall.cli.memory import browse
from orion_recall.contracts import MemoryWhereV1
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

    async def ids_starting(self, _tenant: str, prefix: str, _limit: int) -> list[str]:
        """The one that there is details of."""
        return ["m-123"] if "m-123".startswith(prefix) else []

    async def details(self, _tenant: str, memory_id: str) -> MemoryDetails | None:
        """Of that one."""
        return DETAILS if memory_id == "m-123" else None


@pytest.fixture(autouse=True)
def record(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ORION_POSTGRES_DSN", "postgresql://nobody@127.0.0.1:1/none")
    monkeypatch.setenv("ORION_REDIS_URL", "redis://127.0.0.1:1")
    monkeypatch.setattr(browse, "RecordBrowser", Browser)
    monkeypatch.setattr("orion_recall.cli.memory.ids.RecordBrowser", Browser)


def test_a_list_is_a_table_with_undated_memories_marked(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["memory", "list", "--limit", "2"]) == 0
    printed = capsys.readouterr()
    assert printed.out.splitlines() == [
        "at (UTC)           id   what it says",
        "2026-03-09 12:00   m-1  Ana: text of m-1 [harbour, quay]",
        "2026-03-09 12:00*  m-2  text of m-2",
    ]
    assert printed.err.splitlines() == [
        "* undated: stored at this time",
        "limited to 2 memories: --limit shows more",
    ]


def test_the_filters_of_a_list_are_conditions_on_the_record() -> None:
    line = "memory list --since 2026-03-01 --until 2026-03-02 --timezone +01:00 --user u --session s"
    assert run([*line.split(), "--kind", "plan", "--tag", "a", "--tag", "b", "--tenant", "acme"]) == 0
    since = datetime(2026, 2, 28, 23, tzinfo=UTC)
    where = MemoryWhereV1(
        since=since, until=since + timedelta(days=2), user_id="u", session_id="s", kinds=("plan",), tags=("a", "b")
    )
    assert Browser.asked == ("acme", where, 21)


def test_a_list_without_filters_has_no_conditions() -> None:
    assert run(["memory", "list"]) == 0
    assert Browser.asked == ("default", None, 21)


@pytest.mark.parametrize(("option", "value"), [("--session", "x" * 9999), ("--since", "someday")])
def test_a_filter_that_cannot_be_is_wrong_usage(
    option: str, value: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["memory", "list", option, value]) == 2
    assert option.removeprefix("--") in capsys.readouterr().err


def test_a_search_shows_the_passage_with_the_words(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["memory", "search", "crane", "north quay"]) == 0
    assert Browser.asked[1] == 'crane "north quay"'
    assert "the crane at the quay" in capsys.readouterr().out
    assert run(["memory", "search", "crane -gearbox", "--json"]) == 0
    assert Browser.asked[1] == "crane -gearbox"
    (one,) = json.loads(capsys.readouterr().out)["memories"]
    assert (one["id"], one["score"], one["at"]) == ("m-1", 0.5, "2026-03-09T12:00:00+00:00")


def test_the_help_of_a_search_says_how_it_differs_from_ask(capsys: pytest.CaptureFixture[str]) -> None:
    run(["memory", "search", "--help"])
    told = " ".join(capsys.readouterr().out.split())
    assert "`ask` answers a question instead" in told.replace("ask answers", "`ask` answers")


def test_one_memory_is_shown_with_all_that_is_known_about_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["memory", "show", "m-12"]) == 0
    printed = capsys.readouterr()
    assert "m-12 is m-123" in printed.err
    rows = dict(line.split("  ", 1) for line in printed.out.splitlines())
    assert {name: value.strip() for name, value in rows.items()} == {
        "id": "m-1",
        "tenant": "default",
        "state": "superseded by m-2",
        "text": "The crane is repaired.",
        "kind": "world",
        "speaker": "Ana",
        "occurred at": "2026-03-09 12:00:00",
        "tags": "harbour",
        "metadata.mood": "calm",
        "statement": "crane - is - repaired",
        "extracted by": "light, due again by llm",
        "stored at": "2026-03-09 12:00:00",
        "version": "1, 1 step",
        "in answers": "1 time, last at 2026-03-09 12:00:00 UTC; feedback: 2 used, 0 wrong",
    }


def test_one_memory_as_json_has_its_fields_and_what_is_known(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["memory", "show", "m-123", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["id"], told["live"], told["occurred_at"]) == ("m-1", False, "2026-03-09T12:00:00+00:00")
    assert (told["accesses"], told["used"], told["statements"][0]["object"]) == (1, 2, "repaired")
    assert "memory" not in told


def test_a_memory_that_there_is_not_is_not_found(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["memory", "show", "m-9", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["error"]["type"] == "NotFound"
