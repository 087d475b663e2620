"""Many memories for the bench: repeated memories are whole, and all three stores are told the same of them."""

from __future__ import annotations

import io
import json
from typing import Any

import pyoxigraph
import pytest
from rich.console import Console

from tests.bench.measure import Cost
from tests.bench.running_worker import RECORD, WORKER, Cell
from tests.bench.scale import graph as scale_graph
from tests.bench.scale import memories
from tests.bench.scale.calls import Called
from tests.bench.scale.memories import LARGE, SMALL, TenantMemories, tenants
from tests.bench.scale.report import Result, SizeResult, as_json, print_report
from tests.bench.scale.worker import Changed, Started

NOW = 1_767_225_600.0


@pytest.fixture
def part(monkeypatch: pytest.MonkeyPatch) -> TenantMemories:
    """Fifty memories made of twenty: two whole repetitions and a half."""
    monkeypatch.setattr(memories, "BASE", 20)
    return TenantMemories.of(LARGE, 50, now=NOW)


def test_turns_beside_a_memory_are_of_its_own_repetition(part: TenantMemories) -> None:
    for number in range(part.size):
        first = number - number % 20
        own = {part.key(other) for other in range(first, min(first + 20, part.size))}
        assert set(part.beside(number)) <= own
    assert part.beside(25), "turns of one session stand beside each other"


def test_the_two_tenants_are_all_of_the_collection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memories, "BASE", 20)
    monkeypatch.setattr(memories, "SMALL_SIZE", 30)
    small, large = tenants(100, now=NOW)
    assert (small.tenant, small.size, large.tenant, large.size) == (SMALL, 30, LARGE, 70)


def test_the_graph_has_every_memory_and_counts_evidence(part: TenantMemories, tmp_path: Any) -> None:
    scale_graph.fill_graph(tmp_path / "store", [part], position=50, identity="x")
    graph = pyoxigraph.Store.read_only(str(tmp_path / "store"))

    def count(query: str) -> int:
        found: Any = graph.query(query)
        return int(next(iter(found))[0].value)

    inside = "GRAPH ?g"
    assert (
        count(f"SELECT (COUNT(DISTINCT ?m) AS ?n) WHERE {{ {inside} {{ ?m <urn:orion:vocabulary:content> ?c }} }}")
        == 50
    )
    wrong = graph.query(
        "SELECT ?e ?w (COUNT(?m) AS ?n) WHERE { GRAPH ?g { ?e <urn:orion:vocabulary:weight> ?w ; "
        "<http://www.w3.org/ns/prov#wasDerivedFrom> ?m } } GROUP BY ?e ?w"
    )
    rows: Any = wrong
    assert all(row["w"].value == row["n"].value for row in rows)


def test_the_report_gives_ratios_and_json() -> None:
    out = io.StringIO()
    result = Result(profile="reflect.v1", rounds=1, sizes=[_size(10_000, 1.0), _size(100_000, 1.5)])
    print_report(result, Console(file=out, width=160))
    row = next(line for line in out.getvalue().splitlines() if "large tenant, 1 in flight: p50 ms" in line)
    assert row.split()[-1] == "1.50"
    assert json.loads(json.dumps(as_json(result)))["sizes"][1]["size"] == 100_000


def _size(size: int, cost: float) -> SizeResult:
    one = Cost(p50_ms=cost, p95_ms=cost, cpu_ms=cost, calls=1)
    cell = Cell(
        in_flight=1, recalls=1, unanswered=0, p50_ms=cost, p95_ms=cost, per_s=1.0, loop_ms=cost,
        cpu_ms={WORKER: cost, RECORD: cost},
    )  # fmt: skip
    changed = Changed(what="update", p50_ms=cost, cpu_ms={WORKER: cost, RECORD: cost})
    return SizeResult(
        size=size,
        filled_s=None,
        disk_mib={"index": cost},
        called=[Called(tenant=name, costs={"x": one}, found={10: 1.0}, segments=1) for name in (SMALL, LARGE)],
        started=Started(seconds=1.0, cpu_s=cost, own_mib=1.0, mapped_mib=1.0),
        memory_mib={"RssAnon": 1.0, "RssFile": 1.0},
        cells={f"{tenant} 1": [cell] for tenant in (SMALL, LARGE)},
        changes=[changed],
    )
