"""Walks that a question asks for, on real graphs: who somebody is, how two are related, what is told of a time."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from orion_recall.graph.stores.oxigraph import RdfGraph
from orion_recall.graph.stores.sparql import SparqlGraph
from orion_recall.graph.stores.sparql_client import SparqlClient, SparqlServer
from orion_recall.interfaces import MemoryGraph
from orion_recall.recall.understand.chains import walks
from orion_recall.recall.understand.people import entities
from orion_recall.sources.graph import RdfSource, along
from orion_recall.values import Scope, SearchRequest
from orion_recall.when.times import times
from tests.samples.source_samples import TENANT, changes, key, memory, names, request
from tests.stand_ins.oxigraph import Oxigraph

MAY = datetime(2026, 5, 12, 9, tzinfo=UTC).timestamp()
DAY = 86_400.0
ASKED_AT = datetime(2026, 5, 20, 9, tzinfo=UTC)

VET = memory("vet", "Hana Sato is Ana's vet.", occurred_at=MAY - 40 * DAY, user_id="u1")
JOB = memory("job", "Hana Sato works at Fjord Labs.", occurred_at=MAY - 39 * DAY, user_id="u1")
MET = memory("met", "Hana Sato met Bo.", occurred_at=MAY - 38 * DAY, user_id="u1")
TOWN = memory("town", "Fjord Labs is based in Bergen.", occurred_at=MAY - 37 * DAY)
BROKE = memory(
    "broke", "The Aurora belongs to Ana and broke on 12 May 2026.", occurred_at=MAY + 3 * DAY, entities=["Aurora"]
)
PLAN = memory(
    "plan",
    "Ana owns the Aurora and brings her to the yard on 12 May 2026.",
    occurred_at=MAY - 5 * DAY,
    entities=["Aurora"],
)
SAID = memory("said", "The Aurora is named after Aurora Lind.", occurred_at=MAY, entities=["Aurora"])
OTHER = memory("other", "Ana owns the Aurora since 3 March 2025.", occurred_at=MAY + DAY, entities=["Aurora"])
MEL = memory("mel", "I met Bo on 12 May 2026.", speaker="Mel", occurred_at=MAY + DAY)
ALL = (VET, JOB, MET, TOWN, BROKE, PLAN, SAID, OTHER, MEL)


@pytest.fixture(params=["embedded", "server"])
async def graph(
    request: pytest.FixtureRequest, folder: Path, empty_oxigraph: Oxigraph
) -> AsyncIterator[MemoryGraph]:
    server = SparqlClient(SparqlServer(url=empty_oxigraph.url))
    opened = RdfGraph(folder / "graph") if request.param == "embedded" else SparqlGraph(server)
    await opened.open()
    await opened.apply(changes(*ALL))
    yield opened
    await opened.close()


def asked(text: str, *, asker: str | None = None, scope: Scope | None = None, **fields: Any) -> SearchRequest:
    made = request(text, scope=scope, **fields)
    time = times(text, ASKED_AT)
    found = walks(text, ("who", "related", "temporal"), named=entities(text, ("Aurora",)), time=time, asker=asker)
    now = ASKED_AT.timestamp()
    return replace(made, question=replace(made.question, chains=found, time=time, now=now))


async def found_by(graph: MemoryGraph, wanted: SearchRequest, *labels: str) -> dict[str, tuple[str, ...]]:
    """The evidence by memory, best first."""
    found = await along(graph, wanted, labels=labels)
    by_key = {key(one.id): one.id for one in ALL}
    ordered = sorted(found.items(), key=lambda one: -one[1].share)
    return {by_key[memory]: evidence.statements for memory, evidence in ordered}


async def test_who_somebody_is_comes_from_roles_and_offices_and_not_from_what_they_did(graph: MemoryGraph):
    found = await found_by(graph, asked("Who is Hana Sato?"))
    assert list(found) == ["vet", "job"]
    assert found["vet"] == ("Hana Sato vet of Ana",)
    hits = await RdfSource(graph, None).search(asked("Who is Hana Sato?"))
    assert names(hits, ALL)[:2] == ["vet", "job"]
    assert [hit.path > 0 for hit in hits[:3]] == [True, True, False]


async def test_how_two_are_related_is_the_path_with_the_memories_of_its_steps(graph: MemoryGraph):
    found = await found_by(graph, asked("How is Ana related to Bergen?"))
    path = ("Hana Sato vet of Ana", "Hana Sato works at Fjord Labs", "Fjord Labs based in Bergen")
    assert found == {"town": path, "job": path, "vet": path}
    assert await found_by(graph, asked("How is Ana related to Bergen?", path_hops=2)) == {}
    assert await found_by(graph, asked("How is Ana related to Bergen?", path_expansions=1)) == {}
    assert await found_by(graph, asked("How is Ana related to Nobody?")) == {}


async def test_what_is_told_of_a_time_comes_before_what_was_said_then(graph: MemoryGraph):
    found = await found_by(graph, asked("What happened to the Aurora on 12 May 2026?"))
    assert next(iter(found)) == "broke", "told afterwards of that day"
    assert list(found).index("broke") < list(found).index("plan") < list(found).index("said")
    assert "other" not in found
    assert any("(2026-05-12)" in statement for statement in found["plan"])


async def test_a_question_that_names_nobody_begins_at_what_the_graph_knows_and_else_at_the_asker(
    graph: MemoryGraph,
):
    text = "What happened to my boat on 12 May 2026?"
    assert "broke" in await found_by(graph, asked(text, asker="Mel"), "Aurora")
    assert await found_by(graph, asked(text, asker="Mel")) == {"mel": ("Mel met Bo (2026-05-12)",)}
    assert await found_by(graph, asked(text)) == {}


@pytest.mark.parametrize(
    "text", ["Who is Hana Sato?", "How is Ana related to Bergen?", "What did Hana Sato do on 12 May 2026?"]
)
async def test_a_walk_shows_nothing_that_is_out_of_scope(graph: MemoryGraph, text: str):
    for scope in (Scope(tenant="other"), Scope(tenant=TENANT, user_id="u2"), Scope(tenant=TENANT, agent_id="a")):
        assert await found_by(graph, asked(text, scope=scope)) == {}
    # The town is told of without a user: of u1 there is no evidence for it.
    mine = Scope(tenant=TENANT, user_id="u1")
    assert await found_by(graph, asked("How is Ana related to Bergen?", scope=mine)) == {}
    assert set(await found_by(graph, asked("Who is Hana Sato?", scope=mine))) == {"vet", "job"}


async def test_a_windows_evidence_goes_with_its_memory(graph: MemoryGraph):
    wanted = asked("What happened to the Aurora on 12 May 2026?")
    gone = replace(BROKE, deleted_at=MAY)
    later = memory("plan", "Ana owns the Aurora and brings her to the yard on 30 June 2026.", entities=["Aurora"])
    await graph.apply(changes(gone, replace(later, version=2), start=20))
    assert list(await found_by(graph, wanted)) == ["said"]
