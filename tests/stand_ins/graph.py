"""A small graph in the published vocabulary, in an engine of this process: for traversal and queries."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

import pyoxigraph as ox

from orion_recall.graph.projection import plan_changes, run_plan, updates
from orion_recall.graph.stores.oxigraph import rows_of
from orion_recall.text.normal import text_hash
from orion_recall.values import Change, JsonValue, Memory, Neighbour, Statement, TimeMention

TENANT = "acme"
NOW = 1_772_400_000.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """One memory: who says what, which statements it makes, which entities it names besides."""

    id: str
    text: str
    speaker: str | None = None
    at: float | None = None
    kind: str = "world"
    statements: Sequence[tuple[str, str, str]] = ()
    mentions: Sequence[str] = ()
    next: str | None = None
    tags: tuple[str, ...] = ()
    metadata: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    told: Sequence[tuple[str, str]] = ()


@dataclass(slots=True)
class SampleGraph:
    """A store that answers as the service's graphs do, and counts its questions."""

    store: ox.Store = field(default_factory=ox.Store)
    queries: list[str] = field(default_factory=list[str])

    async def select(self, query: str) -> list[Mapping[str, str]]:
        """The rows of a SELECT, values as text; unbound ones are absent."""
        self.queries.append(query)
        found = self.store.query(query)
        assert isinstance(found, ox.QuerySolutions)
        names = [variable.value for variable in found.variables]
        return [
            {
                name: value.value
                for name, value in zip(names, row, strict=True)
                if value is not None and not isinstance(value, ox.Triple)
            }
            for row in found
        ]


def sample_graph(memories: Iterable[Said], *, tenant: str = TENANT, into: ox.Store | None = None) -> SampleGraph:
    """The memories as the graph holds them, written by the steps that every graph is written by."""
    graph = SampleGraph(into if into is not None else ox.Store())
    changes = _changes(list(memories), tenant)
    if changes:
        operations = run_plan(plan_changes(changes), lambda query: rows_of(graph.store, query))
        for request in updates(operations, 0, len(changes), guarded=False):
            graph.store.update(request)
    return graph


def graph_in_folder(folder: Path, memories: Iterable[Said], *, tenant: str = TENANT) -> None:
    """The same in a data folder, as a worker leaves it."""
    (folder / "graph").mkdir(parents=True, exist_ok=True)
    store = ox.Store(str(folder / "graph" / "store"))
    sample_graph(memories, tenant=tenant, into=store)
    store.flush()


def _changes(memories: Sequence[Said], tenant: str) -> list[Change]:
    following = {said.id: said.next for said in memories}
    previous = {name: one for one, name in following.items() if name is not None}
    return [
        Change(
            position=place,
            memory=_memory(said, tenant),
            previous=_beside(previous.get(said.id)),
            following=_beside(said.next),
        )
        for place, said in enumerate(memories, start=1)
    ]


def _memory(said: Said, tenant: str) -> Memory:
    """With the names and statements that are given, and no others."""
    ends = [end for subject, _, target in said.statements for end in (subject, target)]
    return Memory(
        tenant=tenant,
        id=said.id,
        text=said.text,
        kind=said.kind,
        text_hash=text_hash(said.text),
        content_hash="",
        speaker=said.speaker,
        session_id="s" if said.next is not None else None,
        occurred_at=said.at,
        tags=said.tags,
        metadata=said.metadata,
        times=tuple(TimeMention(text=one, since=_at(one), until=_at(other)) for one, other in said.told),
        entities=tuple(dict.fromkeys((*said.mentions, *ends, *((said.speaker,) if said.speaker else ())))),
        statements=tuple(Statement(subject=one, relation=way, object=other) for one, way, other in said.statements),
    )


def _at(day: str) -> float:
    return datetime.fromisoformat(f"{day}T00:00:00+00:00").timestamp()


def _beside(name: str | None) -> Neighbour | None:
    return None if name is None else Neighbour(id=name, text="", speaker=None)


DAY = 86_400.0
PEOPLE = (
    Said(id="m1", text="My sister Ida works at Fjord Labs.", speaker="Ana", at=NOW - DAY, next="m2",
         statements=(("Ida", "sister of", "Ana"), ("Ida", "works at", "Fjord Labs"))),
    Said(id="m2", text="Fjord Labs is based in Bergen.", speaker="Bo", at=NOW - 2 * DAY,
         statements=(("Fjord Labs", "based in", "Bergen"),)),
    Said(id="m3", text="Bo knows Ana.", speaker="Bo", statements=(("Bo", "knows", "Ana"),)),
    Said(id="m4", text="Carl knows Bo and lives in Bergen.", at=NOW - 400 * DAY, kind="observation",
         statements=(("Carl", "knows", "Bo"), ("Carl", "lives in", "Bergen"))),
    Said(id="m5", text="Ida still works at Fjord Labs.", speaker="Ana", at=NOW,
         statements=(("Ida", "works at", "Fjord Labs"),)),
    Said(id="m6", text="Ada, an engineer, knows Ida.", mentions=("Software Engineering",), kind="plan",
         statements=(("Ada", "knows", "Ida"), ("Ada", "works at", "Harbour Engineers"))),
)  # fmt: skip
