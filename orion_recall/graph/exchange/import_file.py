"""Reads an exported graph file as memories to store: the graph is built from the record, so imports go there.

A memory in an RDF file becomes that memory again. An edge whose evidence is not in the file, and every row of an
`edges.csv`, becomes a memory that states it, with the file as its source.
"""

from __future__ import annotations

import csv
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyoxigraph
from rdflib import URIRef
from rdflib.namespace import PROV, RDF, SKOS

from orion_recall.errors import ImportFileError
from orion_recall.graph.exchange.export import look_up_values, tenant_of
from orion_recall.graph.exchange.paging import Select, nodes
from orion_recall.graph.stores.oxigraph_rows import rows_of
from orion_recall.graph.terms import Row
from orion_recall.graph.vocabulary import ORION, TENANTS
from orion_recall.text.normal import number_of

_FORMATS = {
    ".ttl": pyoxigraph.RdfFormat.TURTLE,
    ".nq": pyoxigraph.RdfFormat.N_QUADS,
    ".jsonld": pyoxigraph.RdfFormat.JSON_LD,
}
_MOST_IN_A_CELL = 1_000_000
# The graph for triples that are in none: their tenant is the one the memories are stored for.
_NO_TENANT = URIRef(f"{TENANTS}")
_FIELDS = {
    "id": "id", "content": "text", "kind": "kind", "title": "title", "speaker": "speaker", "session": "session_id",
    "user": "user_id", "agent": "agent_id", "run": "run_id", "uri": "uri",
}  # fmt: skip
_ENDS = (RDF.subject, RDF.predicate, RDF.object)

Line = dict[str, Any]


async def memory_lines(path: Path) -> AsyncIterator[Line]:
    """The memories of an exported file or folder, in the form of `memory.store.v1`.

    ImportFileError says what is wrong with the file, and in which line.
    """
    if path.is_dir():
        path /= "edges.csv"
    try:
        if path.suffix == ".csv":
            for line in _of_csv(path):
                yield line
            return
        if path.suffix not in _FORMATS:
            raise ImportFileError(f"{path}: its name should end in .csv, {', '.join(_FORMATS)}")
        async for line in _of_rdf(path):
            yield line
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or type(error).__name__
        raise ImportFileError(f"{path}: {why}") from error


def _of_csv(path: Path) -> Iterator[Line]:
    csv.field_size_limit(_MOST_IN_A_CELL)
    with path.open(encoding="utf-8-sig", newline="") as file:
        rows = csv.DictReader(file)
        missing = {"source", "relation", "target"} - set(rows.fieldnames or ())
        if missing:
            raise ImportFileError(f"{path}:1: no column {', '.join(sorted(missing))}: give an edges.csv")
        try:
            for row in rows:
                ends = [(row[name] or "").strip() for name in ("source", "relation", "target")]
                if not all(ends):
                    raise ImportFileError(f"{path}:{rows.line_num}: source, relation and target must not be empty")
                text = row.get("text") or " ".join(ends)
                yield _stated(path, ends, text, row.get("last_seen"), row.get("tenant"))
        except csv.Error as error:
            raise ImportFileError(f"{path}:{rows.line_num}: {error}") from error


async def _of_rdf(path: Path) -> AsyncIterator[Line]:
    """Loads the file into a temporary store on disk, so that a large file needs no more memory than a small one."""
    folder = tempfile.mkdtemp(prefix="orion-graph-")
    try:
        store = pyoxigraph.Store(folder)
        try:
            whole = path.suffix == ".ttl"
            store.bulk_load(
                path=str(path),
                format=_FORMATS[path.suffix],
                to_graph=pyoxigraph.NamedNode(str(_NO_TENANT)) if whole else None,
            )
        except (SyntaxError, ValueError) as error:
            raise ImportFileError(f"{path}: {error}") from error
        found = False

        async def select(query: str) -> Sequence[Row]:
            return rows_of(store, query)

        for graph in sorted(str(name.value) for name in store.named_graphs()):
            async for line in _of_graph(path, select, URIRef(graph)):
                found = True
                yield line
        if not found:
            raise ImportFileError(f"{path}: holds no memories or statements in the vocabulary of `graph export`")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


async def _of_graph(path: Path, select: Select, graph: URIRef) -> AsyncIterator[Line]:
    tenant = tenant_of(graph) if graph.startswith(TENANTS) else None
    async for page in nodes(select, graph, URIRef(ORION.Memory)):
        for iri, said in page.items():
            if (line := _remembered(path, said, tenant)) is None:
                raise ImportFileError(f"{path}: the memory <{iri}> has no {ORION}id and {ORION}content")
            yield line
    async for page in nodes(select, graph, RDF.Statement):
        evidence = {iri for said in page.values() for iri in said.get(str(PROV.wasDerivedFrom), ())}
        told = await look_up_values(select, graph, sorted(evidence), URIRef(ORION.id))
        ends = (iri for said in page.values() for end in _ENDS for iri in said.get(str(end), ()))
        labels = await look_up_values(select, graph, sorted(set(ends)), SKOS.prefLabel)
        for iri, said in page.items():
            if any(memory in told for memory in said.get(str(PROV.wasDerivedFrom), ())):
                continue
            parts = [labels.get(_one(said, end) or "", "") for end in _ENDS]
            if not all(parts):
                raise ImportFileError(f"{path}: the statement <{iri}> connects what has no {SKOS.prefLabel}")
            text = _one(said, ORION.text) or " ".join(parts)
            yield _stated(path, parts, text, _one(said, ORION.lastSeen), tenant)


def _remembered(path: Path, said: Mapping[str, Sequence[str]], tenant: str | None) -> Line | None:
    """An exported memory as one to store, with the fields that the graph holds."""
    line: Line = {field: _one(said, ORION[name]) for name, field in _FIELDS.items()}
    if not line["id"] or not line["text"]:
        return None
    names = set(said.get(str(ORION.named), ())) - {line["speaker"]}
    line |= {
        "entities": sorted(names),
        "tags": sorted(said.get(str(ORION.tag), ())),
        "occurred_at": _moment(path, _one(said, ORION.occurred)),
        "source": _source(path),
        "tenant": tenant or None,
    }
    return {name: value for name, value in line.items() if value}


def _stated(path: Path, ends: Sequence[str], text: str, last_seen: str | None, tenant: str | None) -> Line:
    """An edge as a memory that states it. The same statement has the same id in every file."""
    subject, relation, obj = ends
    line: Line = {
        "id": f"graph:{number_of(f'{subject} {relation}', obj)}",
        "text": text if text.endswith((".", "!", "?")) else f"{text}.",
        "kind": "world",
        "entities": sorted({subject, obj}),
        "occurred_at": _moment(path, last_seen),
        "source": _source(path),
        "tenant": tenant or None,
    }
    return {name: value for name, value in line.items() if value}


def _moment(path: Path, seconds: str | None) -> str | None:
    if not seconds:
        return None
    try:
        return datetime.fromtimestamp(float(seconds), UTC).isoformat()
    except (ValueError, OverflowError, OSError) as error:
        raise ImportFileError(f"{path}: {seconds[:40]!r} is not a time in epoch seconds") from error


def _source(path: Path) -> str:
    return f"graph import {path.name}"[:512]


def _one(said: Mapping[str, Sequence[str]], name: URIRef | str) -> str | None:
    return next(iter(said.get(str(name), ())), None)
