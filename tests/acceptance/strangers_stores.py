"""A script of somebody who has never heard of orion-recall: it makes a collection, a graph and a view.

    python strangers_stores.py QDRANT_URL SPARQL_UPDATE_URL POSTGRES_DSN < NOTES.json

NOTES.json is a list of {"text", "vector"}: the stranger's notes, embedded with all-MiniLM-L6-v2.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any, cast

import asyncpg  # pyright: ignore[reportMissingTypeStubs]
import httpx
from qdrant_client import QdrantClient, models

GRAPH = """
PREFIX rdfs: <http://www.w3.org/2000/01/rdf-schema#>
INSERT DATA { GRAPH <urn:port:wiki> {
  <urn:port:crane> rdfs:label "Harbour crane"@en ; rdfs:comment "The harbour crane was built in Gdansk." .
  <urn:port:gearbox> rdfs:label "gearbox" ; rdfs:comment "Its gearbox has nine wheels." ;
    <urn:port:partOf> <urn:port:crane> .
} }
"""
VIEW = """
CREATE TABLE port_log (number int, opened timestamptz, what text);
INSERT INTO port_log VALUES (41, now() - interval '20 minutes', 'The harbour crane stopped again.'),
                            (42, now() - interval '5 minutes', 'Lunch was late.');
CREATE VIEW open_tickets AS SELECT 'T-' || number AS ticket, opened, what FROM port_log;
"""


async def view(dsn: str) -> None:
    """The log and a view on it."""
    opened: Any = await asyncpg.connect(dsn)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    connection = cast(Any, opened)
    await connection.execute(VIEW)
    await connection.close()


def main() -> None:
    """Everything, once."""
    qdrant_url, update_url, dsn = sys.argv[1:]
    notes = json.load(sys.stdin)
    client = QdrantClient(url=qdrant_url, check_compatibility=False)
    cosine = models.Distance.COSINE
    client.create_collection("port_notes", vectors_config={"mini": models.VectorParams(size=384, distance=cosine)})
    client.upsert(
        "port_notes",
        [
            models.PointStruct(
                id=number,
                vector={"mini": note["vector"]},
                payload={
                    "note": {"body": note["text"]},
                    "written": 1_760_000_000 + number,
                    "link": f"port:{number}",
                },
            )
            for number, note in enumerate(notes)
        ],
    )
    httpx.post(update_url, data={"update": GRAPH}, verify=False).raise_for_status()
    asyncio.run(view(dsn))


if __name__ == "__main__":
    main()
