"""What came out of a comparison with peers: a table, and everything as JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from orion_recall.evaluation.measures import Mean
from tests.bench.measure import QUIET_BUSY_SHARE, percentile
from tests.bench.peers.asked import About, Figures

IN_FLIGHT = (1, 8)
_ALONE, _TOGETHER = IN_FLIGHT
_FIGURES: Sequence[tuple[str, int, Callable[[Figures], float]]] = (
    ("p50 ms", _ALONE, lambda cell: cell.p50_ms),
    ("p95 ms", _ALONE, lambda cell: cell.p95_ms),
    ("CPU ms", _ALONE, lambda cell: cell.cpu_ms),
    ("p50 ms, 8 at once", _TOGETHER, lambda cell: cell.p50_ms),
    ("p95 ms", _TOGETHER, lambda cell: cell.p95_ms),
    ("recalls/s", _TOGETHER, lambda cell: cell.per_s),
    ("CPU ms", _TOGETHER, lambda cell: cell.cpu_ms),
)
_COLUMNS = (
    "system", "asked by", *(name for name, _, _ in _FIGURES), "memory MiB", "filled in s", "recall@5", "recall@10",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One system: the cells of every round by questions in flight, its memory, and its recall by depth."""

    about: About
    rounds: Sequence[Mapping[int, Figures]]
    memory_mib: float
    recall: Mapping[int, Mean]

    def median(self, in_flight: int, figure: Callable[[Figures], float]) -> float:
        """A figure over the rounds."""
        return percentile([figure(cells[in_flight]) for cells in self.rounds], 0.5)


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipped:
    """A peer that could not be opened, or failed, and why."""

    shown: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """All systems, ours first. `rest_busy` is the share of the machine that others used, by round."""

    size: int
    k: int
    seconds_per_cell: float
    measured: Sequence[Measured]
    skipped: Sequence[Skipped]
    rest_busy: Sequence[float]
    seconds: float


def as_json(result: Comparison) -> dict[str, Any]:
    """The whole result."""
    return asdict(result)


def print_report(result: Comparison, out: Console) -> None:
    """One row a system, medians of the rounds; under the table versions, who was skipped, and how busy it was."""
    rounds = len(result.rest_busy)
    out.print(Text(f"{result.size:,} memories, {result.k} asked for, {rounds} rounds"))
    table = Table(*_COLUMNS)
    for one in result.measured:
        table.add_row(*_row(one))
    for one in result.skipped:
        table.add_row(one.shown, "skipped", *("-" for _ in _COLUMNS[2:]))
    out.print(table)
    for one in result.measured:
        versions = ", ".join(f"{name} {version}" for name, version in one.about.versions.items())
        failed = sum(cell.unanswered for cells in one.rounds for cell in cells.values())
        out.print(Text(f"{one.about.shown}: {versions}" + (f"; {failed} questions failed" if failed else "")))
    for one in result.skipped:
        out.print(Text(f"{one.shown} was skipped: {one.reason}"))
    if max(result.rest_busy, default=0.0) >= QUIET_BUSY_SHARE:
        share = percentile(result.rest_busy, 0.5)
        told = f"the rest of the machine used {share:.0%} of it (median): compare wall times within this run only"
        out.print(Text(told))


def _row(one: Measured) -> list[str]:
    medians = [one.median(in_flight, figure) for _, in_flight, figure in _FIGURES]
    recall = [f"{mean.mean:.3f}" for _, mean in sorted(one.recall.items())]
    return [
        one.about.shown,
        one.about.way,
        *(f"{median:.1f}" for median in medians),
        f"{one.memory_mib:,.0f}",
        f"{one.about.fill_s:.0f}",
        *(recall or ("-", "-")),
    ]
