"""Whole memories out of a graph, wherever it is: the query, and what its rows say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from orion_recall.graph.vocabulary import ORION, key_of, memory_iri
from orion_recall.text import text_hash
from orion_recall.values import MemoryView

Row = Mapping[str, str]


def memories_query(keys: Sequence[int]) -> str:
    """SPARQL for everything that the graph says of the memories: rows of (memory, property, value)."""
    values = " ".join(memory_iri(key).n3() for key in keys)
    return (
        f"SELECT ?memory ?property ?value WHERE {{ VALUES ?memory {{ {values} }} "
        f"GRAPH ?tenant {{ ?memory ?property ?value }} }}"
    )


def memories(rows: Sequence[Row]) -> dict[int, MemoryView]:
    """The memories that the rows tell of, by key."""
    told: dict[str, dict[str, list[str]]] = {}
    for row in rows:
        name = row["property"].removeprefix(str(ORION))
        told.setdefault(row["memory"], {}).setdefault(name, []).append(row["value"])
    return {key_of(memory): _view(properties) for memory, properties in told.items() if "id" in properties}


def _view(told: Mapping[str, Sequence[str]]) -> MemoryView:
    def one(name: str) -> str | None:
        return told[name][0] if name in told else None

    text, occurred = one("content") or "", one("occurred")
    return MemoryView(
        id=told["id"][0],
        text=text,
        text_hash=text_hash(text),
        kind=one("kind"),
        title=one("title"),
        speaker=one("speaker"),
        session_id=one("session"),
        user_id=one("user"),
        ts=float(occurred) if occurred is not None else None,
        uri=one("uri"),
        source_ref="graph",
        tags=tuple(sorted(told.get("tag", ()))),
    )
