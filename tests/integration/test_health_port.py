"""The health port of a running service over HTTP: alive, ready or why not, and numbers that move."""

from __future__ import annotations

import asyncio
import re
import threading
import time
from collections.abc import AsyncGenerator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from executor import Executor, until
from prometheus_client.parser import text_string_to_metric_families
from redis.asyncio import Redis
from serving import OneMemory, opened_with, quick_settings, serving

from orion_recall.client import RecallClient
from orion_recall.engines.embedded import EmbeddedEngines
from orion_recall.models.tokenizer import TokenCounter
from orion_recall.serving.service import Service
from orion_recall.settings import RECALL_GROUP

pytestmark = pytest.mark.slow

REFERENCE = (Path(__file__).parents[2] / "docs/pages/reference/metrics.md").read_text("utf-8")
# Shown once there is something to tell: a decision on the bus, a search that another answered, an answer that was
# withheld.
UNSHOWN = {"orion_recall_decisions_lag", "orion_recall_fallbacks_total", "orion_recall_no_answers_total"}


@pytest.fixture
async def health(service: Service) -> AsyncGenerator[httpx.AsyncClient]:
    """A client of the running service's port."""
    assert service.observer.url is not None
    async with httpx.AsyncClient(base_url=service.observer.url, timeout=60, verify=False) as client:
        yield client


async def readiness(client: httpx.AsyncClient) -> tuple[int, Mapping[str, Any]]:
    answer = await client.get("/ready")
    return answer.status_code, answer.json()["checks"]


async def is_ready(client: httpx.AsyncClient) -> bool:
    return (await readiness(client))[0] == 200


async def numbers(client: httpx.AsyncClient) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """Every sample by name and labels."""
    answer = await client.get("/metrics")
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain")
    families = list(text_string_to_metric_families(answer.text))
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in families
        for sample in family.samples
    }


def sample(name: str, **labels: str) -> tuple[str, frozenset[tuple[str, str]]]:
    return f"orion_recall_{name}", frozenset(labels.items())


async def test_a_service_that_is_well_is_live_and_ready(health: httpx.AsyncClient) -> None:
    live = await health.get("/live")
    assert (live.status_code, live.json()["live"]) == (200, True)
    found: dict[str, Any] = {}

    async def ready() -> bool:
        status, checks = await readiness(health)
        found.update(checks)
        return status == 200

    await until(ready, "ready")
    assert set(found) == {"model", "bus", "vector", "lexical", "rdf", "sql_timeline"}
    assert all(check == {"ok": True} for check in found.values())


async def test_a_service_is_not_ready_while_postgres_is_away_and_says_so(
    health: httpx.AsyncClient, service_engines: EmbeddedEngines
) -> None:
    await until(lambda: is_ready(health), "ready")
    await service_engines.postgres.stop()
    try:

        async def says_so() -> bool:
            status, checks = await readiness(health)
            wrong = {name for name, check in checks.items() if not check["ok"]}
            return status == 503 and wrong == {"sql_timeline"} and "Postgres" in checks["sql_timeline"]["reason"]

        await until(says_so, "not ready for want of the timeline")
        assert (await health.get("/live")).status_code == 200
    finally:
        await service_engines.postgres.start()
    await until(lambda: is_ready(health), "ready again")


