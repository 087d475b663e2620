"""A whole service whose graph is on a SPARQL server that is away, killed, hung and back."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import tempfile
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any
from uuid import uuid4

import psutil
import pytest
from executor import until
from serving import caught_up, started_with_client

from orion_recall.cli.main import run
from orion_recall.client import RecallClient
from orion_recall.contracts import MemoryV1
from orion_recall.engines.embedded import EmbeddedEngines
from orion_recall.errors import AnotherRecordsCopy
from orion_recall.graph.projection import METADATA_QUERY
from orion_recall.graph.stores.sparql import SparqlGraph
from orion_recall.graph.stores.sparql_client import SparqlClient, SparqlServer
from orion_recall.interfaces import MemoryGraph
from orion_recall.memory.record.compose import compose
from orion_recall.memory.record.record import Record
from orion_recall.postgres.pool import open_pool
from orion_recall.settings import Settings
from orion_recall.text.normal import memory_key
from orion_recall.values import Change
from tests.stand_ins.oxigraph import Oxigraph
from tests.stand_ins.patient_profiles import patient_profiles

pytestmark = pytest.mark.slow

WORK = {"id": "m-work", "text": "I work at Fjord Labs in Bergen.", "speaker": "Ana"}
CRANE = {"id": "m-crane", "text": "The harbour crane needs a new gearbox.", "speaker": "Bo", "entities": ["Ana"]}
DEADLINE_MS = 3000


@pytest.fixture
def settings(service_engines: EmbeddedEngines, database: str, sparql_server: Oxigraph) -> Generator[Settings]:
    data_dir = Path(tempfile.mkdtemp(prefix="orion-test-"))
    yield Settings.read(
        redis_url=service_engines.redis_url,
        postgres_dsn=database,
        sparql_url=sparql_server.url,
        data_dir=data_dir,
        prefix=f"t-{uuid4().hex}:",
        refresh_ms=100,
        claim_idle_ms=500,
        reply_ttl_s=60,
        deadline_ms=DEADLINE_MS,
        profiles_dir=patient_profiles(data_dir),
    )
    shutil.rmtree(data_dir, ignore_errors=True)


async def asked(client: RecallClient) -> tuple[str, str, int, str]:
    """One recall, inside the deadline: its outcome, and status, hits and error of the graph."""
    began = time.monotonic()
    reply = await client.recall("Where does Ana work?", options={})
    assert time.monotonic() - began < DEADLINE_MS / 1000 + 20
    stats = reply.bundle.stats
    graph = (stats.sources or {})["rdf"]
    assert [item.id for item in reply.bundle.items][:1] == ["m-work"]
    return str(stats.outcome), graph.status, graph.count, graph.error or ""


async def recovered(client: RecallClient, hits: int) -> None:
    """Returns once the graph answers with that many hits."""

    async def well() -> bool:
        outcome, status, count, _ = await asked(client)
        return (outcome, status, count) == ("ok", "ok", hits)

    await until(well, f"{hits} hits from the graph")


def connections_to(server: Oxigraph) -> int:
    """How many connections this process has to the server."""
    found: list[Any] = psutil.Process(os.getpid()).net_connections("tcp")
    return sum(bool(one.raddr) and one.raddr.port == server.port for one in found)


async def test_a_service_stores_to_and_recalls_from_a_sparql_server_that_comes_and_goes(
    settings: Settings, sparql_server: Oxigraph
) -> None:
    await sparql_server.stop()
    async with started_with_client(settings) as (service, client):
        assert service.opened.broken == {}
        receipt = await client.store([WORK])

        async def found_by_the_index() -> bool:
            return (await client.recall("Where does Ana work?", options={})).bundle.items != []

        await until(found_by_the_index, "the index has the memory")
        outcome, status, _, error = await asked(client)
        assert (outcome, status) == ("degraded", "failed")
        assert f"127.0.0.1:{sparql_server.port}/query" in error

        await sparql_server.start()
        await caught_up(service, receipt.position or 0)
        await recovered(client, 1)

        await sparql_server.stop()
        outcome, status, _, error = await asked(client)
        assert (outcome, status) == ("degraded", "failed")
        assert "cannot be reached" in error
        receipt = await client.store([CRANE])
        assert receipt.stored == 1, "the record does not wait for the graph"

        await sparql_server.start()
        await caught_up(service, receipt.position or 0)
        await recovered(client, 2)


async def test_a_server_that_hangs_costs_its_hits_and_leaves_nothing_behind(
    settings: Settings, sparql_server: Oxigraph
) -> None:
    async with started_with_client(settings) as (service, client):
        receipt = await client.store([WORK])
        await caught_up(service, receipt.position or 0)
        await recovered(client, 1)
        tasks = len(asyncio.all_tasks())
        sparql_server.pause()
        try:
            statuses = [await asked(client) for _ in range(4)]
            assert [(outcome, status) for outcome, status, _, _ in statuses] == [
                *[("degraded", "late")] * 3,
                ("degraded", "failed"),
            ]
            assert "no answer within" in statuses[-1][3]

            async def let_go() -> bool:
                return connections_to(sparql_server) == 0 and len(asyncio.all_tasks()) <= tasks

            await until(let_go, "no connection and no task left behind")
        finally:
            sparql_server.resume()
        await recovered(client, 1)


async def test_a_server_that_comes_back_empty_is_filled_again(settings: Settings, sparql_server: Oxigraph) -> None:
    async with started_with_client(settings) as (service, client):
        receipt = await client.store([WORK, CRANE])
        await caught_up(service, receipt.position or 0)
        await recovered(client, 2)
        await sparql_server.stop()
        assert (await asked(client))[:2] == ("degraded", "failed")
        shutil.rmtree(sparql_server.folder)
        await sparql_server.start()
        await recovered(client, 2)


async def test_two_workers_share_one_graph_and_one_goes_on_alone(
    settings: Settings, sparql_server: Oxigraph, tmp_path: Path
) -> None:
    second = settings.changed(data_dir=tmp_path, instance="second")
    async with started_with_client(settings) as (one, client):
        async with started_with_client(second) as (two, _):
            receipt = await client.store([WORK, CRANE])
            assert one.opened.graph is not None
            assert two.opened.graph is not None
            assert one.opened.graph.copy == two.opened.graph.copy

            async def there() -> bool:
                rows = await graph.select(METADATA_QUERY)
                return [row["position"] for row in rows if "position" in row] == [str(receipt.position)]

            graph = one.opened.graph
            await until(there, "one position, the newest")
        receipt = await client.store([{"id": "m-more", "text": "Ana sings.", "speaker": "Ana"}])
        await until(there, "the one that is left goes on")
        await until(lambda: _holds(graph, "m-more"), "what it stored is in the graph")


@pytest.mark.parametrize("workers", [1, 2])
async def test_a_change_that_is_acknowledged_is_found_from_then_on(
    settings: Settings, tmp_path: Path, workers: int
) -> None:
    """A worker looks twice a second how far a shared copy has come, and may have done so before the change."""
    async with started_with_client(settings) as (_, client), contextlib.AsyncExitStack() as stack:
        if workers == 2:
            await stack.enter_async_context(
                started_with_client(settings.changed(data_dir=tmp_path, instance="second"))
            )
        await client.store([WORK])
        acknowledged = 0
        for house in range(60):
            text = f"I work at Fjord Labs in house {house}."
            if (await client.update([{"id": "m-work", "text": text}])).pending:
                continue  # the copies took longer than an update waits: nothing is promised yet
            bundle = (await client.recall("Where does Ana work?", options={})).bundle
            assert text in bundle.rendered, bundle.stats
            acknowledged += 1
            if acknowledged == 12:
                break
        assert acknowledged == 12


async def test_a_server_of_another_record_is_refused_until_it_is_given_up(
    settings: Settings, sparql_server: Oxigraph, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    theirs = SparqlGraph(SparqlClient(SparqlServer(url=sparql_server.url)))
    theirs.expect("2020-01-01T00:00:00.000000Z")
    await theirs.open()
    secret = compose(
        MemoryV1.model_validate({"id": "secret", "text": "Ana works for them.", "speaker": "Ana"}), "default"
    )
    await theirs.apply([Change(position=1, memory=secret)])
    monkeypatch.setenv("ORION_POSTGRES_DSN", settings.dsn or "")
    monkeypatch.setenv("ORION_SPARQL_URL", sparql_server.url)
    async with started_with_client(settings.changed(health_port=0)) as (service, client):
        assert "belongs to another record (the one made at 2020-01-01" in service.opened.broken["graph"]
        receipt = await client.store([WORK])
        assert receipt.stored == 1

        async def refused() -> bool:
            reply = await client.recall("Where does Ana work?", options={})
            graph = (reply.bundle.stats.sources or {})["rdf"]
            assert [item.id for item in reply.bundle.items if item.id != "m-work"] == []
            assert (reply.bundle.stats.outcome, graph.status, graph.count) == ("degraded", "failed", 0)
            assert "belongs to another record" in (graph.error or "")
            return [item.id for item in reply.bundle.items] == ["m-work"]

        await until(refused, "the index has it, and the graph is refused")
        found = await service.observer.readiness.check()
        assert "belongs to another record" in (found["rdf"] or "")
        assert set(await theirs.fetch([memory_key("default", "secret"), memory_key("default", "m-work")])) == {
            memory_key("default", "secret")
        }
        assert await asyncio.to_thread(run, ["doctor", "--json"]) == 1
        (graph,) = json.loads(capsys.readouterr().out)["stores"]
        assert "give this one a data set of its own in ORION_SPARQL_URL" in graph["problems"][0]

        copies = await _copies(settings)
        assert copies["graph"] == 0, "an import that waits is told which copy does not move"

        await sparql_server.update("DROP ALL")
        await recovered(client, 1)
        assert await asyncio.to_thread(run, ["doctor", "--json"]) == 0
        (graph,) = json.loads(capsys.readouterr().out)["stores"]
        assert graph["remarks"] == [f"at position {receipt.position}, of the record"]
        with pytest.raises(AnotherRecordsCopy):
            await theirs.open()
    await theirs.close()


async def _copies(settings: Settings) -> dict[str, int]:
    pool = await open_pool(settings.dsn or "", name="test", min_size=0, max_size=1)
    try:
        return {copy.kind: copy.position for copy in await Record(pool).copies()}
    finally:
        await pool.close()


async def _holds(graph: MemoryGraph, name: str) -> bool:
    return memory_key("default", name) in await graph.fetch([memory_key("default", name)])
