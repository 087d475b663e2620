"""Draws a part of a tenant's graph as one self-contained HTML page: no server, no library, no network.

The page's content security policy allows only its own script and style, by their hashes.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from html import escape
from pathlib import Path
from string import Template
from typing import Any

from orion_recall.graph.relation_words import KINDS, PERSON, kinds_of_ends
from orion_recall.graph.tenant_graph import Edge, EdgeMemory, TenantGraph
from orion_recall.interfaces import GraphStore

_HERE = Path(__file__).parent
_EDGES_OF_A_NODE = 60
_EDGES_A_NODE = 4
_SCANNED = 50_000
_MEMORIES_OF_AN_EDGE = 5
_LONGEST_TEXT = 600
OTHER = "Thing"


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnEntity:
    """An entity in a picture: `kind` is Person, Place, Organisation, or Thing where no relation implies one."""

    iri: str
    name: str
    kind: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Subgraph:
    """A part of a graph. `cut`: limits left out nodes or edges around it."""

    nodes: tuple[DrawnEntity, ...]
    edges: tuple[Edge, ...]
    memories: Mapping[str, Sequence[EdgeMemory]]
    cut: bool


async def subgraph_around(
    store: GraphStore, tenant: str, entities: Sequence[str], *, max_nodes: int, hops: int
) -> Subgraph:
    """The subgraph within `hops` edges of the entities (IRIs); without entities, the one of the strongest edges."""
    graph = TenantGraph(store, tenant)
    if entities:
        nodes, edges, cut = await _around(graph, entities, max_nodes, hops)
    else:
        nodes, edges, cut = await _strongest(graph, max_nodes)
    kept = sorted(edges, key=lambda edge: (-edge.weight, edge.iri))[: _EDGES_A_NODE * max_nodes]
    cut = cut or len(kept) < len(edges)
    labels, speakers = await graph.labels(nodes), await graph.speakers(nodes)
    votes: dict[str, list[str]] = {node: [PERSON] * (node in speakers) for node in nodes}
    # By all that is stated of a node: what a picture leaves out must not change what it is.
    for node, stated in (await graph.edges(nodes, limit=_EDGES_OF_A_NODE)).items():
        for edge in stated:
            ends = zip((edge.subject, edge.object), kinds_of_ends(edge.name), strict=True)
            votes[node] += [kind for end, kind in ends if end == node and kind is not None]
    # The kind with most votes, of equals the first.
    kinds = {node: max(KINDS, key=counted.count) if counted else OTHER for node, counted in votes.items()}
    drawn = (DrawnEntity(iri=node, name=labels.get(node, node), kind=kinds[node]) for node in nodes)
    memories = await graph.edge_memories([edge.iri for edge in kept], limit=_MEMORIES_OF_AN_EDGE)
    return Subgraph(nodes=tuple(drawn), edges=tuple(kept), memories=memories, cut=cut)


async def _around(
    graph: TenantGraph, entities: Sequence[str], max_nodes: int, hops: int
) -> tuple[list[str], list[Edge], bool]:
    nodes = dict.fromkeys(entities[:max_nodes])
    found: dict[str, Edge] = {}
    frontier, cut = list(nodes), len(entities) > max_nodes
    for hop in range(hops + 1):
        # The last pass finds the edges between nodes that are there already.
        at_nodes = await graph.edges(frontier, limit=_EDGES_OF_A_NODE + 1)
        cut = cut or any(len(edges) > _EDGES_OF_A_NODE for edges in at_nodes.values())
        new: dict[str, None] = {}
        edges = {edge.iri: edge for at_node in at_nodes.values() for edge in at_node}
        for edge in sorted(edges.values(), key=lambda edge: (-edge.weight, edge.iri)):
            found[edge.iri] = edge
            for end in (edge.subject, edge.object):
                if end in nodes:
                    continue
                if hop < hops and len(nodes) < max_nodes:
                    nodes[end] = new[end] = None
                else:
                    cut = True
        frontier = list(new)
        if not frontier:
            break
    return list(nodes), [edge for edge in found.values() if edge.subject in nodes and edge.object in nodes], cut


async def _strongest(graph: TenantGraph, max_nodes: int) -> tuple[list[str], list[Edge], bool]:
    most = _EDGES_A_NODE * max_nodes
    edges = await graph.strongest(most + 1, scan=_SCANNED)
    nodes: dict[str, None] = {}
    kept: list[Edge] = []
    for edge in edges[:most]:
        ends = dict.fromkeys((edge.subject, edge.object))
        if len(nodes) + sum(end not in nodes for end in ends) <= max_nodes:
            nodes.update(ends)
            kept.append(edge)
    return list(nodes), kept, len(kept) < len(edges)


def page(part: Subgraph, *, title: str) -> str:
    script, style = _script_and_style()
    return Template((_HERE / "picture.html").read_text("utf-8")).substitute(
        policy=page_policy(), title=escape(title), style=style, script=script, data=_embedded(_data(part))
    )


def page_policy() -> str:
    """The content security policy of the page, which stands in it: its own script and style alone."""
    script, style = map(_hash, _script_and_style())
    return f"default-src 'none'; script-src '{script}'; style-src '{style}'; base-uri 'none'; form-action 'none'"


def _script_and_style() -> tuple[str, str]:
    return (_HERE / "picture.js").read_text("utf-8"), (_HERE / "picture.css").read_text("utf-8")


def _hash(text: str) -> str:
    return f"sha256-{b64encode(sha256(text.encode()).digest()).decode()}"


def _embedded(value: Any) -> str:
    """JSON that cannot end the script element, open a comment or be markup, whatever the texts are."""
    text = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _data(part: Subgraph) -> dict[str, Any]:
    places = {node.iri: place for place, node in enumerate(part.nodes)}
    return {
        "nodes": [{"name": node.name, "kind": node.kind} for node in part.nodes],
        "edges": [
            {
                "from": places[edge.subject],
                "to": places[edge.object],
                "name": edge.name,
                "text": edge.text,
                "weight": edge.weight,
                "seen": edge.seen,
                "memories": list(map(_memory, part.memories.get(edge.iri, ()))),
            }
            for edge in part.edges
        ],
        "cut": part.cut,
    }


def _memory(one: EdgeMemory) -> dict[str, Any]:
    text = one.text if len(one.text) <= _LONGEST_TEXT else f"{one.text[: _LONGEST_TEXT - 1]}…"
    return {"id": one.id, "text": text, "ts": one.ts}
