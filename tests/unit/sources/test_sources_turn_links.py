"""Links of turns on real stores, embedded and on a server: every way, in scope, bounded, gone with their memory."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyoxigraph as ox
import pytest

from orion_recall.errors import SourceError
from orion_recall.graph.stores.oxigraph import RdfGraph
from orion_recall.graph.stores.sparql import SparqlGraph
from orion_recall.graph.stores.sparql_client import SparqlClient, SparqlServer
from orion_recall.graph.vocabulary import ORION, Row, memory_iri, tenant_graph
from orion_recall.interfaces import MemoryGraph
from orion_recall.sources.turn_links import TurnLinks
from orion_recall.values import Change, Memory, Neighbour, Scope
from tests.samples.source_samples import NOW, TENANT, key, memory
from tests.stand_ins.graph import SampleGraph
from tests.stand_ins.oxigraph import Oxigraph

EVERYWHERE = Scope(tenant=TENANT)


def turn(name: str, text: str = "It rained.", **fields: Any) -> Memory:
    return memory(name, text, occurred_at=NOW, **fields)


FIRST = turn("first", session_id="s1", user_id="u1", kind="world", tags=["rain"], speaker="Ana", uri="urn:doc:plan")
SECOND = turn("second", session_id="s1", user_id="u1")
THIRD = turn("third", session_id="s1")
NAMING = turn("naming", "As in [[first]].", session_id="s2", metadata={"in_reply_to": "gone"})
QUOTING = turn("quoting", "See urn:doc:plan here", session_id="s3")
THEIRS = turn("first", tenant="other", session_id="s1")


def neighbour(one: Memory) -> Neighbour:
    return Neighbour(id=one.id, text=one.text, speaker=one.speaker)


def changes(*memories: Memory, start: int = 1) -> list[Change]:
    """The memories as the outbox gives them: turns of one session and tenant follow each other as they stand."""
    found: list[Change] = []
    for place, one in enumerate(memories):
        beside = [other for other in memories if (other.tenant, other.session_id) == (one.tenant, one.session_id)]
        at = beside.index(one)
        previous, following = beside[at - 1] if at else None, beside[at + 1] if at + 1 < len(beside) else None
        found.append(
            Change(
                position=start + place,
                memory=one,
                previous=neighbour(previous) if previous else None,
                following=neighbour(following) if following else None,
            )
        )
    return found


@pytest.fixture(params=["embedded", "server"])
async def graph(
    request: pytest.FixtureRequest, folder: Path, empty_oxigraph: Oxigraph
) -> AsyncIterator[MemoryGraph]:
    server = SparqlServer(url=empty_oxigraph.url)
    opened = RdfGraph(folder / "graph") if request.param == "embedded" else SparqlGraph(SparqlClient(server))
    await opened.open()
    await opened.apply(changes(FIRST, SECOND, THIRD, NAMING, QUOTING, THEIRS))
    yield opened
    await opened.close()


async def around(
    graph: MemoryGraph, *names: str, scope: Scope = EVERYWHERE, steps: int = 1
) -> set[tuple[str, str, str]]:
    called = {key(one.id): one.id for one in (FIRST, SECOND, THIRD, NAMING, QUOTING)}
    links = await TurnLinks(graph).around([key(name) for name in names], scope, steps=steps)
    assert len(links) == len(set(links))
    return {(called[link.source], link.kind, called[link.target]) for link in links}


async def test_turns_are_linked_in_both_directions_and_by_ids_and_uris(graph: MemoryGraph):
    first = {
        ("first", "next", "second"),
        ("naming", "reference", "first"),
        ("quoting", "reference", "first"),
    }
    assert await around(graph, "first") == first
    assert await around(graph, "third") == {("second", "next", "third")}
    assert await around(graph, "naming") == {("naming", "reference", "first")}, "what it replies to is not there"
    assert await around(graph, "quoting") == {("quoting", "reference", "first")}
    assert await around(graph, "third", steps=2) == {("second", "next", "third"), ("first", "next", "second")}
    assert await around(graph, "third", steps=3) == {("second", "next", "third"), *first}
    assert await around(graph) == set()


@pytest.mark.parametrize(
    ("scope", "found"),
    [
        (Scope(tenant="other"), set[str]()),
        (Scope(tenant=TENANT, session_id="s1"), {"first", "third"}),
        (Scope(tenant=TENANT, user_id="u1"), {"first"}),
        (Scope(tenant=TENANT, tags=("rain",)), {"first"}),
        (Scope(tenant=TENANT, kinds=("world",)), {"first"}),
        (Scope(tenant=TENANT, speakers=("Ana",)), {"first"}),
        (Scope(tenant=TENANT, since=NOW + 1), set[str]()),
    ],
)
async def test_nothing_outside_the_scope_is_linked_nor_leads_further(
    graph: MemoryGraph, scope: Scope, found: set[str]
):
    links = await around(graph, "second", scope=scope, steps=3)
    assert {end for source, _, target in links for end in (source, target)} - {"second"} == found


async def test_the_links_of_a_deleted_or_changed_memory_are_gone(graph: MemoryGraph):
    gone = Change(position=7, memory=replace(SECOND, deleted_at=NOW))
    healed = [
        Change(position=8, memory=FIRST, following=neighbour(THIRD)),
        Change(position=9, memory=THIRD, previous=neighbour(FIRST)),
        Change(position=10, memory=turn("naming", "As in no other.", session_id="s2", version=2)),
    ]
    await graph.apply([gone])
    assert await around(graph, "third") == set()
    await graph.apply(healed)
    assert await around(graph, "third") == {("first", "next", "third")}
    assert await around(graph, "naming") == set()
    await graph.apply([Change(position=11, memory=replace(FIRST, deleted_at=NOW))])
    assert await around(graph, "quoting") == set(), "a reference to a deleted memory leads nowhere"


async def test_a_turn_that_fifty_thousand_refer_to_costs_what_one_that_few_refer_to_does():
    def referred(times: int) -> SampleGraph:
        made, graph = SampleGraph(), ox.NamedNode(str(tenant_graph(TENANT)))
        refers, name = ORION.refersTo.n3(), ORION.id.n3()
        lines: list[str] = []
        for place in range(1, times + 1):
            node = memory_iri(place).n3()
            lines += (f"{node} {refers} {memory_iri(0).n3()} .", f'{node} {name} "m{place}" .')
        made.store.bulk_load("\n".join(lines).encode(), ox.RdfFormat.N_TRIPLES, to_graph=graph)
        return made

    async def read(graph: SampleGraph) -> float:
        began = time.process_time()
        assert len(await TurnLinks(graph).around([0], EVERYWHERE, steps=1)) == 8
        return time.process_time() - began

    many, few = referred(50_000), referred(50)
    took = [(await read(many), await read(few)) for _ in range(5)]
    assert min(one for one, _ in took) < 5 * min(other for _, other in took) + 0.2
    assert len(many.queries) == 5


async def test_an_answer_of_another_shape_is_a_source_error():
    class Odd:
        async def select(self, query: str) -> Sequence[Row]:
            return [{"node": "urn:x", "memory": "urn:y", "way": "after"}]

    with pytest.raises(SourceError, match="does not fit"):
        await TurnLinks(Odd()).around([1], EVERYWHERE, steps=1)
