"""A whole service over a collection, a graph and a view of others, which hang, and answer again."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from executor import until
from foreign_tables import visitor
from qdrant_client import AsyncQdrantClient, models
from serving import all_persisted, caught_up

from orion_recall.client import RecallClient
from orion_recall.engines.embedded import EmbeddedEngines
from orion_recall.models.embedder import OnnxEmbedder
from orion_recall.serving.service import Service
from orion_recall.settings import Settings
from tests.stand_ins.oxigraph import Oxigraph
from tests.stand_ins.proxy import Proxy
from tests.stand_ins.qdrant_process import QdrantStandIn, qdrant_stand_in

MAPPINGS = """
qdrant:
  - {{name: notes, url: "http://{notes}", collection: notes, vector: "", tenant: default, payload: {{text: body}}}}
sparql:
  - name: wiki
    url: "http://{wiki}/query"
    graph: "urn:wiki"
    tenant: default
    text: "http://www.w3.org/2000/01/rdf-schema#comment"
tables:
  - name: tickets
    dsn_env: TICKETS_DSN
    table: open_tickets
    tenant: default
    columns: {{id: number, ts: opened, text: summary}}
"""
TICKETS = """
CREATE TABLE tickets (number int, opened timestamptz, summary text, done bool);
INSERT INTO tickets VALUES (4, now(), 'The crane needs grease.', false), (5, now(), 'The crane is too high.', true);
CREATE VIEW open_tickets AS SELECT number, opened, summary FROM tickets WHERE NOT done;
"""
WIKI = """
PREFIX rdfs: <http://www.w3.org/2000/01/rdf-schema#>
INSERT DATA { GRAPH <urn:wiki> { <urn:crane> rdfs:label "crane" ; rdfs:comment "It was built in Gdansk." } }
"""
NOTE = "The crane lost a wheel."
OWN = {"id": "m-crane", "text": "The crane was painted red.", "speaker": "Bo", "entities": ["crane"]}
DEADLINE_S = 2.0
STORES = {"notes": "vector", "wiki": "rdf", "tickets": "sql_timeline"}


async def noted(server: QdrantStandIn) -> None:
    """Somebody's notes in a collection of theirs."""
    embedder = OnnxEmbedder()
    await embedder.load()
    (vector,) = await embedder.embed_documents([NOTE])
    await embedder.close()
    client = AsyncQdrantClient(url=server.url, check_compatibility=False)
    size = models.VectorParams(size=embedder.dimension, distance=models.Distance.COSINE)
    await client.create_collection("notes", vectors_config=size)
    await client.upsert("notes", [models.PointStruct(id=7, vector=vector.tolist(), payload={"body": NOTE})])
    await client.close()


Asked = tuple[str, dict[str, tuple[str, str]], set[str]]


async def asked(client: RecallClient) -> Asked:
    """The outcome, (status, error) of the arms with a store of others, and the ids; inside the deadline."""
    began = time.monotonic()
    reply = await client.recall("What happened to the crane?", options={})
    assert time.monotonic() - began < DEADLINE_S + 20
    sources = reply.bundle.stats.sources or {}
    arms = {name: (sources[name].status, sources[name].error or "") for name in STORES.values()}
    return str(reply.bundle.stats.outcome), arms, {item.id for item in reply.bundle.items}


@pytest.mark.slow
async def test_stores_of_others_that_hang_cost_their_hits_and_are_back_without_a_restart(
    service_engines: EmbeddedEngines,
    database: str,
    empty_database: str,
    sparql_server: Oxigraph,
    tmp_path: Path,
    prefix: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    await sparql_server.update(WIKI)
    theirs = urlsplit(empty_database)
    async with visitor(empty_database) as connection:
        await connection.execute(TICKETS)
    socket = f"{parse_qs(theirs.query)['host'][0]}/.s.PGSQL.5432"
    with qdrant_stand_in() as qdrant:
        await noted(qdrant)
        port = urlsplit(qdrant.url).port or 0
        async with (
            Proxy.before("127.0.0.1", port) as notes,
            Proxy.before("127.0.0.1", sparql_server.port) as wiki,
            Proxy.before_socket(socket) as tickets,
        ):
            monkeypatch.setenv(
                "TICKETS_DSN", f"postgresql://orion@{tickets.host_and_port}{theirs.path}?sslmode=disable"
            )
            mappings = tmp_path / "mappings.yaml"
            mappings.write_text(MAPPINGS.format(notes=notes.host_and_port, wiki=wiki.host_and_port))
            settings = Settings.read(
                redis_url=service_engines.redis_url,
                postgres_dsn=database,
                data_dir=tmp_path / "data",
                mappings=mappings,
                prefix=prefix,
                reply_ttl_s=60,
                deadline_ms=int(DEADLINE_S * 1000),
            )
            async with Service.start(settings) as service:
                ready = asyncio.Event()
                serving = asyncio.create_task(service.serve(ready))
                await ready.wait()
                async with RecallClient.connect(service_engines.redis_url, prefix=prefix) as client:
                    receipt = await client.store([OWN])
                    await caught_up(service, receipt.position or 0)
                    await goes_through(client, notes, wiki, tickets)
                await all_persisted(service)
                service.stop()
                await serving


def running_tasks() -> int:
    """Without those of the proxies, which hear of nothing while they hang."""
    return sum("Proxy." not in repr(task.get_coro()) for task in asyncio.all_tasks())


async def goes_through(client: RecallClient, *ways: Proxy) -> None:
    """Well, hung, left alone, and well again."""
    everything = {"m-crane", "notes:7", "wiki:urn:crane", "tickets:4"}

    async def whole() -> bool:
        outcome, arms, ids = await asked(client)
        return (outcome, ids) == ("ok", everything) and {status for status, _ in arms.values()} == {"ok"}

    await until(whole, "all stores of others are searched")
    tasks = running_tasks()
    for way in ways:
        way.hang()
    for attempt in range(4):
        outcome, arms, ids = await asked(client)
        assert (outcome, ids) == ("degraded", {"m-crane"})
        why = "left alone after" if attempt == 3 else "no answer within"
        for store, arm in STORES.items():
            assert arms[arm][0] == "failed", "its own store answered, and the other one did not"
            assert arms[arm][1].startswith(f"{store}: {why}")

    async def let_go() -> bool:
        return running_tasks() <= tasks

    await until(let_go, "no task left behind")
    for way in ways:
        way.resume()
    await until(whole, "all are searched again")
