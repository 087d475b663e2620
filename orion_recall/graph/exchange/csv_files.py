"""The graph as CSV files: export and import, page by page."""

from __future__ import annotations

import csv
import json
import shutil
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any, Literal
from urllib.parse import unquote

import pyoxigraph
from rdflib import URIRef
from rdflib.namespace import PROV, RDF, SKOS, XSD

from orion_recall.errors import ImportFileError
from orion_recall.graph.stores.oxigraph import rows_of
from orion_recall.graph.vocabulary import ORION, TENANTS, Row, relation_label, sparql_term
from orion_recall.graph.walks.statements import Components
from orion_recall.text.normal import number_of

NODES_AT_ONCE, ENDS_AT_ONCE = 1_000, 20_000

Select = Callable[[str], Awaitable[Sequence[Row]]]


async def tenants(select: Select) -> list[URIRef]:
    """The tenants' graphs that hold memories, by name."""
    rows = await select(
        f"SELECT DISTINCT ?graph WHERE {{ GRAPH ?graph {{ ?memory a {ORION.Memory.n3()} }} "
        f'FILTER(STRSTARTS(STR(?graph), "{TENANTS}")) }}'
    )
    return sorted(URIRef(row["graph"]) for row in rows)


async def nodes(select: Select, graph: URIRef, kind: URIRef) -> AsyncIterator[dict[str, dict[str, list[str]]]]:
    """All nodes of a kind in the order of their IRIs, a page at a time: IRI -> property -> values."""
    after = ""
    while True:
        bound = f"FILTER(isIRI(?node) && STR(?node) > {_text(after)})" if after else "FILTER(isIRI(?node))"
        rows = await select(
            f"SELECT ?node ?property ?value WHERE {{ {{ SELECT ?node WHERE {{ GRAPH {graph.n3()} "
            f"{{ ?node a {kind.n3()} {bound} }} }} ORDER BY STR(?node) LIMIT {NODES_AT_ONCE} }} "
            f"GRAPH {graph.n3()} {{ ?node ?property ?value }} }}"
        )
        found: dict[str, dict[str, list[str]]] = {}
        for row in rows:
            found.setdefault(row["node"], {}).setdefault(row["property"], []).append(row["value"])
        if found:
            yield {iri: found[iri] for iri in sorted(found)}
        if len(found) < NODES_AT_ONCE:
            return
        after = max(found)


async def ends(select: Select, graph: URIRef) -> AsyncIterator[list[tuple[str, str]]]:
    """Subject and object of every edge, a page at a time."""
    after = ""
    while True:
        bound = f"FILTER(STR(?edge) > {_text(after)})" if after else ""
        rows = await select(
            f"SELECT ?edge ?subject ?object WHERE {{ GRAPH {graph.n3()} {{ ?edge {RDF.subject.n3()} ?subject ; "
            f"{RDF.object.n3()} ?object {bound} }} }} ORDER BY STR(?edge) LIMIT {ENDS_AT_ONCE}"
        )
        if rows:
            yield [(row["subject"], row["object"]) for row in rows]
        if len(rows) < ENDS_AT_ONCE:
            return
        after = rows[-1]["edge"]


async def count(select: Select, graph: URIRef, kind: URIRef) -> int:
    """The number of nodes of a kind."""
    (row,) = await select(
        f"SELECT (COUNT(?node) AS ?count) WHERE {{ GRAPH {graph.n3()} {{ ?node a {kind.n3()} }} }}"
    )
    return int(row["count"])


def _text(iri: str) -> str:
    """An IRI's text as a literal."""
    return f"STR({sparql_term(URIRef(iri))})"


Format = Literal["turtle", "nquads", "jsonld", "csv"]
NODE_COLUMNS: tuple[str, ...] = ("id", "label", "also", "edges", "tenant")
EDGE_COLUMNS: tuple[str, ...] = (
    "source", "relation", "target", "text", "weight", "first_seen", "last_seen", "told", "memories",
    "source_id", "target_id", "tenant",
)  # fmt: skip

# In this order a reader has the ends of an edge before the edge.
_KINDS = (ORION.Memory, SKOS.Concept, RDF.Property, RDF.Statement)
_FORMATS = {
    "turtle": pyoxigraph.RdfFormat.TURTLE,
    "nquads": pyoxigraph.RdfFormat.N_QUADS,
    "jsonld": pyoxigraph.RdfFormat.JSON_LD,
}
_PREFIXES = {"orion": str(ORION), "skos": str(SKOS), "prov": str(PROV), "rdf": str(RDF)}
_INTEGERS = frozenset(str(ORION[name]) for name in ("version", "weight"))
_DOUBLES = frozenset(str(ORION[name]) for name in ("occurred", "firstSeen", "lastSeen"))
_LINKS = frozenset(
    str(name)
    for name in (
        RDF.type, RDF.subject, RDF.predicate, RDF.object, PROV.wasDerivedFrom,
        *(ORION[name] for name in ("mentions", "spokenBy", "next", "refersTo", "about", "wordedBy")),
    )
)  # fmt: skip
_IDS_AT_ONCE = 1_000

