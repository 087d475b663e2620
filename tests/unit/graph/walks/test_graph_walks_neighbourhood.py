from __future__ import annotations

import re

import pyoxigraph
from hypothesis import given
from hypothesis import strategies as st
from rdflib import Dataset

from orion_recall.graph.tenant_graph import neighbourhood_query
from orion_recall.graph.vocabulary import entity_iri, tenant_graph
from orion_recall.text.normal import memory_key
from orion_recall.values import Memory, Scope, Statement
from tests.samples.graph_samples import apply, changes

GRAPH = tenant_graph("acme")
EVERYTHING = Scope(tenant="acme")
TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=12)


def query(*names: str, scope: Scope = EVERYTHING, hops: int = 1, max_statements: int = 48) -> str:
    entities = [entity_iri(name) for name in names]
    return neighbourhood_query(GRAPH, entities, scope=scope, hops=hops, max_statements=max_statements)


def test_only_the_tenants_graph_is_asked():
    assert re.findall(r"GRAPH\s+(\S+)", query("a", hops=2)) == [GRAPH.n3()]


@given(
    names=st.lists(TEXT, min_size=1, max_size=3),
    words=TEXT,
    tags=st.lists(TEXT, max_size=3),
    since=st.none() | st.floats(-1e9, 1e10),
)  # fmt: skip
def test_whatever_the_names_and_the_scope_it_is_one_query(
    names: list[str], words: str, tags: list[str], since: float | None
):
    scope = Scope(tenant="acme", session_id=words, user_id=words, kinds=(words,), tags=tuple(tags), since=since)
    found = pyoxigraph.Store().query(query(*names, scope=scope, hops=2))
    assert isinstance(found, pyoxigraph.QuerySolutions)
    assert list(found) == []


def memory(name: str, *, statements: tuple[Statement, ...] = (), entities: tuple[str, ...] = ()) -> Memory:
    return Memory(
        tenant="acme", id=name, text=name, kind="world", text_hash="", content_hash="", statements=statements,
        entities=entities,
    )  # fmt: skip


def rows(sparql: str, *memories: Memory) -> set[tuple[str, str, str, str | None]]:
    """(seed, hop, memory's id, text) by rdflib's own engine."""
    store = pyoxigraph.Store()
    apply(store, changes(*memories), 0)
    dataset = Dataset()
    dataset.parse(data=store.dump(format=pyoxigraph.RdfFormat.N_QUADS), format="nquads")
    by_iri = {f"urn:orion:memory:{memory_key('acme', one.id)}": one.id for one in memories}
    found = [{str(name): str(value) for name, value in row.items()} for row in dataset.query(sparql).bindings]
    return {(row["seed"], row["hop"], by_iri[row["memory"]], row.get("text")) for row in found}


ANA_WORKS = memory("m1", statements=(Statement(subject="Ana", relation="works at", object="Fjord Labs"),))
BO_KNOWS = memory("m2", statements=(Statement(subject="Bo", relation="knows", object="Ana"),))
MENTION = memory("m3", entities=("Fjord Labs",))


def test_one_hop_gives_statements_about_the_entity_and_memories_that_mention_it():
    assert rows(query("Fjord Labs"), ANA_WORKS, BO_KNOWS, MENTION) == {
        ("0", "1", "m1", "Ana works at Fjord Labs"),
        ("0", "1", "m3", None),
    }


def test_two_hops_add_what_is_said_of_the_entitys_neighbours():
    found = rows(query("Fjord Labs", hops=2), ANA_WORKS, BO_KNOWS, MENTION)
    assert ("0", "2", "m2", "Bo knows Ana") in found
    assert ("0", "1", "m1", "Ana works at Fjord Labs") in found


def test_rows_say_which_entity_they_are_for():
    assert {seed for seed, *_ in rows(query("Bo", "Fjord Labs"), ANA_WORKS, BO_KNOWS)} == {"0", "1"}
