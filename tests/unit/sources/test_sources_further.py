"""Sources of other packages: whatever they raise, give or take too long for costs their own hits alone."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from orion_recall.errors import (
    PartialSourceError,
    ScopeNotKept,
    SettingsError,
    SourceError,
    TransientSourceError,
)
from orion_recall.interfaces import Unavailable
from orion_recall.packages import PackageSettings
from orion_recall.source_specs import FURTHER_SOURCES, OpenSource, SourceSpec
from orion_recall.sources import further
from orion_recall.sources.further import FurtherSource, open_further, open_one
from orion_recall.sources.hits import MOST_LINE, MOST_TAGS, MOST_TEXT
from orion_recall.values import Hit, MemoryView, Question, Scope, SearchRequest, SuccessionLink, ToldTime


class Abrupt(BaseException):
    pass


QUESTION = Question(text="crane", dense_text="", keyword_text="", terms=frozenset(), now=0.0, text_hash="")
REQUEST = SearchRequest(question=QUESTION, scope=Scope(tenant="default"), limit=2)


class Settings:
    data_dir = Path()
    tenants = ("default",)
    default_tenant = "default"


class Notes:
    """A source that gives, or raises, what it is told to."""

    name = "notes"

    def __init__(self, found: Any) -> None:
        self.found = found

    def answers_for(self, tenant: str) -> bool:
        if tenant == "unclear":
            raise KeyError(tenant)
        return tenant == "default"

    async def search(self, request: SearchRequest) -> Sequence[Hit]:
        if isinstance(self.found, BaseException):
            raise self.found
        return self.found


def spec(source: OpenSource | None = None, **fields: Any) -> SourceSpec:
    given: dict[str, Any] = {
        "name": "notes",
        "label": "notes",
        "title": "the notes",
        "found_by": "in notes",
        "found_in": "notes",
        "source_ref": "notes",
        "open": source,
    }
    return SourceSpec(**{**given, **fields})


def opening(notes: Notes, closed: list[str] | None = None) -> Any:
    @contextlib.asynccontextmanager
    async def opened(_: PackageSettings) -> AsyncGenerator[Notes]:
        yield notes
        if closed is not None:
            closed.append("closed")
            raise OSError("while it is closed")

    return opened


@pytest.fixture(autouse=True)
def of_a_package(monkeypatch: pytest.MonkeyPatch) -> None:
    def package_of(_: str) -> str:
        return "notes 1.0"

    monkeypatch.setattr(FURTHER_SOURCES, "package_of", package_of)


async def test_its_hits_come_best_first_and_no_more_than_asked_for():
    hits = [Hit(key=1, score=0.1), Hit(key=2, score=3), Hit(key=3, score=3)]
    found = await FurtherSource(spec(), Notes(hits)).search(REQUEST)
    assert [(hit.key, hit.score) for hit in found] == [(2, 3.0), (3, 3.0)]


@pytest.mark.parametrize("raised", [ScopeNotKept("no tags"), TransientSourceError("away"), SourceError("no")])
async def test_an_error_of_ours_stays_what_it_is(raised: SourceError):
    with pytest.raises(type(raised)) as caught:
        await FurtherSource(spec(), Notes(raised)).search(REQUEST)
    assert caught.value is raised


@pytest.mark.parametrize(
    ("found", "told"),
    [
        (OSError("the text of a memory"), "unexpected: OSError"),
        ([Hit(key=1, score=float("nan"))], "unexpected: ValueError"),
        ([(1, 2.0)], "unexpected: TypeError"),
        (None, "unexpected: TypeError"),
        (asyncio.CancelledError(), "unexpected: CancelledError"),
        (SystemExit("the text of a memory"), "unexpected: SystemExit"),
        (BaseExceptionGroup("two", [Abrupt()]), "unexpected: BaseExceptionGroup"),
        (PartialSourceError("half", [(1, 2.0)]), "unexpected: TypeError"),
        (PartialSourceError("half", [Hit(key=1, score=float("nan"))]), "unexpected: ValueError"),
    ],
)
async def test_anything_else_is_an_error_without_its_text(found: Any, told: str, caplog: pytest.LogCaptureFixture):
    with pytest.raises(SourceError) as caught:
        await FurtherSource(spec(), Notes(found)).search(REQUEST)
    assert str(caught.value) == told
    assert "the source notes failed" in caplog.text and "the text of a memory" not in caplog.text


@pytest.mark.parametrize(
    "wrong",
    [
        {"key": -1},
        {"key": 2**63},
        {"key": True},
        {"key": "12"},
        {"score": "1"},
        {"score": 10**400},
        {"statements": (1, 2)},
        {"statements": None},
        {"path": "x"},
        {"path": float("nan")},
        {"source_ref": 5},
    ],
)
async def test_a_hit_of_other_types_is_refused_before_it_is_fused(wrong: dict[str, Any]):
    given: dict[str, Any] = {"key": 1, "score": 1.0}
    with pytest.raises(SourceError, match=r"unexpected: (Value|Type|Overflow)Error"):
        await FurtherSource(spec(), Notes([Hit(**{**given, **wrong})])).search(REQUEST)


async def test_of_a_partial_answer_the_best_hits_are_kept_as_of_a_whole_one():
    hits = [Hit(key=key, score=key) for key in (1, 3, 2)]
    with pytest.raises(PartialSourceError, match="half") as caught:
        await FurtherSource(spec(), Notes(PartialSourceError("half", hits))).search(REQUEST)
    assert [hit.key for hit in caught.value.hits] == [3, 2]


async def test_a_search_that_is_cancelled_ends():
    class Endless(Notes):
        async def search(self, request: SearchRequest) -> Sequence[Hit]:
            await asyncio.Event().wait()
            return []

    task = asyncio.create_task(FurtherSource(spec(), Endless([])).search(REQUEST))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def read_as(read: Any) -> MemoryView:
    """The memory as a recall reads it from a hit."""
    (found,) = await FurtherSource(spec(), Notes([Hit(key=1, score=1.0, read=read)])).search(REQUEST)
    assert found.read is not None
    return found.read()


def raising(error: BaseException) -> Any:
    def raises(*_: object) -> Any:
        raise error

    return raises


@pytest.mark.parametrize(
    "read",
    [
        *(raising(error("the text of a memory")) for error in (OSError, RuntimeError, Abrupt)),
        raising(asyncio.CancelledError()),
        lambda: {"text": "crane"},
        "no function",
    ],
)
async def test_a_memory_that_cannot_be_read_says_so_without_its_text(read: Any):
    with pytest.raises(SourceError, match=r"unexpected: \w+$"):
        await read_as(read)


@pytest.mark.parametrize(
    "wrong",
    [
        *({"text": text} for text in (None, b"crane", 5)),
        *({"id": name} for name in (None, 5, "n" * 5000)),
        *({"ts": ts} for ts in ("2026", float("nan"), float("inf"), datetime(2026, 1, 1, tzinfo=UTC))),
        *({"tags": tags} for tags in (None, "tag", (1, 2))),
        {"title": 3},
        {"uri": 5},
        {"confidence": "high"},
        {"session_id": "s" * 5000},
        {"told": ((1.0, "x", False),)},
    ],
)
async def test_a_memory_with_fields_of_other_types_cannot_be_read(wrong: dict[str, Any]):
    given: dict[str, Any] = {"id": "notes:1", "text": "crane", "text_hash": "h"}
    with pytest.raises(SourceError, match=r"unexpected: \w+$"):
        await read_as(lambda: MemoryView(**{**given, **wrong}))


async def test_a_memory_is_bounded_can_be_stored_and_leads_to_no_memory_of_ours():
    link = SuccessionLink(key=7, id="secret", at=0.0, reason="supersedes")
    tags = ("runbook\ud800",) * 1000
    given = MemoryView(
        id="notes:1",
        text="crane \ud800" + "x" * MOST_TEXT,
        text_hash="h",
        title="t" * 5000,
        ts=5,
        tags=tags,
        told=(ToldTime(1.0, 2.0),),
        beside=(7,),
        succeeded_by=(link,),
        passages=(0,),
    )
    read: list[int] = []

    def counted() -> MemoryView:
        read.append(1)
        return given

    (hit,) = await FurtherSource(spec(), Notes([Hit(key=1, score=1.0, read=counted)])).search(REQUEST)
    assert hit.read is not None
    memory = hit.read()
    assert hit.read() is memory and len(read) == 1
    assert memory.text.startswith("crane \ufffdx") and len(memory.text) == MOST_TEXT
    assert memory.title == "t" * MOST_LINE and memory.tags == ("runbook\ufffd",) * MOST_TAGS
    assert (memory.ts, memory.told) == (5.0, (ToldTime(1.0, 2.0),))
    assert memory.beside == memory.succeeded_by == memory.passages == ()


def test_a_source_whose_answers_for_gives_no_bool_answers_for_nobody():
    notes: Any = Notes([])

    def answers_for(_: str) -> object:
        return object()  # as a coroutine, which is true

    notes.answers_for = answers_for
    assert not FurtherSource(spec(), notes).answers_for("default")


def test_a_source_that_cannot_say_for_whom_it_answers_answers_for_nobody():
    source = FurtherSource(spec(), Notes([]))
    assert [source.answers_for(tenant) for tenant in ("default", "another", "unclear")] == [True, False, False]


async def test_it_is_opened_checked_and_closed_and_a_fault_while_closing_is_logged(
    caplog: pytest.LogCaptureFixture,
):
    closed: list[str] = []

    async def check(source: Any) -> str:
        return f"{len(source.found)} notes"

    async with contextlib.AsyncExitStack() as stack:
        source = await open_one(spec(opening(Notes([1, 2]), closed), check=check), Settings(), stack)
        assert await source.check() == "2 notes" and closed == []
    assert closed == ["closed"] and "could not be closed" in caplog.text


async def test_a_source_that_does_not_close_keeps_nothing_from_ending(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    @contextlib.asynccontextmanager
    async def hanging(_: PackageSettings) -> AsyncGenerator[Notes]:
        yield Notes([])
        await asyncio.Event().wait()

    monkeypatch.setattr(further, "_CLOSE_S", 0.02)
    async with asyncio.timeout(5), contextlib.AsyncExitStack() as stack:
        await open_one(spec(hanging), Settings(), stack)
    assert "could not be closed: TimeoutError" in caplog.text


@pytest.mark.parametrize(
    ("raised", "told"),
    [
        (SettingsError("set NOTES_DIR"), "set NOTES_DIR"),
        (RuntimeError("postgres://ana:secret@db"), "RuntimeError"),
        (TimeoutError("secret"), "TimeoutError"),
        (SystemExit("secret"), "SystemExit"),
        (asyncio.CancelledError("secret"), "CancelledError"),
    ],
)
async def test_of_what_opening_raises_our_own_errors_alone_show_their_text(
    raised: BaseException, told: str, caplog: pytest.LogCaptureFixture
):
    async with contextlib.AsyncExitStack() as stack:
        with pytest.raises(SourceError) as caught:
            await open_one(spec(raising(raised)), Settings(), stack)
    assert str(caught.value) == f"the source notes of the package notes 1.0 cannot be opened: {told}"
    assert "secret" not in caplog.text


async def test_what_cannot_be_opened_says_why_and_the_others_are_there(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    def unset(_: PackageSettings) -> Any:
        raise SettingsError("set NOTES_DIR")

    @contextlib.asynccontextmanager
    async def hanging(_: PackageSettings) -> AsyncGenerator[Notes]:
        await asyncio.Event().wait()
        yield Notes([])

    specs = (spec(unset, name="unset"), spec(hanging, name="slow"), spec(opening(Notes([]))))
    monkeypatch.setattr(further, "further_sources", lambda: specs)
    monkeypatch.setattr(further, "_OPEN_S", 0.05)
    with caplog.at_level(logging.WARNING):
        async with contextlib.AsyncExitStack() as stack:
            found = await open_further(Settings(), stack)
    assert list(found) == ["unset", "slow", "notes"]
    assert isinstance(found["notes"], FurtherSource)
    for name, why in (("unset", "set NOTES_DIR"), ("slow", "it was not open within")):
        source = found[name]
        assert isinstance(source, Unavailable) and source.name == name
        assert source.reason.startswith(f"the source {name} of the package notes 1.0 cannot be opened: {why}")
        assert source.reason in caplog.text
        with pytest.raises(SourceError) as told:  # for whom it would answer is not known
            await source.search(REQUEST)
        assert why not in str(told.value) and "`doctor` say why" in str(told.value)