Node = Mapping[str, Sequence[str]]
Advanced = Callable[[int], None]


def tenant_of(graph: URIRef) -> str:
    """The tenant of a graph, from its name."""
    return unquote(graph.removeprefix(TENANTS))


async def write_rdf(
    select: Select, graphs: Sequence[URIRef], form: Literal["turtle", "nquads", "jsonld"], out: IO[bytes],
    advanced: Advanced,
) -> None:  # fmt: skip
    """Writes every node of the graphs with all its properties; Turtle has no named graphs, so it takes only one.

    `advanced` is called with the number of nodes of each page.
    """
    assert form != "turtle" or len(graphs) == 1, "Turtle holds one graph"
    if form == "jsonld":
        out.write(b"[")
    first = True
    async for graph, page in _pages(select, graphs):
        name = pyoxigraph.NamedNode(graph)
        triples = [triple for iri, said in page.items() for triple in _triples(iri, said)]
        told = triples if form == "turtle" else [_quad(triple, name) for triple in triples]
        written = pyoxigraph.serialize(told, format=_FORMATS[form], prefixes=_PREFIXES)
        assert written is not None, "it is given back, not written"
        if form == "jsonld":
            # Every page is a list of nodes: what is between its brackets goes into the one list.
            written = (b"\n" if first else b",\n") + written.strip()[1:-1]
        out.write(written)
        first = False
        advanced(len(page))
    if form == "jsonld":
        out.write(b"\n]\n")


async def write_csv(select: Select, graphs: Sequence[URIRef], folder: Path, advanced: Advanced) -> None:
    """Writes `nodes.csv`, the entities, and `edges.csv`, the statements with their evidence, as UTF-8."""
    with (
        (folder / "nodes.csv").open("w", encoding="utf-8", newline="") as nodes_file,
        (folder / "edges.csv").open("w", encoding="utf-8", newline="") as edges_file,
    ):
        entities, edges = csv.DictWriter(nodes_file, NODE_COLUMNS), csv.DictWriter(edges_file, EDGE_COLUMNS)
        entities.writeheader()
        edges.writeheader()
        for graph in graphs:
            shape = Components()
            async for page in ends(select, graph):
                shape.add(page)
            async for page in nodes(select, graph, SKOS.Concept):
                entities.writerows(_entity_row(iri, said, shape.degree(iri), graph) for iri, said in page.items())
                advanced(len(page))
            async for page in nodes(select, graph, RDF.Statement):
                ids = await _ids(select, graph, page.values())
                labels = await _labels(select, graph, page.values())
                told = await _windows(select, graph, ids)
                edges.writerows(_edge_row(said, ids, labels, told, graph) for said in page.values())
                advanced(len(page))


async def _pages(
    select: Select, graphs: Sequence[URIRef]
) -> AsyncIterator[tuple[URIRef, dict[str, dict[str, list[str]]]]]:
    for graph in graphs:
        for kind in _KINDS:
            async for page in nodes(select, graph, kind):
                yield graph, page


def _triples(iri: str, said: Node) -> Iterable[pyoxigraph.Triple]:
    subject = pyoxigraph.NamedNode(iri)
    for name in sorted(said):
        for value in sorted(said[name]):
            yield pyoxigraph.Triple(subject, pyoxigraph.NamedNode(name), _term(name, value))


def _quad(triple: pyoxigraph.Triple, graph: pyoxigraph.NamedNode) -> pyoxigraph.Quad:
    return pyoxigraph.Quad(triple.subject, triple.predicate, triple.object, graph)


def _term(name: str, value: str) -> pyoxigraph.NamedNode | pyoxigraph.Literal:
    """A value as an RDF term; the property's name decides its type."""
    if name in _LINKS:
        return pyoxigraph.NamedNode(value)
    for names, kind in ((_INTEGERS, XSD.integer), (_DOUBLES, XSD.double)):
        if name in names:
            return pyoxigraph.Literal(value, datatype=pyoxigraph.NamedNode(kind))
    return pyoxigraph.Literal(value)


