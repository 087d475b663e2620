from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

from orion_recall.errors import SourceError, TransientSourceError
from orion_recall.interfaces import Unavailable
from orion_recall.serving.observe.source_checks import SourceChecks, answers
from orion_recall.settings import Settings
from orion_recall.sources.breaker import Breaker
from orion_recall.sources.several_stores import SeveralStores
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
