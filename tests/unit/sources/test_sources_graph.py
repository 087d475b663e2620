"""The graph source: memories near what a question names, on every store of a graph."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from orion_recall.errors import SourceError, TransientSourceError
from orion_recall.graph.stores.oxigraph import RdfGraph
from orion_recall.graph.stores.sparql import SparqlGraph
from orion_recall.graph.stores.sparql_client import SparqlClient, SparqlServer
from orion_recall.interfaces import MemoryGraph
from orion_recall.sources.graph import RdfSource, statement_weights
from orion_recall.values import Chain, Change, Scope, SearchRequest
from tests.samples.source_samples import NOW, TENANT, changes, id_of, key, memory, names, request
from tests.stand_ins.oxigraph import Oxigraph

WORK = memory(
    "work", "I work at Fjord Labs.", speaker="Ana", session_id="s1", kind="world", occurred_at=NOW - 100,
    tags=["job"], user_id="u1", agent_id="scout", run_id="r1", title="Work", uri="x:1",
)  # fmt: skip
PLACE = memory("place", "Fjord Labs is in Bergen.", session_id="s1", kind="world", occurred_at=NOW - 50)
SHIP = memory("ship", "Bo repairs the Aurora.", session_id="s2", entities=["Aurora"], user_id="u1")
OURS = (WORK, PLACE, SHIP)
THEIRS = memory(
    "leak", "Eve works at Fjord Labs.", tenant="other", speaker="Eve", entities=["Fjord Labs", "Aurora"]
)
ALL = (*OURS, THEIRS)


class Names:
    """Finds the entities it is told, or fails."""

    def __init__(self, *found: tuple[str, float], error: Exception | None = None) -> None:
        self.found, self.error = found, error

    async def find_entities(self, text: str, tenant: str, limit: int) -> Sequence[tuple[str, float]]:
        if self.error is not None:
            raise self.error
        return self.found[:limit]


@pytest.fixture(params=["embedded", "server"])
async def empty(
    request: pytest.FixtureRequest, folder: Path, empty_oxigraph: Oxigraph
) -> AsyncIterator[MemoryGraph]:
    embedded = request.param == "embedded"
    server = SparqlServer(url=empty_oxigraph.url)
    opened = RdfGraph(folder / "graph") if embedded else SparqlGraph(SparqlClient(server))
    await opened.open()
    yield opened
    await opened.close()


@pytest.fixture
async def graph(empty: MemoryGraph) -> MemoryGraph:
    await empty.apply(changes(*ALL))
    return empty


async def search(graph: MemoryGraph, text: str, finder: Names | None = None, **fields: Any) -> list[str]:
    return names(await RdfSource(graph, finder).search(request(text, **fields)), ALL)


async def test_memories_near_a_named_entity_are_found_with_the_reasons(graph: MemoryGraph):
    hits = await RdfSource(graph, None).search(request("who works at Fjord Labs?"))
    assert set(names(hits, ALL)) == {"work", "place"}
    best = hits[0]
    assert best.score > 0
    assert any("Fjord Labs" in said for said in best.statements)
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)


async def test_a_question_that_names_nothing_finds_nothing(graph: MemoryGraph):
    assert await search(graph, "how is the weather?") == []
    assert await search(graph, "?!") == []


@pytest.mark.parametrize("error", [SourceError("index away"), TransientSourceError("index busy")])
async def test_entities_are_found_by_name_in_the_graph_when_the_index_is_away(graph: MemoryGraph, error: Exception):
    assert set(await search(graph, "what about FJORD labs, then?", Names(error=error))) == {"work", "place"}


async def test_what_is_written_is_found_by_the_same_source_at_once_and_what_is_removed_no_more(graph: MemoryGraph):
    source, asked = RdfSource(graph, None), request("Fjord Labs")
    told = memory("told", "Fjord Labs moved.", entities=["Fjord Labs"])
    known = (*ALL, told)
    before = set(names(await source.search(asked), known))
    assert before
    await graph.apply(changes(told, start=9))
    assert set(names(await source.search(asked), known)) == before | {"told"}
    await graph.remove([key("told")])
    assert set(names(await source.search(asked), known)) == before


async def test_two_hops_reach_what_one_hop_does_not(graph: MemoryGraph):
    told = memory("told", "Ana knows Bo.", entities=["Ana", "Bo"])
    await graph.apply(changes(told, start=9))
    one = await search(graph, "Fjord Labs", hops=1)
    two = names(await RdfSource(graph, None).search(request("Fjord Labs", hops=2)), (*ALL, told))
    assert "told" not in one
    assert "told" in two
    assert set(one) <= set(two)


@pytest.mark.parametrize(
    ("parts", "seen"),
    [
        ({}, {"work", "place", "ship"}),
        ({"session_id": "s1"}, {"work", "place"}),
        ({"user_id": "u1"}, {"work", "ship"}),
        ({"agent_id": "scout"}, {"work"}),
        ({"run_id": "r1"}, {"work"}),
        ({"agent_id": "scout", "run_id": "r2"}, set[str]()),
        ({"kinds": ("world", "plan")}, {"work", "place"}),
        ({"tags": ("job", "boat")}, {"work"}),
        ({"since": NOW - 60}, {"place"}),
        ({"until": NOW - 60}, {"work"}),
        ({"as_of": NOW - 60}, {"work", "ship"}),
        ({"since": NOW - 100, "until": NOW - 50}, {"work"}),
        ({"session_id": "s1", "user_id": "u1", "tags": ("job",), "since": 0.0}, {"work"}),
        ({"session_id": "nowhere"}, set[str]()),
        ({"user_id": '" } ?x ?y ?z . { "'}, set[str]()),
        ({"tags": ('a"), ("job',)}, set[str]()),
    ],
    ids=id_of,
)
async def test_every_part_of_a_scope_filters(graph: MemoryGraph, parts: dict[str, Any], seen: set[str]):
    scope = Scope(tenant=TENANT, **parts)
    assert set(await search(graph, "Fjord Labs and Aurora", scope=scope, hops=2)) == seen


async def test_what_is_out_of_scope_takes_no_room_from_what_is_in_it(graph: MemoryGraph):
    crowd = [memory(f"c{n}", f"note {n}", entities=["Aurora"], session_id="crowd") for n in range(40)]
    await graph.apply(changes(*crowd, start=9))
    scope = Scope(tenant=TENANT, session_id="s2")
    assert await search(graph, "Aurora", scope=scope, max_statements=4) == ["ship"]


async def test_tenants_never_see_each_other(graph: MemoryGraph):
    assert await search(graph, "Eve, Fjord Labs, Aurora", scope=Scope(tenant="other"), hops=2) == ["leak"]
    ours = await RdfSource(graph, None).search(request("Eve, Fjord Labs, Aurora", hops=2))
    assert key("leak", "other") not in {hit.key for hit in ours}
    assert not any("Eve" in said for hit in ours for said in hit.statements)
    assert await search(graph, "Fjord Labs", scope=Scope(tenant="nobody")) == []


INJECTIONS = [
    "> } GRAPH ?g { ?s ?p ?o",
    'x" } UNION { GRAPH ?g { ?memory ?p ?text } } #',
    "urn:orion:tenant:other",
    "../tenant:other",
    "other> { ?memory ?a ?b } } } #",
    "a\nb } #",
    "\\u003e } #",
    "%3E%20%7D",
]


async def test_a_text_that_ends_in_a_backslash_and_a_quotation_mark_stays_a_text(graph: MemoryGraph):
    # In triple quotes such an end would leave a quotation mark over, and the next value would be read as SPARQL.
    ending = 'two\nlines\\"'
    out = ") ) } } UNION { GRAPH <urn:orion:tenant:other> { ?memory ?p ?o } } } #"
    scope = Scope(tenant=TENANT, session_id=ending, user_id=out, tags=(ending, out))
    assert await search(graph, "Aurora", Names(("Aurora", 1.0)), scope=scope) == []
    odd = memory("odd", ending, session_id=ending, user_id=ending, title=ending, tags=[ending], entities=["Aurora"])
    await graph.apply(changes(odd, start=20))
    scope = Scope(tenant=TENANT, session_id=ending, user_id=ending, tags=(ending,))
    found = await RdfSource(graph, None).search(request("Aurora", scope=scope))
    assert [hit.key for hit in found] == [key("odd")]
    view = (await graph.fetch([key("odd")]))[key("odd")]
    assert (view.text, view.session_id, view.user_id, view.tags) == (odd.text, ending, ending, (ending,))


@pytest.mark.parametrize("text", INJECTIONS, ids=ascii)
async def test_nothing_enters_a_query_through_tenants_names_or_texts(graph: MemoryGraph, text: str):
    assert await search(graph, text, scope=Scope(tenant=text), hops=2) == []
    for finder in (None, Names((text, 1.0))):
        found = await RdfSource(graph, finder).search(request(text, hops=2))
        assert key("leak", "other") not in {hit.key for hit in found}
    # What is named so is told, found and kept to its tenant all the same.
    odd = memory("odd", "words", tenant=text, entities=[text], tags=[text], session_id=text)
    await graph.apply(changes(odd, start=20))
    hits = await RdfSource(graph, Names((text, 1.0))).search(
        request(text, scope=Scope(tenant=text, session_id=text, tags=(text,)))
    )
    assert [hit.key for hit in hits] == [key("odd", text)]
    assert await RdfSource(graph, Names((text, 1.0))).search(request(text, hops=2)) == []
    view = (await graph.fetch([key("odd", text)]))[key("odd", text)]
    assert (view.session_id, view.tags) == (text, (text,))


async def everything(graph: MemoryGraph) -> set[tuple[str, ...]]:
    rows = await graph.select("SELECT ?g ?s ?p ?o WHERE { GRAPH ?g { ?s ?p ?o } }")
    return {tuple(row[name] for name in "gspo") for row in rows}


async def test_an_updated_memory_leaves_nothing_of_what_it_was(graph: MemoryGraph):
    new = replace(memory("work", "I sleep.", speaker="Ana", session_id="s1"), version=2)
    await graph.apply(changes(new, PLACE, start=5))
    assert await search(graph, "Fjord Labs") == ["place"]
    assert (await graph.fetch([key("work")]))[key("work")].text == "I sleep."
    assert not [row for row in await everything(graph) if "job" in row or "I work at Fjord Labs." in row]


@pytest.mark.parametrize("how", [{"deleted_at": 5.0}, {"superseded_by": "place"}], ids=str)
async def test_a_memory_that_is_not_live_is_as_if_it_had_never_been(empty: MemoryGraph, how: dict[str, Any]):
    await empty.apply(changes(PLACE, SHIP, THEIRS))
    before = await everything(empty)
    await empty.apply(changes(WORK, PLACE, start=4))
    assert await everything(empty) > before
    gone = Change(position=6, memory=replace(WORK, **how))
    await empty.apply([gone, *changes(PLACE, start=7)])
    assert await everything(empty) == before
    assert await empty.fetch([key("work")]) == {}


async def test_memories_can_be_taken_out_by_key_without_moving_on(graph: MemoryGraph):
    await graph.remove([key("work"), key("leak", "other"), key("nobody"), 7])
    assert set(await graph.held()) == {key("place"), key("ship")}
    assert await search(graph, "Fjord Labs") == ["place"]
    assert await search(graph, "Fjord Labs", scope=Scope(tenant="other")) == []
    assert graph.position == len(ALL)
    await graph.remove([])


SISTER = memory("sister", "Ida is Ana's sister.", session_id="s1", user_id="u1", occurred_at=NOW - 90)
JOB = memory("job", "Ida works at Umbra Works.", session_id="s1", user_id="u1", occurred_at=NOW - 80)
TOWN = memory("town", "Umbra Works is based in Bergen.", session_id="s1", occurred_at=NOW - 70)
ANA_TOO = memory("too", "Ana knows Bo.", session_id="s2", user_id="u1")
FAMILY = (SISTER, JOB, TOWN, ANA_TOO)
LED = ("Ida sister of Ana", "Ida works at Umbra Works")


def chained(*vias: tuple[str, ...], seed: str = "Ana", scope: Scope | None = None) -> SearchRequest:
    asked = request("Ana", scope=scope)
    chains = tuple(Chain(seed=seed, via=via, words="Ana's") for via in vias)
    return replace(asked, question=replace(asked.question, chains=chains))


async def led(graph: MemoryGraph, asked: SearchRequest, finder: Names | None = None) -> dict[str, tuple[str, ...]]:
    """The memories with more than one step as their reasons, best first."""
    hits = await RdfSource(graph, finder).search(asked)
    (*named,) = names(hits, (*ALL, *FAMILY))
    return {name: hit.statements for name, hit in zip(named, hits, strict=True) if len(hit.statements) > 1}


async def test_a_possessive_chain_is_gone_along_and_the_path_is_the_evidence(graph: MemoryGraph):
    await graph.apply(changes(*FAMILY, start=9))
    found = await led(graph, chained(("sister", "employer")))
    assert found == {"job": LED, "sister": LED}
    hits = await RdfSource(graph, None).search(chained(("sister", "employer")))
    assert names(hits, (*ALL, *FAMILY))[:2] == ["job", "sister"], "the step that was asked for comes first"
    assert {"work", "too"} <= set(names(hits, (*ALL, *FAMILY))), "what is near Ana is found as well"


@pytest.mark.parametrize("scope", [Scope(tenant=TENANT, user_id="u2"), Scope(tenant="other")])
async def test_a_path_shows_nothing_that_is_out_of_scope(graph: MemoryGraph, scope: Scope):
    await graph.apply(changes(*FAMILY, start=9))
    assert await led(graph, chained(("sister", "employer"), scope=scope)) == {}
    mine = replace(scope, tenant=TENANT, user_id="u1")
    assert set(await led(graph, chained(("sister", "employer"), scope=mine))) == {"job", "sister"}
    # The town is told of without a user: of u1 there is no evidence for it.
    assert await led(graph, chained(("sister", "employer", "headquarters"), scope=mine)) == {}
    assert set(await led(graph, chained(("sister", "employer", "headquarters")))) == {"town", "job", "sister"}


async def test_a_graph_that_gives_no_path_in_time_still_says_what_is_near(graph: MemoryGraph):
    class Slow:
        kind = "graph"
        damage: str | None = None
        stalled: str | None = None
        writes = None

        async def check(self) -> None: ...

        async def select(self, query: str) -> Any:
            if "Property" in query:
                raise TransientSourceError("busy")
            return await graph.select(query)

    await graph.apply(changes(*FAMILY, start=9))
    near = await RdfSource(Slow(), None).search(chained(("sister", "employer")))
    assert set(names(near, (*ALL, *FAMILY))) >= {"work", "too"}
    with pytest.raises(TransientSourceError):
        await RdfSource(Slow(), Names()).search(chained(("sister", "employer")))


class Likeness:
    """Finds the entities it is told, fails, or never answers."""

    def __init__(self, *found: tuple[str, float], error: Exception | None = None, hangs: bool = False) -> None:
        self.found, self.error, self.hangs = found, error, hangs

    async def __call__(self, text: str, tenant: str, limit: int) -> Sequence[tuple[str, float]]:
        if self.hangs:
            await asyncio.Event().wait()
        if self.error is not None:
            raise self.error
        return self.found[:limit]


async def test_entities_close_in_meaning_start_a_walk_where_that_is_wanted(graph: MemoryGraph):
    arm = RdfSource(graph, Names(("Aurora", 1.0)), Likeness(("Fjord Labs", 0.6), ("Aurora", 0.5), ("Bo", 0.3)))
    wanted = names(await arm.search(request("the shipyard", similar_entities=3)), ALL)
    assert set(wanted) == {"ship", "work", "place"}
    assert names(await arm.search(request("the shipyard")), ALL) == ["ship"]
    for likeness in (Likeness(error=SourceError("away")), Likeness(hangs=True)):
        broken = RdfSource(graph, Names(("Aurora", 1.0)), likeness)
        asked = request("the shipyard", similar_entities=2, timeout_s=1.0)
        async with asyncio.timeout(60):
            assert names(await broken.search(asked), ALL) == ["ship"]


@pytest.mark.parametrize("arm", ["activation", "push", "pagerank"])
async def test_every_way_of_spreading_finds_what_is_near_in_scope_with_its_reasons(graph: MemoryGraph, arm: Any):
    await graph.apply(changes(*FAMILY, start=9))
    asked = request("Ida", hops=2, graph_method=arm, max_statements=100)
    hits = await RdfSource(graph, None).search(asked)
    found = names(hits, (*ALL, *FAMILY))
    assert set(found[:2]) == {"sister", "job"}, "what is said of Ida comes first"
    assert {"town", "work"} <= set(found), "and what is said of whom she has to do with, further on"
    assert "leak" not in found
    by_name = dict(zip(found, hits, strict=True))
    assert by_name["job"].statements == ("Ida works at Umbra Works",)
    scoped = replace(asked, scope=Scope(tenant=TENANT, user_id="u1"))
    assert set(names(await RdfSource(graph, None).search(scoped), (*ALL, *FAMILY))) <= {
        "sister",
        "job",
        "too",
        "work",
    }
    assert await RdfSource(graph, None).search(asked) == hits


ACME = "acme"


MEMORIES = (
    memory("one", "Ida works at Fjord Labs."),
    memory("two", "Ida works at Fjord Labs. Ida is Ana's sister."),
    memory("none", "It rained."),
    memory("leak", "Ida works at Fjord Labs.", tenant="other"),
)


async def test_evidence_is_how_often_the_statements_of_a_memory_are_stated(folder: Path):
    graph = RdfGraph(folder / "graph")
    await graph.open()
    try:
        await graph.apply(changes(*MEMORIES))
        weights = partial(statement_weights, graph)
        keys = [key(name) for name in ("one", "two", "none")]
        assert await weights(ACME, keys) == {key("one"): 2.0, key("two"): 3.0}
        assert await weights(ACME, []) == {}
        assert await weights("other", keys) == {}, "of another tenant nothing is known"
    finally:
        await graph.close()
    with pytest.raises(SourceError):
        await weights(ACME, keys)
