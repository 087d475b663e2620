"""The report of `bench`: tables, and JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from tests.bench.measure import Cost, Spread
from tests.bench.ratios import CPU_SUM, QUIET_BUSY_SHARE, WALL_SUM, Ratio, SizeRound, growth, ratios
from tests.bench.recall_load import BUS, CLIENT, RECORD, WORKER, Cell
from tests.bench.running_worker import Imported


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeResult:
    """Everything of one size. `peak_mib` is by process; `outcomes` and `silent` are from the decision log."""

    size: int
    imported: Imported
    rounds: Sequence[SizeRound]
    peak_mib: Mapping[str, float]
    outcomes: Mapping[str, int]
    silent: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One run: on what, with what, and every size from the smallest."""

    machine: Mapping[str, Any]
    settings: Mapping[str, Any]
    seconds: float
    sizes: Sequence[SizeResult]


def as_json(result: Result) -> dict[str, Any]:
    """The whole result, with the ratios worked out."""
    sizes = [
        {
            **asdict(size),
            "rounds": [
                asdict(one) | {"wall_sum_ms": one.wall_sum_ms, "cpu_sum_ms": one.cpu_sum_ms, "quiet": one.quiet}
                for one in size.rounds
            ],
            "ratios": [asdict(ratio) | {"reached": ratio.reached} for ratio in ratios(size.rounds)],
        }
        for size in result.sizes
    ]
    grown = growth(result.sizes[0].rounds, result.sizes[-1].rounds) if len(result.sizes) > 1 else []
    return {
        "machine": dict(result.machine),
        "settings": dict(result.settings),
        "seconds": result.seconds,
        "wall_sum_of": WALL_SUM,
        "cpu_sum_of": CPU_SUM,
        "sizes": sizes,
        "growth": [asdict(ratio) for ratio in grown],
    }


def print_report(result: Result, out: Console) -> None:
    """Tables: floors, stages, recalls, memory, ratios."""
    machine = ", ".join(f"{name} {value}" for name, value in result.machine.items())
    out.print(Text(f"{machine}; {', '.join(f'{name} {value}' for name, value in result.settings.items())}"))
    for size in result.sizes:
        imported = size.imported
        out.print()
        out.print(Text(f"{size.size:,} memories", style="bold"))
        out.print(
            Text(
                f"stored, indexed and in the graph after {imported.seconds:.1f} s "
                f"({imported.memories / imported.seconds:.0f}/s; worker at most {imported.worker_peak_mib:.0f} MiB)"
            )
        )
        for table in (_floors(size), _stages(size), _recalls(size), _rounds(size), _ratios(ratios(size.rounds))):
            out.print()
            out.print(table)
        out.print()
        _print_sums(size, out)
    if len(result.sizes) > 1:
        out.print()
        out.print(_ratios(growth(result.sizes[0].rounds, result.sizes[-1].rounds)))
    out.print(Text(f"\n{result.seconds:.0f} s in all"))


def _floors(size: SizeResult) -> Table:
    table = _table("floors (median of the rounds)", "wall p50 ms", "wall p95 ms", "CPU ms", "in the sum of")
    for name in size.rounds[0].floors:

        def of(value: Callable[[Cost], float], name: str = name) -> str:
            return _median([value(one.floors[name]) for one in size.rounds])

        sums = " and ".join(what for what, names in (("wall", WALL_SUM), ("CPU", CPU_SUM)) if name in names)
        columns = (of(lambda cost: cost.p50_ms), of(lambda cost: cost.p95_ms), of(lambda cost: cost.cpu_ms))
        table.add_row(name, *columns, sums or "-")
    return table


def _stages(size: SizeResult) -> Table:
    table = _table("our own stages, each alone", "CPU ms", "in the sum of")
    for name in size.rounds[0].stages_cpu_ms:
        table.add_row(name, _median([one.stages_cpu_ms[name] for one in size.rounds]), "CPU")
    return table


