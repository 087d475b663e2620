"""The tables of a comparison: quality, "Comparative analysis" and "Scaling projections", as rows of text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from orion_recall.evaluation.systems.latency import Latency
from orion_recall.evaluation.systems.quality import MEASURES, Quality
from orion_recall.evaluation.systems.registry import MEMORY_OPERATION_MS, PIPELINE_MS, SYSTEMS
from orion_recall.evaluation.systems.scaling import AtSize

COMPARED_AT = 1_000
_NONE = "-"


@dataclass(frozen=True, slots=True, kw_only=True)
class TextTable:
    """A table with a title: names of columns, and rows as long."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]

    def markdown(self) -> str:
        """The table as Markdown, with its title in bold above it."""
        lines = [self.columns, ["---"] * len(self.columns), *self.rows]
        return f"**{self.title}**\n\n" + "\n".join(f"| {' | '.join(line)} |" for line in lines)


def quality_table(found: Sequence[Quality]) -> TextTable:
    """A row for each system and profile."""
    return TextTable(
        title=f"Quality over {found[0].queries:,} judged queries",
        columns=("system", *MEASURES),
        rows=[(one.label, *(_share(one.means[name]) for name in MEASURES)) for one in found],
    )


def comparative_table(found: Sequence[Quality], sizes: Sequence[AtSize]) -> TextTable:
    """The criteria that are measured, a column for each system and profile.

    Latency, memory and building are those at 1,000 turns, or else at the largest size that was measured.
    """
    at = next((one for one in sizes if one.turns == COMPARED_AT), sizes[-1] if sizes else None)
    names = [one.name for one in found]
    rows: list[tuple[str, ...]] = []
    if at is not None:
        latencies = {**at.searches, **at.recalls}
        labels = (("P50", "p50"), ("P95", "p95"), ("P99", "p99"))
        rows += [
            (f"latency {label}, {at.turns:,} turns", *(_ms(latencies.get(name), key) for name in names))
            for label, key in labels
        ]
        rows.append(("held per 1,000 turns", *(_held(name, at) for name in names)))
        built = f"{at.built_ms * 1000 / at.turns:,.0f} ms"
        rows.append(("graph built per 1,000 turns", *(built if name == "pagerank" else _NONE for name in names)))
    rows.append(("recall@5, temporal questions", *(_share(one.temporal) for one in found)))
    rows.append(("recall@5, no word in common", *(_share(one.other_words) for one in found)))
    rows.append(("recall@5, all questions", *(_share(one.means["recall@5"]) for one in found)))
    return TextTable(title="Comparative analysis", columns=("criterion", *(one.label for one in found)), rows=rows)


def scaling_table(sizes: Sequence[AtSize]) -> TextTable:
    """P95 at each size in milliseconds, and beside a target whether it is met."""
    profiles = list(sizes[0].recalls)
    columns = (
        "turns",
        *(_column(system.label, system.target_ms) for system in SYSTEMS),
        *(_column(f"{name}, whole recall", PIPELINE_MS) for name in profiles),
        _column("one turn stored", MEMORY_OPERATION_MS),
    )
    rows = [
        (
            f"{one.turns:,}",
            *(_against(one.searches[system.name], system.target_ms) for system in SYSTEMS),
            *(_against(one.recalls[name], PIPELINE_MS) for name in profiles),
            _against(one.memory_operation, MEMORY_OPERATION_MS),
        )
        for one in sizes
    ]
    return TextTable(title="Scaling projections (P95)", columns=columns, rows=rows)


def misses(sizes: Sequence[AtSize]) -> Mapping[str, Sequence[int]]:
    """The sizes at which a P95 is above its target, by what was measured."""
    found: dict[str, list[int]] = {}
    for one in sizes:
        timed = [(system.label, one.searches[system.name], system.target_ms) for system in SYSTEMS]
        timed += [(name, latency, PIPELINE_MS) for name, latency in one.recalls.items()]
        timed.append(("one turn stored", one.memory_operation, MEMORY_OPERATION_MS))
        for label, latency, target in timed:
            if target is not None and latency.p95 > target:
                found.setdefault(label, []).append(one.turns)
    return found


def _column(label: str, target: float | None) -> str:
    return label if target is None else f"{label} (target {target:g} ms)"


def _against(latency: Latency, target: float | None) -> str:
    missed = target is not None and latency.p95 > target
    return f"{_number(latency.p95)} ms{', missed' if missed else ''}"


def _ms(latency: Latency | None, key: str) -> str:
    return _NONE if latency is None else f"{_number(getattr(latency, key))} ms"


def _number(ms: float) -> str:
    return f"{ms:.1f}" if ms < 100 else f"{ms:,.0f}"


def _held(name: str, at: AtSize) -> str:
    held = at.bytes_held.get(name)
    kilobytes = (at.disk_bytes if held is None else held) / at.turns  # bytes a turn are kB a thousand
    return f"{kilobytes:,.0f} kB{' on disk' if held is None else ''}"


def _share(value: float | None) -> str:
    return _NONE if value is None else f"{value:.3f}".removeprefix("0") if value < 1 else "1.000"
