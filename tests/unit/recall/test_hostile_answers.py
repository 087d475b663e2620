"""What a store answers that is wrong on purpose: it costs its own hits, and shows nothing of another tenant."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from pydantic import ValidationError

from orion_recall.errors import ModelError, SourceError
from orion_recall.external.mappings import SparqlMapping
from orion_recall.graph.stores.sparql import memories_by_key
from orion_recall.graph.tenant_graph import TenantGraph
from orion_recall.graph.vocabulary import ORION, finite, memory_iri
from orion_recall.models.tei import _vectors  # pyright: ignore[reportPrivateUsage]
from orion_recall.models.tokenizer import TokenCounter
from orion_recall.recall.pipeline import Recalled, recall
from orion_recall.sources.graph import statement_weights
from orion_recall.text.normal import memory_key
from orion_recall.values import Hit, MemoryView, SourceName
from tests.samples.recall_fakes import NOW, FakeSource, Shelf, hit, profile, query, sources, view

BUILT_IN: Sequence[SourceName] = ("vector", "lexical", "rdf", "sql_timeline")
NUMBERS = (math.nan, math.inf, -math.inf)


class AnyShelf(Shelf):
    """A reader that gives whatever key it is asked for, of whichever tenant."""

    def __init__(self, memories: Mapping[int, MemoryView]) -> None:
        super().__init__()
        self.memories = dict(memories)


async def asked(arms: Sequence[FakeSource], shelf: Mapping[int, MemoryView]) -> Recalled:
    made = sources(TokenCounter(), arms, readers=(AnyShelf(shelf),))
    return await recall(query(), profile(), made, now=NOW)


@pytest.mark.parametrize("name", BUILT_IN)
async def test_a_key_of_another_tenant_shows_nothing_whichever_source_gives_it(name: SourceName) -> None:
    theirs = memory_key("other", "m1")
    shelf = {theirs: view("m1", "Their crane is a secret."), memory_key("default", "m2"): view("m2", "The crane.")}
    got = await asked([FakeSource(name, [Hit(theirs, 0.9), hit("m2", 0.5)])], shelf)
    assert [item.scored.memory.id for item in got.selection.items] == ["m2"]
    assert "secret" not in got.rendered


@pytest.mark.parametrize("score", NUMBERS)
@pytest.mark.parametrize("name", BUILT_IN)
async def test_scores_that_are_no_numbers_cost_their_source_alone(name: SourceName, score: float) -> None:
    other: SourceName = "lexical" if name == "vector" else "vector"
    arms = [FakeSource(name, [hit("m1", score), hit("m2", 0.5)]), FakeSource(other, [hit("m2", 0.4)])]
    shelf = {memory_key("default", one): view(one, f"The crane {one}.") for one in ("m1", "m2")}
    got = await asked(arms, shelf)
    assert [item.scored.memory.id for item in got.selection.items] == ["m2"]
    assert all(math.isfinite(item.scored.score) for item in got.selection.items)
    (report,) = (one for one in got.reports if one.source == name)
    assert (report.status, "no numbers" in (report.error or "")) == ("failed", True)


@pytest.mark.parametrize("ts", [*NUMBERS, 1e300, -1e300, 253_402_300_800.0])
async def test_a_memory_of_no_time_that_there_is_ends_no_recall(ts: float) -> None:
    shelf = {
        memory_key("default", "m1"): view("m1", "The crane was sold yesterday.", ts=ts, until=ts),
        memory_key("default", "m2"): view("m2", "The crane.", ts=NOW),
    }
    got = await asked([FakeSource("vector", [hit("m1", 0.9), hit("m2", 0.5)])], shelf)
    assert "m2" in [item.scored.memory.id for item in got.selection.items]


class Rows:
    """A graph server that gives these rows whatever it is asked."""

    def __init__(self, *rows: Mapping[str, str]) -> None:
        self.rows = rows

    async def select(self, query: str) -> Sequence[Mapping[str, str]]:
        return self.rows


@pytest.mark.parametrize("number", ["NaN", "inf", "-Infinity", "1e999", "one", "", "9" * 5000 + "x"])
async def test_numbers_of_a_graph_server_with_which_nothing_can_be_computed_are_a_source_error(number: str) -> None:
    with pytest.raises(ValueError, match=r"finite|float"):
        finite(number)
    edge: dict[str, Any] = dict.fromkeys(("place", "edge", "subject", "relation", "object", "text"), "0")
    one = str(memory_iri(1))
    with pytest.raises(SourceError):
        await TenantGraph(Rows(edge | {"weight": number}), "default").edges(["urn:x"], limit=1)
    with pytest.raises(SourceError):
        await statement_weights(Rows({"memory": one, "total": number}), "default", [1])
    view_of = [{"memory": one, "property": f"{ORION}{name}", "value": value} for name, value in
               (("id", "m1"), ("content", "x"), ("occurred", number))]  # fmt: skip
    with pytest.raises(SourceError):
        await memories_by_key(Rows(*view_of), [1])


ODD_VECTORS = {
    "zeros": [[0.0, 0.0, 0.0]],
    "one of zeros": [[1.0, 0.0, 0.0], [0.0, 0.0, 0.0]],
    "infinite as floats of 32 bits": [[1e39, math.inf, 1.0]],
    "infinite when squared": [[1e300, 1e300, 1e300]],
    "not a number": [[math.nan, 1.0, 1.0]],
    "a number of 400 digits": [[10**400, 1, 1]],
    "nothing": [],
    "texts": [["x", "y", "z"]],
    "deeper": [[[1.0], [1.0], [1.0]]],
    "none": [[None, 1.0, 1.0]],
    "ragged": [[1.0, 1.0, 1.0], [1.0]],
    "an object": {"embedding": [1.0]},
}


@pytest.mark.parametrize("name", ODD_VECTORS)
def test_vectors_of_an_embedding_server_have_a_direction_or_are_refused(name: str) -> None:
    answer = ODD_VECTORS[name]
    with pytest.raises(ModelError, match=r"answered /embed with"):
        _vectors(answer, max(1, len(answer)), 3, "http://server")


def test_large_and_small_vectors_of_an_embedding_server_are_of_unit_length() -> None:
    made = _vectors([[1e38, 0.0, 1e38], [1e-30, 0.0, 0.0]], 2, 3, "http://server")
    assert made.dtype.name == "float32"
    assert [round(float(row @ row), 5) for row in made] == [1.0, 1.0]


@pytest.mark.parametrize(
    "bad", ["urn:x> } DROP ALL #", "urn:x\x00", "urn:\x01y", "urn:x\n", "urn:x\u2028", "x", "", "urn:"]
)
@pytest.mark.parametrize("field", ["graph", "label", "text", "time"])
def test_an_identifier_that_is_no_iri_is_refused_when_the_mapping_is_read(field: str, bad: str) -> None:
    fields = {"name": "wiki", "url": "http://x", "tenant": "acme", "text": "urn:text"}
    with pytest.raises(ValidationError):
        SparqlMapping.model_validate(fields | {field: bad})
