"""What the graph says after changes, and that it says no more than that."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import pyoxigraph
from hypothesis import example, given
from hypothesis import strategies as st

from orion_recall.graph.projection import Node, plan_changes, rendered, run_plan
from orion_recall.graph.vocabulary import memory_iri, tenant_graph
from orion_recall.text.normal import memory_key
from orion_recall.values import Change, Memory, MergedName, Neighbour, Statement
from tests.samples.graph_samples import apply, changes, memory, select, take_out, told

PREFIXES = (
    "PREFIX o: <urn:orion:vocabulary:> PREFIX skos: <http://www.w3.org/2004/02/skos/core#> "
    "PREFIX prov: <http://www.w3.org/ns/prov#> PREFIX rdf: <http://www.w3.org/1999/02/22-rdf-syntax-ns#> "
)
WORKS = Statement(subject="Ana", relation="works at", object="Fjord Labs")


def stating(name: str, *statements: Statement, **fields: Any) -> Memory:
    return replace(memory(name), statements=statements, entities=(), **fields)


def edges(store: pyoxigraph.Store) -> dict[str, tuple[int, float | None, float | None]]:
    rows = select(
        store,
        f"{PREFIXES} SELECT * WHERE {{ GRAPH ?g {{ ?e a rdf:Statement ; o:text ?text ; o:weight ?weight "
        "OPTIONAL { ?e o:firstSeen ?first } OPTIONAL { ?e o:lastSeen ?last } } }",
    )
    assert len({row["e"] for row in rows}) == len(rows)
    return {
        row["text"]: (
            int(row["weight"]),
            float(row["first"]) if "first" in row else None,
            float(row["last"]) if "last" in row else None,
        )
        for row in rows
    }


def labels(store: pyoxigraph.Store) -> set[str]:
    found = f"{PREFIXES} SELECT ?label WHERE {{ GRAPH ?g {{ ?e a skos:Concept ; skos:prefLabel ?label }} }}"
    return {row["label"] for row in select(store, found)}


def relations(store: pyoxigraph.Store) -> set[str]:
    found = f"{PREFIXES} SELECT ?label WHERE {{ GRAPH ?g {{ ?e a rdf:Property ; skos:prefLabel ?label }} }}"
    return {row["label"] for row in select(store, found)}


def dead(one: Memory) -> Memory:
    return replace(one, deleted_at=9.0)


def test_an_edge_is_one_and_its_weight_grows_with_the_memories_that_state_it():
    store = pyoxigraph.Store()
    a, b = stating("a", WORKS, occurred_at=5.0), stating("b", WORKS, occurred_at=3.0)
    apply(store, changes(a), 0)
    assert edges(store) == {"Ana works at Fjord Labs": (1, 5.0, 5.0)}
    apply(store, changes(b, stating("c", WORKS, WORKS), start=2), 1)
    assert edges(store) == {"Ana works at Fjord Labs": (3, 3.0, 5.0)}
    apply(store, changes(dead(b), start=4), 3)
    assert edges(store) == {"Ana works at Fjord Labs": (2, 5.0, 5.0)}


def test_the_last_evidence_takes_the_edge_its_entities_and_its_relation_with_it():
    store = pyoxigraph.Store()
    apply(store, changes(stating("a", WORKS), memory("b", "Bo sleeps.", entities=["Bo"])), 0)
    assert labels(store) >= {"Ana", "Fjord Labs", "Bo"}
    apply(store, changes(dead(stating("a", WORKS)), start=3), 2)
    assert (edges(store), relations(store)) == ({}, set())
    assert "Bo" in labels(store)
    assert not {"Ana", "Fjord Labs"} & labels(store)


def test_a_memory_that_the_record_does_not_know_is_taken_out_with_what_only_it_told():
    store = pyoxigraph.Store()
    a, b = stating("a", WORKS), memory("b", "Bo sleeps.", entities=["Bo"])
    apply(store, changes(b), 0)
    before = told(store)
    chained = [
        Change(position=2, memory=a, previous=Neighbour(id="b", text="", speaker=None)),
        Change(position=3, memory=b, following=Neighbour(id="a", text="", speaker=None)),
    ]
    apply(store, chained, 1)
    gone = Node(tenant_graph("acme"), memory_iri(memory_key("acme", "a")))
    take_out(store, [gone, Node(tenant_graph("acme"), memory_iri(1))], 3)
    assert told(store) == before


NAMES = ("a", "b", "c", "d")
WORDS = ("Ana", "ANA", "Bo", "Fjord Labs", "fjord labs")
STATEMENTS = st.builds(
    Statement, subject=st.sampled_from(WORDS), relation=st.sampled_from(["knows", "Works at", "works at"]),
    object=st.sampled_from(WORDS),
)  # fmt: skip


@st.composite
def memories(draw: st.DrawFn) -> Memory:
    return replace(
        memory(draw(st.sampled_from(NAMES)), draw(st.sampled_from(["one", "two [[a]]"]))),
        tenant=draw(st.sampled_from(["acme", "other"])),
        speaker=draw(st.none() | st.sampled_from(WORDS)),
        session_id=draw(st.none() | st.just("s")),
        occurred_at=draw(st.none() | st.sampled_from([1.0, 2.5])),
        entities=tuple(draw(st.lists(st.sampled_from(WORDS), max_size=2))),
        statements=tuple(draw(st.lists(STATEMENTS, max_size=3))),
        deleted_at=draw(st.none() | st.none() | st.just(9.0)),
    )


@dataclass(slots=True)
class Told:
    """A record and its outbox, in small: entries name memories, and are read as those are then."""

    held: dict[tuple[str, str], Memory] = field(default_factory=dict[tuple[str, str], Memory])
    outbox: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])

    def store(self, one: Memory) -> None:
        name = (one.tenant, one.id)
        beside = self._beside(name)
        self.held[name] = one
        self.outbox += dict.fromkeys((name, *beside, *self._beside(name)))

    def changes(self, start: int, end: int) -> list[Change]:
        made: list[Change] = []
        for place in range(start, end):
            one = self.held[self.outbox[place]]
            turns = self._turns(one)
            at = turns.index(one) if one in turns else None
            made.append(
                Change(
                    position=place + 1,
                    memory=one,
                    previous=_beside(turns[at - 1]) if at else None,
                    following=_beside(turns[at + 1]) if at is not None and at + 1 < len(turns) else None,
                )
            )
        return made

    def _turns(self, one: Memory) -> list[Memory]:
        if one.session_id is None:
            return []
        known = [other for other in self.held.values() if other.is_live and other.session_id == one.session_id]
        return sorted((other for other in known if other.tenant == one.tenant), key=lambda turn: turn.id)

    def _beside(self, name: tuple[str, str]) -> list[tuple[str, str]]:
        one = self.held.get(name)
        found = [(turn.tenant, turn.id) for turn in self._turns(one)] if one is not None else []
        return [other for pair in pairwise(found) if name in pair for other in pair if other != name]


def _beside(turn: Memory) -> Neighbour:
    return Neighbour(id=turn.id, text=turn.text, speaker=turn.speaker)


@given(
    steps=st.lists(memories(), min_size=1, max_size=10),
    sizes=st.lists(st.integers(1, 5), min_size=1, max_size=6),
    repeats=st.lists(st.integers(0, 4), min_size=1, max_size=6),
    read_late=st.booleans(),
)
def test_any_sequence_with_any_repeats_gives_the_graph_that_is_built_fresh(
    steps: list[Memory], sizes: list[int], repeats: list[int], read_late: bool
):
    record, store, held, batch = Told(), pyoxigraph.Store(), 0, 0
    for place, step in enumerate(steps):
        record.store(step)
        while held < len(record.outbox) and (not read_late or place == len(steps) - 1):
            size, back = sizes[batch % len(sizes)], repeats[batch % len(repeats)]
            end = min(held + size, len(record.outbox))
            # A crash between data and claim: the same is written again, on the way from further back, too.
            start = max(0, held - back)
            apply(store, record.changes(start, end), held)
            held, batch = end, batch + 1
    fresh = pyoxigraph.Store()
    apply(fresh, record.changes(0, len(record.outbox)), 0)
    assert told(store) == told(fresh)


@given(steps=st.lists(memories(), min_size=1, max_size=6), later=st.lists(memories(), min_size=1, max_size=4),
       broken=st.integers(0, 30))  # fmt: skip
@example(steps=[stating("a", WORKS)], later=[stating("a", WORKS, occurred_at=1.0)], broken=1)
@example(
    steps=[stating("a", WORKS)],
    later=[replace(stating("a", WORKS), entities=("ANA", "FJORD LABS"), occurred_at=1.0)],
    broken=2,
)
def test_a_batch_that_broke_off_anywhere_is_mended_by_the_next_one(
    steps: list[Memory], later: list[Memory], broken: int
):
    record, store = Told(), pyoxigraph.Store()
    for step in steps:
        record.store(step)
    reached = len(record.outbox)
    apply(store, record.changes(0, reached), 0)
    for step in later:
        record.store(step)
    last = len(record.outbox)
    operations = run_plan(plan_changes(record.changes(reached, last)), lambda query: select(store, query))
    for text in list(rendered(operations, "<urn:orion:projection> ?is ?anywhere"))[:broken]:
        store.update(text)
    apply(store, record.changes(reached, last), reached)
    fresh = pyoxigraph.Store()
    apply(fresh, record.changes(0, last), 0)
    assert told(store) == told(fresh)


def merged(change: Change, label: str, *aliases: str) -> Change:
    """The change as the record tells it when the names were merged into one."""
    name = {alias.casefold(): label for alias in aliases}
    entities = tuple(dict.fromkeys(name.get(one.casefold(), one) for one in change.memory.entities))
    statements = tuple(
        replace(one, subject=name.get(one.subject.casefold(), one.subject)) for one in change.memory.statements
    )
    memory = replace(change.memory, entities=entities, statements=statements)
    return replace(change, memory=memory, merged=(MergedName(label=label, aliases=tuple(sorted(aliases))),))


def test_a_merge_moves_edges_and_names_and_undoing_it_leaves_no_trace():
    bob = replace(stating("a", replace(WORKS, subject="Bob")), speaker="Bob", entities=("Bob", "Fjord Labs"))
    robert = replace(stating("b", replace(WORKS, subject="Robert")), entities=("Robert", "Fjord Labs"))
    steps = changes(bob, robert)
    store, fresh = pyoxigraph.Store(), pyoxigraph.Store()
    apply(store, steps, 0)
    before = told(store)
    assert labels(store) == {"Bob", "Robert", "Fjord Labs"}
    merging = [merged(one, "Robert", "Bob") for one in steps]
    # The record tells of those who say the alias, and of one who says the other name.
    apply(store, merging[:1], 2)
    assert edges(store) == {"Robert works at Fjord Labs": (2, None, None)}
    assert labels(store) == {"Robert", "Fjord Labs"}
    found = (
        f"{PREFIXES} SELECT ?label WHERE {{ GRAPH ?g {{ ?e skos:prefLabel 'Robert' ; skos:hiddenLabel ?label }} }}"
    )
    assert select(store, found) == [{"label": "Bob"}]
    apply(fresh, merging, 0)
    assert told(store) == told(fresh)
    for _ in range(2):
        apply(store, steps, 1)
        assert told(store) == before