def _entity_row(iri: str, said: Node, edges: int, graph: URIRef) -> dict[str, Any]:
    return {
        "id": iri,
        "label": _one(said, SKOS.prefLabel),
        "also": json.dumps(sorted(said.get(str(SKOS.altLabel), ())), ensure_ascii=False),
        "edges": edges,
        "tenant": tenant_of(graph),
    }


def _edge_row(
    said: Node,
    ids: Mapping[str, str],
    labels: Mapping[str, str],
    told: Mapping[str, Sequence[str]],
    graph: URIRef,
) -> dict[str, Any]:
    source, target = _one(said, RDF.subject), _one(said, RDF.object)
    evidence = said.get(str(PROV.wasDerivedFrom), ())
    memories = [ids.get(iri, iri) for iri in evidence]
    return {
        "source": labels.get(source, source),
        "relation": relation_label(URIRef(_one(said, RDF.predicate))),
        "target": labels.get(target, target),
        "text": _one(said, ORION.text),
        "weight": _one(said, ORION.weight),
        "first_seen": _one(said, ORION.firstSeen),
        "last_seen": _one(said, ORION.lastSeen),
        "told": json.dumps(sorted({window for iri in evidence for window in told.get(iri, ())})),
        "memories": json.dumps(sorted(memories), ensure_ascii=False),
        "source_id": source,
        "target_id": target,
        "tenant": tenant_of(graph),
    }


async def _ids(select: Select, graph: URIRef, edges: Iterable[Node]) -> dict[str, str]:
    """The ids of the memories that are evidence, by IRI."""
    memories = sorted({iri for said in edges for iri in said.get(str(PROV.wasDerivedFrom), ())})
    return await look_up_values(select, graph, memories, URIRef(ORION.id))


async def _windows(select: Select, graph: URIRef, memories: Iterable[str]) -> dict[str, list[str]]:
    """The time windows that the memories tell (`graph.told_windows`), by IRI."""
    found: dict[str, list[str]] = {}
    for node, value in await _values_of(select, graph, sorted(memories), ORION.tells):
        found.setdefault(node, []).append(value)
    return found


async def _labels(select: Select, graph: URIRef, edges: Iterable[Node]) -> dict[str, str]:
    """The names of what the edges connect, by IRI."""
    both = sorted({_one(said, end) for said in edges for end in (RDF.subject, RDF.object)})
    return await look_up_values(select, graph, both, SKOS.prefLabel)


async def look_up_values(select: Select, graph: URIRef, iris: Sequence[str], name: URIRef) -> dict[str, str]:
    """One value of a property for each of the nodes that have it, by IRI."""
    return dict(await _values_of(select, graph, iris, name))


async def _values_of(select: Select, graph: URIRef, iris: Sequence[str], name: URIRef) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for start in range(0, len(iris), _IDS_AT_ONCE):
        values = " ".join(URIRef(iri).n3() for iri in iris[start : start + _IDS_AT_ONCE])
        rows = await select(
            f"SELECT ?node ?value WHERE {{ VALUES ?node {{ {values} }} GRAPH {graph.n3()} "
            f"{{ ?node {name.n3()} ?value }} }}"
        )
        found += [(row["node"], row["value"]) for row in rows]
    return found


def _one(said: Node, name: URIRef) -> str:
    return next(iter(said.get(str(name), ())), "")


_FORMATS_import_file = {
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
        if path.suffix not in _FORMATS_import_file:
            raise ImportFileError(f"{path}: its name should end in .csv, {', '.join(_FORMATS_import_file)}")
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
                format=_FORMATS_import_file[path.suffix],
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
            parts = [labels.get(_one_import_file(said, end) or "", "") for end in _ENDS]
            if not all(parts):
                raise ImportFileError(f"{path}: the statement <{iri}> connects what has no {SKOS.prefLabel}")
            text = _one_import_file(said, ORION.text) or " ".join(parts)
            yield _stated(path, parts, text, _one_import_file(said, ORION.lastSeen), tenant)


def _remembered(path: Path, said: Mapping[str, Sequence[str]], tenant: str | None) -> Line | None:
    """An exported memory as one to store, with the fields that the graph holds."""
    line: Line = {field: _one_import_file(said, ORION[name]) for name, field in _FIELDS.items()}
    if not line["id"] or not line["text"]:
        return None
    names = set(said.get(str(ORION.named), ())) - {line["speaker"]}
    line |= {
        "entities": sorted(names),
        "tags": sorted(said.get(str(ORION.tag), ())),
        "occurred_at": _moment(path, _one_import_file(said, ORION.occurred)),
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


def _one_import_file(said: Mapping[str, Sequence[str]], name: URIRef | str) -> str | None:
    return next(iter(said.get(str(name), ())), None)
