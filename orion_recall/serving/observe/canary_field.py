"""The field of a heartbeat that states the canaries of a worker, as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pydantic import TypeAdapter, ValidationError

from orion_recall.serving.canaries import CanaryTrial

CANARIES = "canaries"


@dataclass(frozen=True, slots=True, kw_only=True)
class CanaryState:
    """One trial as a worker sees it: `queries` and `control_queries` are its own answers in this step.

    `step` counts from 1, `since` is in epoch seconds, `share` is 0 once it was taken back.
    """

    profile: str
    canary: str
    step: int
    steps: int
    share: float
    since: float
    queries: int
    control_queries: int
    taken_back: str | None = None


_STATES = TypeAdapter(tuple[CanaryState, ...])


def state_of(trial: CanaryTrial) -> CanaryState:
    """The state of a trial now."""
    return CanaryState(
        profile=trial.profile,
        canary=trial.canary,
        step=trial.shared.step + 1,
        steps=len(trial.settings.steps),
        share=trial.share,
        since=trial.shared.began,
        queries=trial.of_canary.queries,
        control_queries=trial.of_control.queries,
        taken_back=trial.shared.taken_back,
    )


def canaries_field(states: Sequence[CanaryState]) -> str:
    """The states as the field's value."""
    return _STATES.dump_json(tuple(states)).decode()


def canaries_of(heartbeat: Mapping[str, str]) -> tuple[CanaryState, ...]:
    """The canaries of a heartbeat; none where it has none that can be read."""
    try:
        return _STATES.validate_json(heartbeat.get(CANARIES, "[]"))
    except ValidationError:
        return ()
