"""Ways through the sample graph, and the bounds of the search."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from orion_recall.graph.vocabulary import entity_iri
from orion_recall.graph.walks import PathBounds, Paths, find_path
from tests.stand_ins.graph import DAY, NOW, PEOPLE, TENANT, Said, SampleGraph, sample_graph


async def path(
    graph: SampleGraph, one: str, other: str | None = None, *via: str, bounds: PathBounds | None = None
) -> Paths:
    target = str(entity_iri(other)) if other is not None else None
    seed = str(entity_iri(one))
    return await find_path(graph, TENANT, seed, target, via=via, now=NOW, bounds=bounds or PathBounds())


def ways(found: Paths) -> list[tuple[str, ...]]:
    return [one.entities for one in found.paths]


def said(name: str, *statements: tuple[str, str, str], at: float | None = NOW) -> Said:
    return Said(id=name, text=name, at=at, statements=statements)


PEOPLE_GRAPH = sample_graph(PEOPLE)


async def test_a_path_comes_back_as_evidence():
    (found,) = (await path(PEOPLE_GRAPH, "Ana", "Fjord Labs")).paths
    assert found.entities == ("Ana", "Ida", "Fjord Labs")
    first, second = found.steps
    assert (first.source, first.relation, first.target, first.text) == (
        "Ana",
        "sister of",
        "Ida",
        "Ida sister of Ana",
    )
    assert (second.weight, second.seen) == (2.0, NOW)
    assert [(told.id, told.ts) for told in second.memories] == [("m5", NOW), ("m1", NOW - DAY)]
    assert second.memories[0].text == "Ida still works at Fjord Labs."
    assert set(second.cost) == {"hop", "recency", "weight", "degree"}
    assert found.cost == pytest.approx(sum(sum(step.cost.values()) for step in found.steps), abs=1e-3)


async def test_a_possessive_chain_is_gone_along_whichever_way_its_relations_point():
    found = await path(PEOPLE_GRAPH, "Ana", None, "sister", "employer", "headquarters")
    assert ways(found) == [("Ana", "Ida", "Fjord Labs", "Bergen")]
    assert [step.cost["label"] for step in found.paths[0].steps] == pytest.approx([0.0, 0.6, 0.6])
    assert all(step.cost["direction"] == 0.0 for step in found.paths[0].steps)


async def test_recent_and_much_told_edges_are_preferred():
    old_or_new = sample_graph([
        said("o1", ("A", "knows", "Old"), ("Old", "knows", "B"), at=NOW - 3000 * DAY),
        said("n1", ("A", "knows", "New")), said("n2", ("New", "knows", "B")),
    ])  # fmt: skip
    assert ways(await path(old_or_new, "A", "B")) == [("A", "New", "B")]
    told = sample_graph([
        said("s1", ("A", "knows", "Once")), said("s2", ("Once", "knows", "B")),
        *(said(f"t{n}", ("A", "knows", "Often"), ("Often", "knows", "B")) for n in range(4)),
    ])  # fmt: skip
    assert ways(await path(told, "A", "B")) == [("A", "Often", "B")]


async def test_what_everything_is_linked_to_is_avoided():
    graph = sample_graph([
        said("h", ("A", "likes", "Rain"), ("B", "likes", "Rain")),
        *(said(f"r{n}", (f"P{n}", "likes", "Rain")) for n in range(20)),
        said("q", ("A", "likes", "Quiet"), ("B", "likes", "Quiet")),
    ])  # fmt: skip
    assert ways(await path(graph, "A", "B")) == [("A", "Quiet", "B")]


async def test_a_hub_costs_no_more_than_its_limit_and_its_neighbours_are_found_all_the_same():
    graph = sample_graph([
        *(said(f"h{n}", (f"P{n}", "knows", "Hub")) for n in range(400)),
        said("far", ("Hub", "sister of", "Sis"), ("Sis", "works at", "Company")),
    ])  # fmt: skip
    found = await path(graph, "P7", "Company", bounds=PathBounds(edges=16))
    assert ways(found) == [("P7", "Hub", "Sis", "Company")]
    assert ways(await path(graph, "Hub", None, "sister", "employer")) == [("Hub", "Sis", "Company")]
    around = [part for query in graph.queries for part in query.split("?edge o:about")[1:]]
    limits = [re.match(r" <[^>]+> \} LIMIT (\d+)", part) for part in around]
    assert limits and all(limit is not None and int(limit[1]) <= 2000 for limit in limits)


async def test_expansions_are_bounded():
    star = [said(f"s{n}", ("A", "knows", f"S{n}")) for n in range(40)]
    found = await path(
        sample_graph([*star, said("end", ("Z", "knows", "Y"))]), "A", "Z", bounds=PathBounds(max_expansions=5)
    )
    assert (found.ended, found.paths) == ("expansions", ())


async def test_a_graph_that_hangs_ends_at_the_deadline():
    class Hanging:
        async def select(self, query: str) -> Sequence[Mapping[str, str]]:
            await asyncio.sleep(60)
            raise AssertionError

    async with asyncio.timeout(30):
        found = await find_path(Hanging(), TENANT, "urn:a", "urn:b", now=NOW, bounds=PathBounds(deadline_s=0.05))
    assert (found.ended, found.paths) == ("deadline", ())


async def test_of_two_ways_the_one_that_is_told_of_the_time_comes_first():
    graph = sample_graph([
        said("a", ("Ana", "knows", "Bo"), ("Bo", "knows", "Dora")),
        replace(
            said("b", ("Ana", "knows", "Carl"), ("Carl", "knows", "Dora")), told=(("2020-05-01", "2020-06-01"),)
        ),
    ])  # fmt: skip
    ends = [str(entity_iri(name)) for name in ("Ana", "Dora")]
    year = datetime(2020, 1, 1, tzinfo=UTC).timestamp()
    (way,) = (await find_path(graph, TENANT, *ends, now=NOW, during=[(year, year + 365 * DAY)])).paths
    assert way.entities == ("Ana", "Carl", "Dora")
    assert [step.cost["time"] for step in way.steps] == [0.0, 0.0]
    (other,) = (await find_path(graph, TENANT, *ends, now=NOW, during=[(year - 365 * DAY, year)])).paths
    assert [step.cost["time"] for step in other.steps] == [1.0, 1.0]
