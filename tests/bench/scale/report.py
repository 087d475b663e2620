"""The report of `scale`: a column for each size, and how much more than the first size it is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rich.console import Console
from rich.text import Text

from orion_recall.cli.output import table
from tests.bench.measure import percentile
from tests.bench.running_worker import RECORD, WORKER, Cell
from tests.bench.scale.calls import Called
from tests.bench.scale.memories import LARGE, SMALL
from tests.bench.scale.worker import Changed, Started


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeResult:
    """Everything of one size. `cells` are recalls by "tenant in-flight", one of each round."""

    size: int
    filled_s: float | None
    disk_mib: dict[str, float]
    called: Sequence[Called]
    started: Started
    memory_mib: dict[str, float]
    cells: dict[str, list[Cell]]
    changes: Sequence[Changed]


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One run, every size from the smallest."""

    profile: str
    rounds: int
    sizes: Sequence[SizeResult]


def as_json(result: Result) -> dict[str, Any]:
    """The whole result."""
    return asdict(result)


def print_report(result: Result, out: Console) -> None:
    """Three tables: recalls, engines alone, and the rest."""
    columns = ("", *(f"{one.size:,}" for one in result.sizes), *(f"x at {one.size:,}" for one in result.sizes[1:]))
    for title, rows in (
        ("recalls over the bus, median of the rounds; x: median of the rounds' ratios", _recalls(result)),
        ("engines alone, CPU ms a call", _engines(result)),
        ("the worker and its stores", _rest(result)),
    ):
        out.print(Text(title, style="bold"))
        out.print(table(columns, rows))
        out.print()


def _recalls(result: Result) -> list[tuple[str, ...]]:
    values: dict[str, Callable[[Cell], float]] = {
        "p50 ms": lambda cell: cell.p50_ms,
        "p95 ms": lambda cell: cell.p95_ms,
        "CPU ms, worker": lambda cell: cell.cpu_ms[WORKER],
        "CPU ms, Postgres": lambda cell: cell.cpu_ms[RECORD],
        "per s": lambda cell: cell.per_s,
    }
    first = result.sizes[0].cells
    rows: list[tuple[str, ...]] = []
    for kind in first:
        tenant, many = kind.split()
        for name, value in values.items():
            by_size = [[value(cell) for cell in one.cells[kind]] for one in result.sizes]
            ratios = [_ratio(by_size[0], other) for other in by_size[1:]]
            label = f"{tenant} tenant, {many} in flight: {name}"
            rows.append((label, *(_number(percentile(each, 0.5)) for each in by_size), *ratios))
    return rows


def _ratio(before: Sequence[float], after: Sequence[float]) -> str:
    each = [new / old for old, new in zip(before, after, strict=True) if old]
    return f"{percentile(each, 0.5):.2f}" if each else "-"


def _engines(result: Result) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for place, tenant in enumerate((SMALL, LARGE)):
        of = [one.called[place] for one in result.sizes]
        for name in of[0].costs:
            rows.append(_row(f"{tenant} tenant: {name}", [called.costs[name].cpu_ms for called in of]))
        for depth in of[0].found:
            shares = [f"{called.found[depth]:.4f}" for called in of]
            rows.append((f"{tenant} tenant: of the exact first {depth}", *shares, *[""] * (len(of) - 1)))
    segments = [str(one.called[0].segments) for one in result.sizes]
    return [*rows, ("segments of the index", *segments, *[""] * (len(segments) - 1))]


def _rest(result: Result) -> list[tuple[str, ...]]:
    values: dict[str, Callable[[SizeResult], float]] = {
        "start, s": lambda one: one.started.seconds,
        "start, CPU s": lambda one: one.started.cpu_s,
        "memory after recalls, MiB: own": lambda one: one.memory_mib["RssAnon"],
        "memory after recalls, MiB: mapped files": lambda one: one.memory_mib["RssFile"],
        **{f"disk, MiB: {name}": lambda one, name=name: one.disk_mib[name] for name in result.sizes[0].disk_mib},
    }
    for place, change in enumerate(result.sizes[0].changes):
        values |= {
            f"one {change.what}: ms to the receipt": lambda one, at=place: one.changes[at].p50_ms,
            f"one {change.what}: CPU ms, worker": lambda one, at=place: one.changes[at].cpu_ms[WORKER],
            f"one {change.what}: CPU ms, Postgres": lambda one, at=place: one.changes[at].cpu_ms[RECORD],
        }
    return [_row(name, [value(one) for one in result.sizes]) for name, value in values.items()]


def _row(name: str, values: Sequence[float]) -> tuple[str, ...]:
    ratios = [f"{value / values[0]:.2f}" if values[0] else "-" for value in values[1:]]
    return (name, *map(_number, values), *ratios)


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 20 else f"{value:.3f}"
