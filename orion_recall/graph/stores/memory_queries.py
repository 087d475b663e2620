"""Whole memories out of a graph, wherever it is: the query, and what its rows say."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from orion_recall.errors import SourceError
from orion_recall.graph.projection.lookups import Node, node_of
from orion_recall.graph.terms import Row
from orion_recall.graph.vocabulary import ORION, key_of, memory_iri
from orion_recall.text.normal import text_hash
from orion_recall.values import MemoryView


def memories_query(keys: Sequence[int]) -> str:
    """SPARQL for everything that the graph says of the memories: rows of (memory, property, value)."""
    values = " ".join(memory_iri(key).n3() for key in keys)
    return (
        f"SELECT ?memory ?property ?value WHERE {{ VALUES ?memory {{ {values} }} "
        f"GRAPH ?tenant {{ ?memory ?property ?value }} }}"
    )


def memories(rows: Sequence[Row]) -> dict[int, MemoryView]:
    """The memories that the rows tell of, by key; SourceError for rows that are no answer to `memories_query`."""
    told: dict[str, dict[str, list[str]]] = {}
    try:
        for row in rows:
            name = row["property"].removeprefix(str(ORION))
            told.setdefault(row["memory"], {}).setdefault(name, []).append(row["value"])
        return {key_of(memory): _view(found) for memory, found in told.items() if "id" in found}
    except (LookupError, ValueError) as error:
        raise SourceError("the graph answers with rows that were not asked for") from error


def places_query(keys: Sequence[int]) -> str:
    """SPARQL for where those of the memories are that the graph holds: rows of (graph, node)."""
    values = " ".join(memory_iri(key).n3() for key in keys)
    return (
        f"SELECT ?graph ?node WHERE {{ VALUES ?node {{ {values} }} GRAPH ?graph {{ ?node {ORION.id.n3()} ?id }} }}"
    )


def nodes_in(rows: Sequence[Row]) -> list[Node]:
    """The memories that the rows of `places_query` tell of."""
    try:
        return [node_of(row) for row in rows]
    except LookupError as error:
        raise SourceError("the graph answers with rows that were not asked for") from error


def held_query(*, after: str | None = None, limit: int | None = None) -> str:
    """SPARQL for rows of (memory, version); with a limit the first ones by IRI after that of another one."""
    bound = f'FILTER(STR(?memory) > "{memory_iri(key_of(after))}")' if after is not None else ""
    page = f" ORDER BY STR(?memory) LIMIT {limit}" if limit is not None else ""
    held = f"GRAPH ?tenant {{ ?memory {ORION.version.n3()} ?version }}"
    return f"SELECT ?memory ?version WHERE {{ {held} {bound} }}{page}"


def versions_in(rows: Iterable[Row]) -> dict[int, int]:
    """Version by key, out of the rows of `held_query`."""
    try:
        return {key_of(row["memory"]): int(row["version"]) for row in rows}
    except (LookupError, ValueError) as error:
        raise SourceError("the graph answers with rows that were not asked for") from error


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
