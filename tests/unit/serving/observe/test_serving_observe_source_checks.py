from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from orion_recall.errors import SourceError, TransientSourceError
from orion_recall.interfaces import Unavailable
from orion_recall.serving.observe.heartbeat_fields import CopyState
from orion_recall.serving.observe.source_checks import SourceChecks, answers
from orion_recall.settings import Settings
from orion_recall.sources.several_stores import Breaker, SeveralStores
from orion_recall.values import SOURCE_NAMES, Hit, SearchRequest, SourceName


class Store:
    """Finds nothing, or fails as it is told; keeps what it was asked."""

    name: SourceName = "vector"

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.asked: list[SearchRequest] = []

    async def search(self, request: SearchRequest) -> Sequence[Hit]:
        self.asked.append(request)
        if self.error is not None:
            raise self.error
        return []


class Silent(Store):
    async def search(self, request: SearchRequest) -> Sequence[Hit]:
        await asyncio.Event().wait()
        return []


class Graph:
    def __init__(self, error: SourceError | None = None) -> None:
        self.error = error

    async def select(self, query: str) -> Sequence[Mapping[str, str]]:
        if self.error is not None:
            raise self.error
        return []


def running(arms: Mapping[SourceName, Any], *, required: str = "vector", every_s: float = 0.01) -> Any:
    """What a look sees of a service with these arms."""
    sources = SimpleNamespace(by_name=arms, breakers={name: Breaker() for name in SOURCE_NAMES})
    opened = SimpleNamespace(
        sources=sources, graph=None, broken={"index": "no longer JSON"}, tenants_of_others={"notes": "acme"}
    )
    settings = Settings.read(ready_sources=required, look_every_s=every_s, default_tenant="home")
    projector = SimpleNamespace(
        kind="graph", copy="node:/data", lag=4, error=None, projection=SimpleNamespace(damage=None, stalled=None)
    )
    return SimpleNamespace(opened=opened, settings=settings, profiles={}, projectors=[projector])


async def looked(service: Any) -> dict[tuple[str, str], tuple[str, bool, str | None]]:
    """What the first look finds."""
    seen = asyncio.Event()
    look = SourceChecks(service, changed=seen.set)
    task = asyncio.create_task(look.run())
    async with asyncio.timeout(30):
        await seen.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    return {(one.arm, one.store): (one.health, one.required, one.why) for one in look.stores}


async def test_a_store_answers_or_it_is_said_why_not() -> None:
    assert await answers(Store(), "home", within_s=1) is None
    assert await answers(Store(TransientSourceError("away")), "home", within_s=1) == "away"
    assert await answers(Silent(), "home", within_s=0.02) == "no answer within 0.02 s"
    assert await answers(Store(), "home", graph=Graph(), within_s=1) is None
    assert await answers(Store(), "home", graph=Graph(SourceError("no graph")), within_s=1) == "no graph"


async def test_no_look_is_answered_by_a_vector_that_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store()
    for now in (1000.0, 1010.0):
        monkeypatch.setattr("orion_recall.serving.observe.source_checks.time.time", lambda now=now: now)
        await answers(store, "home", within_s=1)
    first, second = (request.question.dense_text for request in store.asked)
    assert first != second


async def test_each_store_of_an_arm_is_asked_as_its_own_tenant() -> None:
    own, notes = Store(), Store(SourceError("no such collection"))
    found = await looked(running({"vector": SeveralStores("vector", {"": own, "notes": notes})}))
    assert found == {
        ("vector", ""): ("ok", True, None),
        ("vector", "notes"): ("failing", True, "no such collection"),
    }
    assert (own.asked[0].scope.tenant, notes.asked[0].scope.tenant) == ("home", "acme")


async def test_what_cannot_be_used_or_is_not_there_is_broken_and_what_nobody_needs_is_not_required() -> None:
    service = running(
        {"vector": Unavailable("vector", "delete it"), "lexical": Store()}, required="vector,sql_timeline"
    )
    assert await looked(service) == {
        ("vector", ""): ("broken", True, "delete it"),
        ("lexical", ""): ("ok", False, None),
        ("sql_timeline", ""): ("broken", True, "not configured"),
    }


async def test_what_nobody_has_foreseen_is_told_and_ends_no_worker() -> None:
    found = await looked(running({"vector": Store(ZeroDivisionError("redis://me:hunter2@bus"))}))
    assert found["vector", ""] == ("failing", True, "unexpected: ZeroDivisionError")


async def test_whoever_is_woken_asks_at_once() -> None:
    store, seen = Store(SourceError("no such table")), asyncio.Event()
    look = SourceChecks(running({"vector": store}, every_s=600), changed=seen.set)
    task = asyncio.create_task(look.run())
    async with asyncio.timeout(30):
        await seen.wait()
        seen.clear()
        store.error = None
        look.wake()
        await seen.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert [(one.health, one.why) for one in look.stores] == [("ok", None)]


def test_where_nobody_looks_it_is_told_what_recalls_have_met() -> None:
    arm = SeveralStores("vector", {"": Store(), "notes": Store()})
    look = SourceChecks(running({"vector": arm}, every_s=0), changed=lambda: None)
    assert [one.health for one in look.stores] == ["unknown", "unknown"]
    for _ in range(3):
        arm.breakers["notes"].record("away", 0.0)
    assert [(one.health, one.why) for one in look.stores] == [("unknown", None), ("failing", "away")]


def test_copies_are_those_that_are_kept_and_those_that_are_broken() -> None:
    look = SourceChecks(running({}, required=""), changed=lambda: None)
    assert look.copies == [
        CopyState(kind="graph", copy="node:/data", behind=4),
        CopyState(kind="index", copy=None, behind=None, error="no longer JSON"),
    ]


class Late:
    def __init__(self, why: str | None = None, error: SourceError | None = None) -> None:
        self.why, self.error = why, error

    async def why_off(self) -> str | None:
        if self.error is not None:
            raise self.error
        return self.why


@pytest.mark.parametrize(
    ("late", "weight", "note"),
    [
        (Late("no tokens"), 1.0, "no late interaction: no tokens"),
        (Late("no tokens"), 0.0, None),
        (Late(), 1.0, None),
        (Late(error=SourceError("away")), 1.0, None),
        (None, 1.0, None),
    ],
)
async def test_late_interaction_that_a_profile_wants_and_does_not_get_is_noted(
    late: Late | None, weight: float, note: str | None
) -> None:
    service = running({"vector": Store()})
    service.profiles = {"one": SimpleNamespace(profile=SimpleNamespace(ranking=SimpleNamespace(late=weight)))}
    whole = SimpleNamespace(damage=None)
    service.projectors = [SimpleNamespace(kind="index", copy="node:/data", lag=0, error=None, projection=whole)]
    service.opened.sources.late_interaction = late
    seen = asyncio.Event()
    look = SourceChecks(service, changed=seen.set)
    task = asyncio.create_task(look.run())
    async with asyncio.timeout(30):
        await seen.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert look.copies[0].note == note
