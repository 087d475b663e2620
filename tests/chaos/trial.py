"""What a trial promised and found, and how that is shown."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, cast

from rich.console import Console
from rich.table import Table


@dataclass(frozen=True, slots=True, kw_only=True)
class Promise:
    """One promise: what was counted, how much, and how much there may be.

    `is_timed`: it holds only on a machine that has nothing else to do.
    """

    what: str
    found: float
    wanted: str
    is_kept: bool
    is_timed: bool = False


def at_most(what: str, found: float, most: float, *, is_timed: bool = False) -> Promise:
    """A count that may not be larger."""
    wanted = f"{most:g}" if most == 0 else f"at most {most:g}"
    return Promise(what=what, found=found, wanted=wanted, is_kept=found <= most, is_timed=is_timed)


def at_least(what: str, found: float, least: float, *, is_timed: bool = False) -> Promise:
    """A count that may not be smaller."""
    return Promise(what=what, found=found, wanted=f"at least {least:g}", is_kept=found >= least, is_timed=is_timed)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """A trial that has ended: its size in words, its promises, and figures that nothing is promised of."""

    name: str
    size: str
    promises: Sequence[Promise]
    figures: Mapping[str, Any] = field(default_factory=dict[str, Any])
    seconds: float = 0.0

    @property
    def broken(self) -> list[Promise]:
        """The promises that were not kept."""
        return [promise for promise in self.promises if not promise.is_kept]


def show(trials: Sequence[Trial], console: Console) -> None:
    """The trials as a table of promises, and their figures below."""
    table = Table("trial", "promise", "found", "wanted", "")
    for trial in trials:
        for promise in trial.promises:
            word = "kept" if promise.is_kept else "BROKEN"
            told = f"{word}, timed" if promise.is_timed else word
            table.add_row(trial.name, promise.what, f"{promise.found:,g}", promise.wanted, told)
        table.add_section()
    console.print(table)
    for trial in trials:
        console.print(f"{trial.name}: {trial.size}; {trial.seconds:.0f} s")
        for name, figure in trial.figures.items():
            console.print(f"  {name}: {_written(figure)}")
    console.print(f"load of the machine at the end: {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors")


def as_json(trials: Sequence[Trial]) -> dict[str, Any]:
    return {"trials": [asdict(trial) | {"is_kept": not trial.broken} for trial in trials]}


def _written(figure: Any) -> str:
    if isinstance(figure, float):
        return f"{figure:,.2f}"
    if isinstance(figure, Mapping):
        found = cast("Mapping[Any, Any]", figure)
        return ", ".join(f"{name} {_written(part)}" for name, part in found.items())
    if isinstance(figure, list | tuple):
        parts = cast("Sequence[Any]", figure)
        return "; ".join(map(_written, parts))
    return str(figure)
