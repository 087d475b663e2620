"""Stores of a team: a graph that is its wiki, a table of tickets and a collection of notes, with questions.

Each store alone holds the answer to ten questions of the set `shown` and ten of `held_out`; ranking was only ever
tuned with the first set in sight. All of it is in tests/data/team_stores.json.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal, cast

from qdrant_client import AsyncQdrantClient, models
from rdflib import Literal as Text

from orion_recall.models.embedder import Embedder
from orion_recall.postgres.pool import open_pool
from tests.stand_ins.oxigraph import Oxigraph

Set = Literal["shown", "held_out"]
SETS: tuple[Set, ...] = ("shown", "held_out")
STORES = ("wiki", "tickets", "notes")
_FILE = Path(__file__).parents[1] / "data" / "team_stores.json"
_MAPPINGS = """
qdrant:
  - {{name: notes, url: "{notes}", collection: team_notes, vector: "", tenant: default,
     payload: {{text: body, time: written, time_format: epoch}}}}
sparql:
  - {{name: wiki, url: "{wiki}", graph: "urn:team:wiki", tenant: default,
     text: "http://www.w3.org/2000/01/rdf-schema#comment"}}
tables:
  - {{name: tickets, {dsn}table: team_tickets, tenant: default, columns: {{id: number, ts: opened, text: summary}}}}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """A question, and the id under which the only answer to it is cited."""

    store: str
    question: str
    answer: str


def judged(which: Set) -> list[Judged]:
    """The thirty questions of a set."""
    return [
        Judged(store=store, question=one["question"], answer=f"{store}:{_own_id(store, place)}")
        for store in STORES
        for place, one in _items(store)
        if one["set"] == which
    ]


async def make_stores(
    *, qdrant_url: str, wiki: Oxigraph, dsn: str, embedder: Embedder, now: float, dsn_env: str | None = None
) -> str:
    """All three, filled with both sets; the mappings that describe them, as YAML.

    The tickets were opened in the last hours before `now` (epoch seconds), the notes in the last months.
    """
    await _make_notes(qdrant_url, embedder, now)
    await wiki.update(_wiki())
    await _make_tickets(dsn, now)
    names_dsn = f"dsn_env: {dsn_env}, " if dsn_env else ""
    return _MAPPINGS.format(notes=qdrant_url, wiki=wiki.url, dsn=names_dsn)


def _items(store: str) -> Sequence[tuple[int, dict[str, Any]]]:
    content = cast("dict[str, dict[str, list[dict[str, Any]]]]", json.loads(_FILE.read_text("utf-8")))
    return list(enumerate([{**one, "set": which} for which in SETS for one in content[which][store]]))


def _own_id(store: str, place: int) -> str:
    return f"urn:team:{place}" if store == "wiki" else str(place)


async def _make_notes(url: str, embedder: Embedder, now: float) -> None:
    notes = _items("notes")
    vectors = await embedder.embed_documents([note["text"] for _, note in notes])
    client = AsyncQdrantClient(url=url, check_compatibility=False)
    size = models.VectorParams(size=embedder.dimension, distance=models.Distance.COSINE)
    await client.create_collection("team_notes", vectors_config=size)
    points = [
        models.PointStruct(
            id=place, vector=vector.tolist(), payload={"body": note["text"], "written": now - (place + 1) * 432_000}
        )
        for (place, note), vector in zip(notes, vectors, strict=True)
    ]
    await client.upsert("team_notes", points)
    await client.close()


def _wiki() -> str:
    """An update: every entry under its label; what is told of another thing is linked to that."""
    triples: list[str] = []
    for place, entry in _items("wiki"):
        triples.append(_entry(f"urn:team:{place}", entry))
        if (other := entry.get("linked_to")) is not None:
            triples += [
                _entry(f"urn:team:{place}-of", other),
                f"<urn:team:{place}> <urn:of> <urn:team:{place}-of> .",
            ]
    return f"INSERT DATA {{ GRAPH <urn:team:wiki> {{ {' '.join(triples)} }} }}"


def _entry(iri: str, entry: dict[str, Any]) -> str:
    rdfs = "http://www.w3.org/2000/01/rdf-schema#"
    label, text = Text(entry["label"]).n3(), Text(entry["text"]).n3()
    return f"<{iri}> <{rdfs}label> {label} ; <{rdfs}comment> {text} ."


async def _make_tickets(dsn: str, now: float) -> None:
    pool = await open_pool(dsn, name="test", max_size=1)
    try:
        await pool.execute("DROP TABLE IF EXISTS team_tickets")
        await pool.execute("CREATE TABLE team_tickets (number int, opened timestamptz, summary text)")
        last = datetime.fromtimestamp(now, UTC)
        for place, ticket in _items("tickets"):
            opened = last - timedelta(minutes=7 * (place + 1))
            await pool.execute("INSERT INTO team_tickets VALUES ($1, $2, $3)", place, opened, ticket["text"])
    finally:
        await pool.close()
