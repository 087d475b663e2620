"""A graph that a stranger made is searched by its labels and cited, on a real SPARQL engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyoxigraph
import pytest

from orion_recall.errors import ScopeNotKept
from orion_recall.external.mappings import SparqlMapping
from orion_recall.external.sparql import MappedGraphSource
from orion_recall.text.normal import content_words
from orion_recall.values import Hit, MemoryView, Question, Scope, SearchRequest

MAPPING = SparqlMapping.model_validate(
    {
        "name": "wiki",
        "url": "http://nowhere.example",
        "graph": "urn:their:graph",
        "tenant": "acme",
        "text": "http://www.w3.org/2000/01/rdf-schema#comment",
        "time": "http://purl.org/dc/terms/modified",
    }
)
THEIRS = """
PREFIX rdfs: <http://www.w3.org/2000/01/rdf-schema#>
PREFIX : <https://wiki.example/>
PREFIX dct: <http://purl.org/dc/terms/>
INSERT DATA {
  GRAPH <urn:their:graph> {
    :crane rdfs:label "Harbour crane"@en ; rdfs:comment "It lifts forty tonnes." ; dct:modified "2026-03-01" .
    :gearbox rdfs:label "gearbox" ; rdfs:comment "The gearbox was made in 1987." ; :partOf :crane .
    :ana rdfs:label "Ana" ; rdfs:comment "Ana mends the crane." .
    :crane :mendedBy :ana .
  }
  GRAPH <urn:another:graph> { :secret rdfs:label "Ana" ; rdfs:comment "Not of this graph." }
}
"""


class Endpoint:
    """A SPARQL store without a network."""

    def __init__(self) -> None:
        self.store = pyoxigraph.Store()
        self.store.update(THEIRS)

    async def select(self, query: str) -> Sequence[Mapping[str, str]]:
        found = self.store.query(query)
        assert isinstance(found, pyoxigraph.QuerySolutions)
        names = [variable.value for variable in found.variables]
        rows: list[Mapping[str, str]] = []
        for row in found:
            values: list[Any] = [row[name] for name in names]
            rows.append({name: value.value for name, value in zip(names, values, strict=True) if value is not None})
        return rows


@pytest.fixture
def wiki() -> MappedGraphSource:
    return MappedGraphSource(Endpoint(), MAPPING)


def ask(text: str, **scope: Any) -> SearchRequest:
    terms = frozenset(content_words(text))
    question = Question(text=text, dense_text=text, keyword_text=text, terms=terms, now=0.0, text_hash="")
    return SearchRequest(question=question, scope=Scope(tenant=scope.pop("tenant", "acme"), **scope), limit=10)


def told(hit: Hit) -> MemoryView:
    assert hit.read is not None
    return hit.read()


async def test_what_is_named_comes_first_and_then_what_is_linked_to_it(wiki: MappedGraphSource) -> None:
    hits = await wiki.search(ask("How much does the harbour crane lift?"))
    memories = [told(hit) for hit in hits]
    assert memories[0].id.endswith("/crane")
    assert {memory.id.rpartition("/")[2] for memory in memories} == {"crane", "gearbox", "ana"}
    first = memories[0]
    assert (first.text, first.title) == ("It lifts forty tonnes.", "Harbour crane")
    assert first.id == f"wiki:{first.uri}"
    assert (first.ts, first.source_ref) == (1772323200.0, "wiki")
    assert hits[0].score > hits[1].score


async def test_only_the_mapped_graph_is_read(wiki: MappedGraphSource) -> None:
    texts = {told(hit).text for hit in await wiki.search(ask("who is Ana?"))}
    assert "Ana mends the crane." in texts
    assert "Not of this graph." not in texts


async def test_nobody_else_is_told_and_finer_scopes_are_refused(wiki: MappedGraphSource) -> None:
    assert await wiki.search(ask("who is Ana?", tenant="other")) == []
    with pytest.raises(ScopeNotKept, match="cannot keep to this scope"):
        await wiki.search(ask("who is Ana?", user_id="u1"))


async def test_a_period_is_kept_by_the_times_that_there_are_and_fails_nothing(wiki: MappedGraphSource) -> None:
    (first, *_) = await wiki.search(ask("How much does the harbour crane lift?"))
    at = told(first).ts
    assert at is not None
    within = [
        told(hit) for hit in await wiki.search(ask("How much does the harbour crane lift?", since=at, until=at + 1))
    ]
    assert {one.ts for one in within} == {at}
    assert await wiki.search(ask("How much does the harbour crane lift?", since=at + 1e9)) == []
    without_times = MappedGraphSource(wiki._graph, wiki.mapping.model_copy(update={"time": None}))  # pyright: ignore[reportPrivateUsage]
    assert await without_times.search(ask("How much does the harbour crane lift?", since=0.0)) == [], (
        "what has no time is in no period"
    )


@pytest.mark.parametrize("text", ['"} } DROP ALL #', "Ana\\", "'; DELETE", "<urn:x>", "\ud800 Ana", "? ! ."])
async def test_nothing_enters_the_query_but_as_a_value(wiki: MappedGraphSource, text: str) -> None:
    await wiki.search(ask(text))


class Partial:
    """Answers as a server that leaves out what is not bound."""

    def __init__(self, *rows: Mapping[str, str]) -> None:
        self.rows = rows

    async def select(self, query: str) -> Sequence[Mapping[str, str]]:
        return self.rows


async def test_rows_without_what_a_memory_needs_cost_themselves() -> None:
    whole = {"thing": "urn:a", "hop": "0", "label": "Ana", "text": "Ana mends the crane."}
    nameless = {"thing": "urn:b", "text": "It has no label and no hop."}
    lacking = [{"thing": "urn:c", "hop": "1"}, {"text": "of nobody", "hop": "0"}, {}]
    graph = MappedGraphSource(Partial(*lacking, nameless, whole), MAPPING)
    memories = [told(hit) for hit in await graph.search(ask("who is Ana?"))]
    assert [(memory.id, memory.title) for memory in memories] == [("wiki:urn:a", "Ana"), ("wiki:urn:b", None)]


async def test_of_long_values_as_much_is_read_as_an_own_memory_may_hold() -> None:
    long = {"thing": "urn:a", "hop": "0", "label": "Ana" * 9000, "text": "Ana mends it. " * 9000}
    nameless = {"thing": "urn:" + "b" * 9000, "hop": "0", "label": "Ana", "text": "It has too long a name."}
    (hit,) = await MappedGraphSource(Partial(long, nameless), MAPPING).search(ask("who is Ana?"))
    assert (len(told(hit).text), len(told(hit).title or "")) == (100_000, 4096)