def _recalls(size: SizeResult) -> Table:
    table = _table(
        "recalls over the bus, in flight",
        "p50 ms", "p95 ms", "per s", "CPU ms: worker", "of it loop", BUS, RECORD, CLIENT, "recalls", "unanswered",
    )  # fmt: skip
    for in_flight in size.rounds[0].cells:
        cells = [one.cells[in_flight] for one in size.rounds]

        def of(value: Callable[[Cell], float], cells: Sequence[Cell] = cells) -> str:
            return _median([value(cell) for cell in cells])

        table.add_row(
            str(in_flight),
            of(lambda cell: cell.p50_ms),
            of(lambda cell: cell.p95_ms),
            of(lambda cell: cell.per_s),
            of(lambda cell: cell.cpu_ms[WORKER]),
            of(lambda cell: cell.loop_ms),
            of(lambda cell: cell.cpu_ms[BUS]),
            of(lambda cell: cell.cpu_ms[RECORD]),
            of(lambda cell: cell.cpu_ms[CLIENT]),
            str(sum(cell.recalls for cell in cells)),
            str(sum(cell.unanswered for cell in cells)),
        )
    table.add_section()
    peaks = {name: f"{value:.0f}" for name, value in size.peak_mib.items()}
    table.add_row(
        "peak memory, MiB", "", "", "", peaks[WORKER], "", peaks[BUS], peaks[RECORD], peaks[CLIENT], "", ""
    )
    return table


def _rounds(size: SizeResult) -> Table:
    table = _table("round", "rest of the machine busy", "wall counts", "p50 alone ms", "wall sum ms", "CPU sum ms")
    for number, one in enumerate(size.rounds, start=1):
        alone = one.cells[min(one.cells)].p50_ms
        sums = (f"{alone:.2f}", f"{one.wall_sum_ms:.2f}", f"{one.cpu_sum_ms:.2f}")
        table.add_row(str(number), f"{one.rest_busy:.1%}", "yes" if one.quiet else "no", *sums)
    return table


def _ratios(found: Sequence[Ratio]) -> Table:
    table = _table("ratio", "median (min..max)", "rounds counted", "target", "verdict")
    for ratio in found:
        shown = _spread(ratio.counted)
        if ratio.rounds_counted < ratio.rounds:
            shown = f"{shown}; all rounds {_spread(ratio.every)}"
        verdict = {True: "reached", False: "NOT reached", None: ""}[ratio.reached]
        if ratio.target is not None and ratio.counted is None:
            verdict = "not judged: no quiet round"
        target = "" if ratio.target is None else f"<= {ratio.target} x"
        table.add_row(ratio.name, shown, f"{ratio.rounds_counted} of {ratio.rounds}", target, verdict)
    return table


def _print_sums(size: SizeResult, out: Console) -> None:
    outcomes = ", ".join(f"{count} {outcome}" for outcome, count in size.outcomes.items())
    silent = ", ".join(f"{source}: {count}" for source, count in size.silent.items()) or "none"
    lines = (
        f"The wall sum is p50 of: {'; '.join(WALL_SUM)}.",
        f"The CPU sum is: {'; '.join(CPU_SUM)} (of the bus, the answering process's share).",
        f"Wall ratios count while the rest is under {QUIET_BUSY_SHARE:.0%} busy.",
        "The client's memory holds the floors' copies of every size; Postgres's is all its processes, shared once.",
        f"Decisions in the log: {outcomes}; late or failed sources: {silent}.",
    )
    for line in lines:
        out.print(Text(line, style="dim"))


def _table(first: str, *columns: str) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(first)
    for column in columns:
        table.add_column(column, justify="right" if _is_number(column) else "left")
    return table


def _is_number(column: str) -> bool:
    words = ("ms", "per s", "loop", "recalls", "unanswered", "busy", *(BUS, RECORD, CLIENT))
    return any(word in column for word in words)


def _median(values: Sequence[float]) -> str:
    spread = Spread.of(values)
    return "-" if spread is None else _number(spread.median)


def _number(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 20 else f"{value:.3f}"


def _spread(spread: Spread | None) -> str:
    return "none" if spread is None else f"{spread.median:.2f} ({spread.low:.2f}..{spread.high:.2f})"
