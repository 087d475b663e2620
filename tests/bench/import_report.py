"""The report of `imports`: tables, and JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from tests.bench.import_floors import Floor
from tests.bench.measure import Spread

ALONE_TARGET, BESIDE_TARGET, P95_TARGET = 0.8, 0.4, 1.6


@dataclass(frozen=True, slots=True, kw_only=True)
class Import:
    """One file: memories a second until index and graph had them and until the record had, CPU in ms a memory."""

    memories: int
    per_s: float
    stored_per_s: float
    worker_cpu_ms: float
    importer_cpu_ms: float
    importer_peak_mib: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """Recalls at a steady rate; `unanswered` are those with an error or no answer."""

    recalls: int
    unanswered: int
    p50_ms: float
    p95_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportRound:
    """Floors, an import alone, recalls alone (`quiet`), and both at once (`beside` and `during`)."""

    floors: Mapping[str, Floor]
    alone: Import
    beside: Import
    quiet: Asked
    during: Asked
    rest_busy: float

    @property
    def slowest_per_s(self) -> float:
        """The rate of the slowest floor."""
        return min(floor.per_s for floor in self.floors.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Peak:
    """Peak memory after one file on a fresh worker, whose own was `worker_before_mib` before it."""

    memories: int
    worker_before_mib: float
    worker_mib: float
    importer_mib: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportResult:
    """One run. `load_average` is the machine's at its end."""

    memories: int
    recalls_per_s: float
    cores: int
    load_average: tuple[float, float, float]
    rounds: Sequence[ImportRound]
    worker_peak_mib: float
    peaks: Sequence[Peak]


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportRatio:
    """One figure of all rounds and what its median is to be: at least `least`, or at most `most`."""

    name: str
    spread: Spread
    least: float | None = None
    most: float | None = None

    @property
    def target(self) -> str:
        """In words; empty without one."""
        if self.least is not None:
            return f">= {self.least:.0%}"
        return "" if self.most is None else f"<= {self.most} x"

    @property
    def reached(self) -> bool | None:
        """None without a target."""
        if self.least is not None:
            return self.spread.median >= self.least
        return None if self.most is None else self.spread.median <= self.most


def import_ratios(rounds: Sequence[ImportRound]) -> list[ImportRatio]:
    """The ratios, each made within a round."""

    def over(of: Callable[[ImportRound], float]) -> Spread:
        spread = Spread.of([of(one) for one in rounds])
        assert spread is not None
        return spread

    return [
        ImportRatio(
            name="import alone / slowest floor",
            spread=over(lambda one: one.alone.per_s / one.slowest_per_s),
            least=ALONE_TARGET,
        ),
        ImportRatio(
            name="import beside recalls / slowest floor",
            spread=over(lambda one: one.beside.per_s / one.slowest_per_s),
            least=BESIDE_TARGET,
        ),
        ImportRatio(
            name="import beside recalls / import alone", spread=over(lambda one: one.beside.per_s / one.alone.per_s)
        ),
        ImportRatio(
            name="recall p95 beside an import / quiet",
            spread=over(lambda one: one.during.p95_ms / one.quiet.p95_ms),
            most=P95_TARGET,
        ),
        ImportRatio(
            name="worker CPU of an import alone / CPU of all floors",
            spread=over(lambda one: one.alone.worker_cpu_ms / sum(floor.cpu_ms for floor in one.floors.values())),
        ),
    ]


def as_json(result: ImportResult) -> dict[str, Any]:
    """The whole result, with the ratios worked out."""
    ratios = import_ratios(result.rounds)
    return asdict(result) | {"ratios": [asdict(one) | {"reached": one.reached} for one in ratios]}


def print_report(result: ImportResult, out: Console) -> None:
    """Tables: floors, imports, recalls, peaks, ratios."""
    load = ", ".join(f"{one:.1f}" for one in result.load_average)
    out.print(
        Text(f"{result.memories:,} memories in {len(result.rounds)} rounds; cores {result.cores}; load {load}")
    )
    for table in (_speeds(result.rounds), _recalls(result), _peaks(result), _ratios(result.rounds)):
        out.print()
        out.print(table)
    out.print(
        Text(
            "A floor's CPU is this process's own: of COPY, the client's share. p95 and rates are by the wall clock."
        )
    )


def _speeds(rounds: Sequence[ImportRound]) -> Table:
    table = _table("median of the rounds", "memories/s", "stored/s", "CPU ms a memory: here or worker", "importer")
    for name in rounds[0].floors:
        rate = _median([one.floors[name].per_s for one in rounds])
        table.add_row(name, rate, "", _median([one.floors[name].cpu_ms for one in rounds]), "")
    kinds: list[tuple[str, Callable[[ImportRound], Import]]] = [
        ("import alone", lambda one: one.alone),
        ("import beside recalls", lambda one: one.beside),
    ]
    for name, of in kinds:
        table.add_row(
            name,
            _median([of(one).per_s for one in rounds]),
            _median([of(one).stored_per_s for one in rounds]),
            _median([of(one).worker_cpu_ms for one in rounds]),
            _median([of(one).importer_cpu_ms for one in rounds]),
        )
    table.add_row("rest of the machine busy", _median([one.rest_busy * 100 for one in rounds]) + " %", "", "", "")
    return table


def _recalls(result: ImportResult) -> Table:
    table = _table(f"{result.recalls_per_s:g} recalls a second", "p50 ms", "p95 ms", "recalls", "unanswered")
    kinds: list[tuple[str, Callable[[ImportRound], Asked]]] = [
        ("quiet", lambda one: one.quiet),
        ("beside an import", lambda one: one.during),
    ]
    for name, of in kinds:
        table.add_row(
            name,
            _median([of(one).p50_ms for one in result.rounds]),
            _median([of(one).p95_ms for one in result.rounds]),
            str(sum(of(one).recalls for one in result.rounds)),
            str(sum(of(one).unanswered for one in result.rounds)),
        )
    return table


def _peaks(result: ImportResult) -> Table:
    table = _table("peak memory, MiB", "worker before", "worker", "importer")
    importer = max(one.beside.importer_peak_mib for one in result.rounds)
    table.add_row("all rounds, with recalls", "", f"{result.worker_peak_mib:.0f}", f"{importer:.0f}")
    for peak in result.peaks:
        values = (peak.worker_before_mib, peak.worker_mib, peak.importer_mib)
        table.add_row(f"one file of {peak.memories:,}", *(f"{value:.0f}" for value in values))
    return table


def _ratios(rounds: Sequence[ImportRound]) -> Table:
    table = _table("ratio", "median (min..max)", "target", "verdict")
    for one in import_ratios(rounds):
        spread = f"{one.spread.median:.2f} ({one.spread.low:.2f}..{one.spread.high:.2f})"
        table.add_row(one.name, spread, one.target, {True: "reached", False: "NOT reached", None: ""}[one.reached])
    return table


def _table(first: str, *columns: str) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(first)
    for column in columns:
        table.add_column(column, justify="right")
    return table


def _median(values: Sequence[float]) -> str:
    spread = Spread.of(values)
    assert spread is not None
    return f"{spread.median:.0f}" if spread.median >= 100 else f"{spread.median:.2f}"
