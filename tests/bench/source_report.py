"""The report of the costs of a recall's stages: tables, and JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from tests.bench.costs import Figure, Ratio
from tests.bench.fill_child import MODEL, WORDS
from tests.bench.ranking_ablation import ADDED_SECTIONS, RANK_POOL_BEFORE
from tests.bench.ratios import QUIET_BUSY_SHARE

_VECTORS = {MODEL: "by the model", WORDS: "means of word vectors"}
_NOTES = (
    "A stage is measured inside the recall, alone: concurrent stages wait. Nested stages are subtracted. What lies "
    "between the stages includes the clock's own cost and that of running one after another.",
    "CPU is of this process, engine threads included; Postgres's own is shown separately. No question finds its "
    "vector or its graph rows in a cache; each is recalled once before it counts.",
    f"Without added features: {', '.join(ADDED_SECTIONS)} and graph.paths have their defaults, "
    f"rank_pool {RANK_POOL_BEFORE}. In both a reranker is left out.",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileFigures:
    """One profile: its stages in order with the whole recall last; Postgres's own CPU for one recall."""

    profile: str
    stages: Sequence[Figure]
    postgres_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeFigures:
    """One size. `filled_s` and `filled_cpu_s` are None where the stores are those of an earlier run."""

    size: int
    vectors: str
    filled_s: float | None
    filled_cpu_s: float | None
    embedding: Figure
    profiles: Sequence[ProfileFigures]
    graph: Sequence[Figure]
    whole: Sequence[Figure]
    added: Sequence[Ratio]
    rest_busy: float

    @property
    def quiet(self) -> bool:
        """Whether the rest of the machine left it alone."""
        return self.rest_busy < QUIET_BUSY_SHARE


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceCosts:
    """One run: on what, with what, and every size from the smallest."""

    machine: Mapping[str, Any]
    model: str
    questions: int
    seconds: float
    sizes: Sequence[SizeFigures]


def as_json(result: SourceCosts) -> dict[str, Any]:
    """The whole result."""
    sizes = [
        asdict(size)
        | {"quiet": size.quiet, "added": [asdict(one) | {"reached": one.reached} for one in size.added]}
        for size in result.sizes
    ]
    return asdict(result) | {"notes": _NOTES, "sizes": sizes}


def print_report(result: SourceCosts, out: Console) -> None:
    """For each size: the stages by profile, the graph's options, and what was added."""
    machine = ", ".join(f"{name} {value}" for name, value in result.machine.items())
    out.print(
        Text(f"{machine}; {result.questions} questions; one embedding is one question by {result.model}, fp32")
    )
    for size in result.sizes:
        out.print()
        out.print(Text(f"{size.size:,} memories", style="bold"))
        out.print(Text(f"stores {_filled(size)}, vectors {_VECTORS[size.vectors]}"))
        out.print()
        out.print(_figures("one embedding", [size.embedding]))
        for one in size.profiles:
            out.print()
            out.print(_figures(one.profile, one.stages))
            out.print(Text(f"and Postgres itself {one.postgres_ms:.2f} ms a recall", style="dim"))
        out.print()
        out.print(_figures("graph source alone, half of the questions with a possessive chain", size.graph))
        out.print()
        out.print(_figures("whole recalls, in turns", size.whole))
        out.print()
        out.print(_ratios(size.added))
        busy = f"The rest of the machine was {size.rest_busy:.0%} busy"
        out.print(Text(busy + ("." if size.quiet else ": figures of a busy machine are too high."), style="dim"))
    out.print()
    for line in _NOTES:
        out.print(Text(line, style="dim"))
    out.print(Text(f"\n{result.seconds:.0f} s in all"))


def _filled(size: SizeFigures) -> str:
    if size.filled_s is None or size.filled_cpu_s is None:
        return "kept by an earlier run"
    return f"filled in {size.filled_s:.0f} s ({size.filled_cpu_s:.0f} s of CPU)"


def _figures(first: str, figures: Sequence[Figure]) -> Table:
    table = _table(first, "CPU ms median", "CPU ms p95", "embeddings median", "embeddings p95")
    for one in figures:
        milliseconds = (f"{one.median_ms:.2f}", f"{one.p95_ms:.2f}")
        table.add_row(one.name, *milliseconds, f"{one.median_share:.3f}", f"{one.p95_share:.3f}")
    return table


def _ratios(ratios: Sequence[Ratio]) -> Table:
    table = _table("question by question", "median", "p05..p95", "target", "verdict")
    for one in ratios:
        target = "" if one.target is None else f"<= {one.target:g}"
        verdict = {True: "reached", False: "NOT reached", None: ""}[one.reached]
        table.add_row(one.name, f"{one.median:.2f}", f"{one.p05:.2f}..{one.p95:.2f}", target, verdict)
    return table


def _table(first: str, *columns: str) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(first, min_width=36)
    for column in columns:
        table.add_column(column, justify="left" if column == "verdict" else "right")
    return table