async def test_a_service_is_not_ready_without_its_bus_its_group_or_a_source(
    bus: Redis, bus_alone: EmbeddedEngines, service: Service, tokens: TokenCounter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orion_recall.serving.observe.health._FRESH_S", 0.0)
    monkeypatch.setattr("orion_recall.serving.observe.health._CHECK_S", 0.3)
    source = OneMemory()
    opened = replace(opened_with(source, tokens), embedder=service.opened.embedder)
    settings = quick_settings(bus_alone.redis_url, health_port=0)
    async with (
        serving(settings, opened) as (small, _),
        httpx.AsyncClient(base_url=small.observer.url or "", timeout=60, verify=False) as client,
    ):

        async def wrong(name: str, why: str) -> bool:
            status, checks = await readiness(client)
            found = {check: told["reason"] for check, told in checks.items() if not told["ok"]}
            return status == 503 and set(found) == {name} and why in found[name]

        await until(lambda: is_ready(client), "ready")
        source.gate.clear()
        looks = await asyncio.gather(*(small.observer.readiness.check() for _ in range(5)))
        assert len({id(found) for found in looks}) == 1, "those who ask at the same time share a look"
        await until(lambda: wrong("vector", "no answer within 0.3 s"), "the source hangs")
        source.gate.set()
        await until(lambda: is_ready(client), "ready when the source answers")
        await bus_alone.valkey.stop()
        try:
            await until(lambda: wrong("bus", "away"), "the bus is away")
            assert (await client.get("/live")).status_code == 200
        finally:
            await bus_alone.valkey.start()
        await until(lambda: is_ready(client), "ready when the bus is back")
        small.stop()
        await until(lambda: wrong("bus", "stopping"), "not ready when stopping")
    assert await bus.xinfo_groups(settings.query_stream)


async def test_a_missing_group_and_a_model_that_is_not_loaded_are_told(
    bus: Redis, bus_alone: EmbeddedEngines, tokens: TokenCounter
) -> None:
    settings = quick_settings(bus_alone.redis_url, health_port=0, ready_sources="rdf")
    async with serving(settings, opened_with(OneMemory(), tokens)) as (small, _):
        found = await small.observer.readiness.check()
        assert any(found.values())
        assert found["bus"] is None
        assert "not loaded" in (found["model"] or "")
        assert found["rdf"] == "not configured"
        assert "vector" not in found, "the settings name what is required"
        small.stop()
    await bus.xgroup_destroy(settings.query_stream, RECALL_GROUP)
    # It has stopped, so nobody makes the group again; what is asked is asked anew.
    small.observer.readiness.attach(small, bus)
    assert RECALL_GROUP in ((await small.observer.readiness.check())["bus"] or "")


async def test_numbers_move_with_a_recall_and_every_one_is_in_the_reference(
    service: Service, health: httpx.AsyncClient, client: RecallClient
) -> None:
    before = await numbers(health)
    await client.recall("Where does Ana work?", profile="reflect.v1")

    async def counted() -> bool:
        name = sample("recalls_total", outcome="ok", profile="reflect.v1")
        return (await numbers(health))[name] == before.get(name, 0) + 1

    await until(counted, "the recall is counted")
    after = await numbers(health)

    def moved(name: str, **labels: str) -> float:
        return after[sample(name, **labels)] - before.get(sample(name, **labels), 0)

    for stage in ("understand", "search", "fuse", "fetch", "rank", "select"):
        assert moved("stage_duration_seconds_count", stage=stage) == 1
    assert moved("duration_seconds_sum", profile="reflect.v1") >= moved(
        "stage_duration_seconds_sum", stage="search"
    )
    assert moved("source_searches_total", source="vector", status="ok") == 1
    assert moved("source_duration_seconds_count", source="sql_timeline") == 1
    assert moved("results_sum", profile="reflect.v1") >= 1

    async def persisted() -> bool:
        return (await numbers(health))[sample("decisions_total", result="persisted")] > 0

    await until(persisted, "a decision is persisted")
    assert after[sample("source_breaker_open", source="vector")] == 0
    assert {after[sample("projection_behind", copy=copy)] for copy in ("index", "graph")} == {0}
    assert {after[sample("projection_drift_total", copy=copy)] for copy in ("index", "graph")} == {0}
    assert after[sample("in_hand", stream="queries")] >= 0
    assert after[sample("process_memory_bytes")] > 10 << 20
    rows = re.findall(r"^- `[a-z._]+` \(`(orion_recall_\w+)`, [^;)]+([^)]*)\): ", REFERENCE, re.MULTILINE)
    listed = {name: {label.partition(":")[0].strip() for label in labels.split(";")} for name, labels in rows}
    shown = {re.sub(r"_(bucket|count|sum)$", "", name) for name, _ in after}
    assert shown - UNSHOWN == set(listed) - UNSHOWN
    for name, labels in after:
        used = {label for label, _ in labels} - {"le"}
        assert used <= listed[re.sub(r"_(bucket|count|sum)$", "", name)], name


async def test_what_waits_for_an_answer_is_shown_with_its_age(
    bus: Redis, bus_alone: EmbeddedEngines, tokens: TokenCounter
) -> None:
    source = OneMemory()
    settings = quick_settings(bus_alone.redis_url, health_port=0)
    executor = Executor(bus, settings.prefix)
    count, age = (sample(name, stream="queries") for name in ("unanswered", "unanswered_age_seconds"))
    async with (
        serving(settings, opened_with(source, tokens)) as (small, _),
        httpx.AsyncClient(base_url=small.observer.url or "", timeout=60) as client,
    ):
        found = await numbers(client)
        assert (found[count], found[age]) == (0, 0)
        source.gate.clear()
        asked = await executor.ask({"fragment": "Who feeds the gulls?"})

        async def waits() -> bool:
            found = await numbers(client)
            return found[count] == 1 and found[age] > 0.2

        await until(waits, "a query that has waited for two refreshes")
        source.gate.set()
        await executor.ended(asked)

        async def none_waits() -> bool:
            found = await numbers(client)
            return (found[count], found[age]) == (0, 0)

        await until(none_waits, "nothing waits")
    await executor.close()


async def test_scrapes_at_the_same_time_are_each_whole(health: httpx.AsyncClient) -> None:
    scrapes = await asyncio.gather(*(numbers(health) for _ in range(8)))
    always = {name for name, _ in scrapes[0] if "decisions_lag" not in name}
    assert len(always) > 5
    for scrape in scrapes:
        assert {name for name, _ in scrape if "decisions_lag" not in name} == always


async def test_a_loop_that_hangs_is_not_live(health: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("orion_recall.serving.observe.observer._HANGS_AFTER_S", 0.5)
    monkeypatch.setattr("orion_recall.serving.observe.observer._LOOK_S", 0.2)
    heard: dict[str, Any] = {}

    def look() -> None:
        with httpx.Client(base_url=health.base_url, timeout=60, verify=False) as client:
            deadline = time.monotonic() + 60
            while (live := client.get("/live")).status_code == 200 and time.monotonic() < deadline:
                time.sleep(0.05)
            heard.update(live=live, ready=client.get("/ready"), metrics=client.get("/metrics"))

    watcher = threading.Thread(target=look)
    watcher.start()
    watcher.join()  # and so the loop hangs, until somebody has noticed
    assert heard["live"].status_code == 503
    assert heard["live"].json()["silent_s"] >= 0.5
    assert heard["ready"].status_code == 503
    assert "event loop" in heard["ready"].json()["checks"]["loop"]["reason"]
    assert heard["metrics"].status_code == 200

    async def lives() -> bool:
        return (await health.get("/live")).status_code == 200

    await until(lives, "live again")
