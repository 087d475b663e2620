"""The gates of a canary: what its answers are compared with those of the control by, and which gate it fails."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field

from orion_recall.profile.canary import Canary
from orion_recall.values import Outcome

# Other outcomes say nothing of a profile: the query was invalid, too late or refused before it was recalled.
RECALLED: frozenset[Outcome] = frozenset(("ok", "empty", "degraded", "failed"))
_MOST_LATENCIES = 5000


@dataclass(slots=True)
class AnswerFigures:
    """The answers of one profile in one step. The latencies are those of the latest 5,000."""

    queries: int = 0
    errors: int = 0
    empty: int = 0
    latencies_ms: deque[float] = field(default_factory=lambda: deque[float](maxlen=_MOST_LATENCIES))

    def add(self, outcome: Outcome, latency_ms: float) -> None:
        """Count one answer; one that was not recalled is left out."""
        if outcome in RECALLED:
            self.queries += 1
            self.errors += outcome in ("degraded", "failed")
            self.empty += outcome == "empty"
            self.latencies_ms.append(latency_ms)

    @property
    def error_share(self) -> float:
        """The share of degraded and failed answers."""
        return self.errors / self.queries

    @property
    def empty_share(self) -> float:
        """The share of empty answers."""
        return self.empty / self.queries

    @property
    def p95_ms(self) -> float:
        """The 95th percentile of the latency: the smallest that 95 percent do not exceed."""
        return sorted(self.latencies_ms)[math.ceil(len(self.latencies_ms) * 0.95) - 1]


def failed_gate(settings: Canary, canary: AnswerFigures, control: AnswerFigures) -> str | None:
    """The gate that the canary fails, in words; None while it fails none. Both need at least one answer."""
    gates = settings.gates
    if canary.error_share > control.error_share + gates.errors:
        told = f"degraded or failed {canary.error_share:.3f}, control {control.error_share:.3f}"
        return f"{told}, gate errors {gates.errors:g}"
    if canary.empty_share > control.empty_share + gates.empty:
        return f"empty {canary.empty_share:.3f}, control {control.empty_share:.3f}, gate empty {gates.empty:g}"
    if (p95 := canary.p95_ms) > control.p95_ms * gates.latency_ratio:
        told = f"p95 {p95:.1f} ms, control {control.p95_ms:.1f} ms"
        return f"{told}, gate latency_ratio {gates.latency_ratio:g}"
    return None
