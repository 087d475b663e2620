"""Stores that a stranger made are searched where they are, cited under their names, and explained."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from orion_recall.models.embedder import OnnxEmbedder
from tests.acceptance.processes import running_engines
from tests.acceptance.program import Program, Running
from tests.stand_ins.oxigraph import Oxigraph, oxigraph
from tests.stand_ins.patient_profiles import patient_profiles
from tests.stand_ins.qdrant_process import QdrantStandIn, qdrant_stand_in

pytestmark = [pytest.mark.acceptance, pytest.mark.slow]
NOTES = ["The harbour crane squeaks when it is cold.", "Bo keeps bees behind the customs house."]
QUESTION = "What is the matter with the harbour crane?"
MAPPINGS = """
qdrant:
  - {{name: notes, url: "{qdrant}", collection: port_notes, vector: mini, tenant: default,
      payload: {{text: note.body, time: written, time_format: epoch, uri: link}}}}
sparql:
  - {{name: wiki, url: "{sparql}", graph: "urn:port:wiki", tenant: default,
      text: "http://www.w3.org/2000/01/rdf-schema#comment"}}
tables:
  - {{name: tickets, table: open_tickets, tenant: default, columns: {{id: ticket, ts: opened, text: what}}}}
"""


async def _strangers_work(qdrant: QdrantStandIn, graph: Oxigraph, dsn: str) -> None:
    embedder = OnnxEmbedder()
    await embedder.load()
    vectors = await embedder.embed_documents(NOTES)
    await embedder.close()
    notes = [{"text": text, "vector": vector.tolist()} for text, vector in zip(NOTES, vectors, strict=True)]
    script = Path(__file__).with_name("strangers_stores.py")
    done = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, script, qdrant.url, graph.url.removesuffix("query") + "update", dsn],
        input=json.dumps(notes), capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


async def _ask(program: Program) -> Any:
    answer = await asyncio.to_thread(
        program.run, "ask", QUESTION, "--profile", "reflect.v1", "--max-tokens", "1000", "--json"
    )
    assert answer.code == 0, answer.err
    return answer.json["bundle"]


async def _ready(running: Running) -> None:
    await asyncio.to_thread(running.ready)


async def test_they_are_checked_searched_cited_and_one_that_dies_costs_its_own_hits() -> None:
    with qdrant_stand_in() as qdrant:
        async with running_engines() as (engines, folder), oxigraph() as graph:
            await _strangers_work(qdrant, graph, engines.postgres_dsn)
            mappings = folder / "mappings.yaml"
            mappings.write_text(MAPPINGS.format(qdrant=qdrant.url, sparql=graph.url))
            program = Program(folder).with_settings(
                ORION_REDIS_URL=engines.redis_url,
                ORION_POSTGRES_DSN=engines.postgres_dsn,
                ORION_MAPPINGS=str(mappings),
                ORION_DEADLINE_MS="60000",
                ORION_PROFILES_DIR=str(patient_profiles(folder)),
            )
            checked = await asyncio.to_thread(program.run, "doctor", "--json")
            assert checked.code == 0, checked.out
            stores = {store["store"]: store for store in checked.json["stores"]}
            assert stores["notes"]["sample"]["text"] in NOTES
            assert stores["notes"]["count"] == 2
            assert "Harbour crane" in str(stores["wiki"]["sample"]) or "gearbox" in str(stores["wiki"]["sample"])
            assert stores["tickets"]["sample"]["id"] == "T-42"
            with program.started("worker", "--json") as running:
                await _ready(running)
                bundle = await _ask(program)
                # A worker answers while it still brings an empty database up to date.
                for _ in range(20):
                    if bundle["stats"]["outcome"] == "ok":
                        break
                    bundle = await _ask(program)
                cited = {item["source_ref"]: item for item in reversed(bundle["items"])}  # the first of each
                assert {"notes", "wiki", "tickets"} <= set(cited)
                assert cited["notes"]["source"] == "vector"
                assert cited["notes"]["uri"] == "port:0"
                assert "squeaks" in cited["notes"]["snippet"]
                assert "Gdansk" in " ".join(item["snippet"] for item in bundle["items"])
                assert cited["notes"]["id"] == "notes:0"
                assert cited["tickets"]["id"] in ("tickets:T-41", "tickets:T-42")
                for item in bundle["items"]:
                    assert item["snippet"] in bundle["rendered"]
                assert all(item["score_parts"] and item["ranks"] for item in bundle["items"])
                assert bundle["stats"]["outcome"] == "ok", bundle["stats"]["sources"]
                qdrant.kill()
                bundle = await _ask(program)
                assert bundle["stats"]["outcome"] == "degraded"
                assert "notes" in bundle["stats"]["sources"]["vector"]["error"]
                assert {"wiki", "tickets"} <= {item["source_ref"] for item in bundle["items"]}
            broken = await asyncio.to_thread(program.run, "doctor", "--json")
            assert broken.code == 1
            assert [store["ok"] for store in broken.json["stores"]] == [False, True, True]
