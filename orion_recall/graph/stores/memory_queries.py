"""Queries for whole memories, and readers of their rows: the same for an embedded graph and a server."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from orion_recall.graph.projection.lookups import Node, node_of
from orion_recall.graph.terms import Row, reading_rows
from orion_recall.graph.vocabulary import ORION, key_of, memory_iri
from orion_recall.text.normal import text_hash
from orion_recall.text.small_talk import is_chatter
from orion_recall.values import MemoryView


def memories_query(keys: Sequence[int]) -> str:
    """SPARQL for all properties of the memories: rows of (memory, property, value)."""
    values = " ".join(memory_iri(key).n3() for key in keys)
    return (
        f"SELECT ?memory ?property ?value WHERE {{ VALUES ?memory {{ {values} }} "
        f"GRAPH ?tenant {{ ?memory ?property ?value }} }}"
    )


def memories(rows: Sequence[Row]) -> dict[int, MemoryView]:
    """The memories in the rows of `memories_query`, by key; SourceError for rows of another shape."""
    properties: dict[str, dict[str, list[str]]] = {}
    with reading_rows():
        for row in rows:
            name = row["property"].removeprefix(str(ORION))
            properties.setdefault(row["memory"], {}).setdefault(name, []).append(row["value"])
        return {key_of(memory): _view(found) for memory, found in properties.items() if "id" in found}


def nodes_query(keys: Sequence[int]) -> str:
    """SPARQL for the nodes of those of the memories that the graph holds: rows of (graph, node)."""
    values = " ".join(memory_iri(key).n3() for key in keys)
    return (
        f"SELECT ?graph ?node WHERE {{ VALUES ?node {{ {values} }} GRAPH ?graph {{ ?node {ORION.id.n3()} ?id }} }}"
    )


def nodes_in(rows: Sequence[Row]) -> list[Node]:
    """The nodes in the rows of `nodes_query`."""
    with reading_rows():
        return [node_of(row) for row in rows]


def versions_query(*, after: str | None = None, limit: int | None = None) -> str:
    """SPARQL for rows of (memory, version); with `after` and `limit` one page in the order of IRIs."""
    bound = f'FILTER(STR(?memory) > "{memory_iri(key_of(after))}")' if after is not None else ""
    page = f" ORDER BY STR(?memory) LIMIT {limit}" if limit is not None else ""
    held = f"GRAPH ?tenant {{ ?memory {ORION.version.n3()} ?version }}"
    return f"SELECT ?memory ?version WHERE {{ {held} {bound} }}{page}"


def versions_in(rows: Iterable[Row]) -> dict[int, int]:
    """The version of every memory, by key, from the rows of `versions_query`."""
    with reading_rows():
        return {key_of(row["memory"]): int(row["version"]) for row in rows}


def _view(properties: Mapping[str, Sequence[str]]) -> MemoryView:
    def one(name: str) -> str | None:
        return properties[name][0] if name in properties else None

    text, occurred = one("content") or "", one("occurred")
    return MemoryView(
        id=properties["id"][0],
        text=text,
        text_hash=text_hash(text),
        kind=one("kind"),
        title=one("title"),
        speaker=one("speaker"),
        session_id=one("session"),
        user_id=one("user"),
        agent_id=one("agent"),
        run_id=one("run"),
        ts=float(occurred) if occurred is not None else None,
        uri=one("uri"),
        source_ref="graph",
        tags=tuple(sorted(properties.get("tag", ()))),
        chatter=is_chatter(text),
    )
