"""Sources of other packages: whatever they raise, give or take too long for costs their own hits alone."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from typing import Any

import pytest

from orion_recall.errors import ScopeNotKept, SettingsError, SourceError, TransientSourceError
from orion_recall.interfaces import Unavailable
from orion_recall.source_specs import OpenSource, SourceSettings, SourceSpec
from orion_recall.sources import further
from orion_recall.sources.further import FurtherSource, open_further, open_one
from orion_recall.values import Hit, Question, Scope, SearchRequest

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
        if isinstance(self.found, Exception):
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
    async def opened(_: SourceSettings) -> AsyncGenerator[Notes]:
        yield notes
        if closed is not None:
            closed.append("closed")
            raise OSError("while it is closed")

    return opened


@pytest.fixture(autouse=True)
def of_a_package(monkeypatch: pytest.MonkeyPatch) -> None:
    def package_of(_: str) -> str:
        return "notes 1.0"

    monkeypatch.setattr(further, "package_of", package_of)


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
        ([(1, 2.0)], "unexpected: ValueError"),
        (None, "unexpected: TypeError"),
    ],
)
async def test_anything_else_is_an_error_without_its_text(found: Any, told: str, caplog: pytest.LogCaptureFixture):
    with pytest.raises(SourceError) as caught:
        await FurtherSource(spec(), Notes(found)).search(REQUEST)
    assert str(caught.value) == told
    assert "the source notes failed" in caplog.text and "the text of a memory" not in caplog.text


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


async def test_what_cannot_be_opened_says_why_and_the_others_are_there(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    def unset(_: SourceSettings) -> Any:
        raise SettingsError("set NOTES_DIR")

    @contextlib.asynccontextmanager
    async def hanging(_: SourceSettings) -> AsyncGenerator[Notes]:
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
