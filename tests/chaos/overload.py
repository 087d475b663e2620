"""Four times what a worker can answer, with a second tenant beside the flood and stores meanwhile.

It is the bench of the same name (tests/bench/overload.py) with the worker on a core of its own: the last two
phases, with their figures as promises. Those of time hold only on a machine that has nothing else to do.
"""

from __future__ import annotations

import time
from dataclasses import asdict

from tests.bench.overload import PHASES, Phase, measure
from tests.chaos.trial import Promise, Trial, at_least, at_most

_WARM = ("warming up", 4.0, False)
_TTL_MS = 2000
_GROWN_MIB = 64


async def run(*, seconds: float, memories: int) -> Trial:
    """The trial: two phases of so many seconds, after one that warms up: caches fill, and memory with them."""
    began = time.monotonic()
    _, *phases = await measure(memories, seconds, _TTL_MS, is_pinned=True, phases=(_WARM, *PHASES[-2:]))
    return Trial(
        name="overload",
        size=f"{seconds:g} s of each phase, {memories:,} memories of each of two tenants, ttl {_TTL_MS} ms",
        promises=[promise for phase in phases for promise in _promises(phase)],
        figures={phase.name: _figures(phase) for phase in phases},
        seconds=time.monotonic() - began,
    )


def _promises(phase: Phase) -> list[Promise]:
    unanswered = phase.outcomes.get("unanswered", 0) + phase.quiet_outcomes.get("unanswered", 0)
    failed = phase.outcomes.get("failed", 0) + phase.quiet_outcomes.get("failed", 0)
    found = [
        at_most(f"{phase.name}: queries without an answer", unanswered, 0),
        at_most(f"{phase.name}: queries that failed", failed, 0),
        at_least(f"{phase.name}: goodput of capacity", round(phase.goodput, 3), 0.85, is_timed=True),
        at_most(f"{phase.name}: p99 of the admitted, ms", round(phase.p99_ms), _TTL_MS, is_timed=True),
        at_most(
            f"{phase.name}: slowest receipt of a store, ms",
            round(max(phase.receipt_ms, default=0.0)),
            2000,
            is_timed=True,
        ),
        at_most(f"{phase.name}: seconds to normal", round(phase.normal_s, 1), 5, is_timed=True),
        at_most(
            f"{phase.name}: MiB by which the worker's memory grew",
            round(phase.memory_mib[1] - phase.memory_mib[0]),
            _GROWN_MIB,
            is_timed=True,
        ),
    ]
    if phase.quiet_share is not None:
        share = round(phase.quiet_share, 3)
        found.append(at_least(f"{phase.name}: share of a second tenant", share, 0.95, is_timed=True))
    return found


def _figures(phase: Phase) -> dict[str, object]:
    told = asdict(phase)
    return {name: told[name] for name in ("capacity", "of_cpu", "outcomes", "quiet_outcomes", "memory_mib", "load")}
