"""Ratios of measured recalls to the floors of the same round, and whether a round counts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tests.bench import engine_floors as floors
from tests.bench import stages
from tests.bench.measure import Cost, Spread
from tests.bench.recall_load import WORKER, Cell

P50_TARGET, CPU_TARGET = 2.0, 1.8
QUIET_BUSY_SHARE = 0.15

WALL_SUM = (floors.BUS, floors.EMBEDDING, floors.DENSE, floors.SPARSE, floors.SPARQL, floors.SQL)
CPU_SUM = (
    floors.BUS_TOGETHER, floors.EMBEDDING_BATCH, floors.DENSE, floors.SPARSE, floors.ENTITIES, floors.SPARQL,
    floors.SQL, floors.FETCH, floors.LATE, stages.DECODE, stages.UNDERSTAND, stages.RANK, stages.SELECT,
    stages.WRITE,
)  # fmt: skip
# What the graph source and the ranking read from the index beside the two searches.
OWN_READS = (floors.ENTITIES, floors.FETCH, floors.LATE)


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeRound:
    """One round of one size: floors, stages (CPU), cells by recalls in flight; how busy the rest was meanwhile."""

    size: int
    floors: Mapping[str, Cost]
    stages_cpu_ms: Mapping[str, float]
    cells: Mapping[int, Cell]
    rest_busy: float

    @property
    def quiet(self) -> bool:
        """Whether wall times of this round count."""
        return self.rest_busy < QUIET_BUSY_SHARE

    @property
    def wall_sum_ms(self) -> float:
        """What one recall would take if nothing but the engines and the bus took time, one after another."""
        return sum(self.floors[name].p50_ms for name in WALL_SUM)

    @property
    def cpu_sum_ms(self) -> float:
        """The CPU that one recall of many would need if nothing stood between its stages."""
        return self.cpu_of(CPU_SUM)

    @property
    def cpu_ms(self) -> Mapping[str, float]:
        """CPU of every floor and stage."""
        return {name: cost.cpu_ms for name, cost in self.floors.items()} | dict(self.stages_cpu_ms)

    def cpu_of(self, names: Sequence[str]) -> float:
        """The CPU of some floors and stages together."""
        return sum(self.cpu_ms[name] for name in names)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratio:
    """One figure over the rounds that count, and over all of them. `target` is what it may be at most."""

    name: str
    counted: Spread | None
    every: Spread
    rounds_counted: int
    rounds: int
    target: float | None = None

    @property
    def reached(self) -> bool | None:
        """None when there is no target, or no round counted."""
        if self.target is None or self.counted is None:
            return None
        return self.counted.median <= self.target


def ratios(rounds: Sequence[SizeRound]) -> list[Ratio]:
    """The ratios of one size."""
    last = max(rounds[0].cells)
    return [
        _ratio("p50 one at a time / sum of the wall floors", rounds, _wall, target=P50_TARGET, wall=True),
        _ratio(f"worker CPU at {last} in flight / sum of the stages' CPU", rounds, _cpu, target=CPU_TARGET),
        _ratio("the same without entity lookup, fetch and late interaction", rounds, _cpu_without_own_reads),
        _ratio("the same with the engines and the bus alone in the sum", rounds, _cpu_engines),
        _ratio(f"the loop's share of the worker's CPU at {last} in flight", rounds, _loop_share),
    ]


def growth(small: Sequence[SizeRound], large: Sequence[SizeRound]) -> list[Ratio]:
    """How the largest size compares with the smallest, round by round."""
    pairs = list(zip(small, large, strict=True))
    figures: list[tuple[str, Callable[[SizeRound], float]]] = [
        ("worker CPU", lambda one: _last(one).cpu_ms[WORKER]),
        ("CPU of all processes", lambda one: sum(_last(one).cpu_ms.values())),
        ("sum of the stages' CPU", lambda one: one.cpu_sum_ms),
    ]
    name = f"{large[0].size:,} memories against {small[0].size:,}"
    return [
        _over(f"{what}, {name}", [of(after) / of(before) for before, after in pairs], [True] * len(pairs))
        for what, of in figures
    ]


def _ratio(
    name: str,
    rounds: Sequence[SizeRound],
    of: Callable[[SizeRound], float],
    *,
    target: float | None = None,
    wall: bool = False,
) -> Ratio:
    return _over(name, [of(one) for one in rounds], [one.quiet or not wall for one in rounds], target=target)


def _over(name: str, values: Sequence[float], counts: Sequence[bool], *, target: float | None = None) -> Ratio:
    kept = [value for value, count in zip(values, counts, strict=True) if count]
    every = Spread.of(values)
    assert every is not None
    return Ratio(
        name=name,
        counted=Spread.of(kept),
        every=every,
        rounds_counted=len(kept),
        rounds=len(values),
        target=target,
    )


def _last(one: SizeRound) -> Cell:
    return one.cells[max(one.cells)]


def _wall(one: SizeRound) -> float:
    return one.cells[min(one.cells)].p50_ms / one.wall_sum_ms


def _cpu(one: SizeRound) -> float:
    return _last(one).cpu_ms[WORKER] / one.cpu_sum_ms


def _cpu_without_own_reads(one: SizeRound) -> float:
    return _last(one).cpu_ms[WORKER] / one.cpu_of([name for name in CPU_SUM if name not in OWN_READS])


def _cpu_engines(one: SizeRound) -> float:
    return _last(one).cpu_ms[WORKER] / one.cpu_of([name for name in CPU_SUM if name in one.floors])


def _loop_share(one: SizeRound) -> float:
    return _last(one).loop_ms / _last(one).cpu_ms[WORKER]
