"""The profile section `canary`: another profile that answers a share of the sessions, and the gates on it."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import BaseModel, Field, model_validator
from pydantic_core import PydanticCustomError

from orion_recall.profile.sections import CONFIG, Share

_Step = Annotated[float, Field(gt=0, le=1)]


class CanaryGates(BaseModel):
    """How much worse than the control a canary may be before it is taken back."""

    model_config = CONFIG

    errors: Share = Field(
        default=0.02,
        description="By how much the share of degraded and failed answers may exceed that of the control.",
    )
    empty: Share = Field(
        default=0.05, description="By how much the share of empty answers may exceed that of the control."
    )
    unsure: Share = Field(
        default=0.05, description="By how much the share of unsure answers may exceed that of the control."
    )
    latency_ratio: float = Field(
        default=1.5, ge=1, le=100, description="How many times the p95 latency of the control it may have."
    )


class Canary(BaseModel):
    """Another profile that answers a share of the sessions instead of this one."""

    model_config = CONFIG

    profile: str | None = Field(
        default=None,
        min_length=1,
        max_length=64,
        description="The other profile's name; null: this profile answers all of its queries.",
    )
    steps: Annotated[tuple[_Step, ...], Field(strict=False, min_length=1, max_length=16)] = Field(
        default=(0.1, 0.5, 1.0),
        description="The shares of the sessions that it answers, one step after the other; each is larger.",
    )
    step_minutes: int = Field(
        default=1440, ge=1, le=525_600, description="The time that a step lasts at least (minutes)."
    )
    min_queries: int = Field(
        default=200,
        ge=10,
        le=100_000,
        description="Answers of either profile in a step before the gates are looked at (per worker).",
    )
    gates: CanaryGates = Field(
        default=CanaryGates(), description="How much worse than this profile it may be before it is taken back."
    )

    @model_validator(mode="after")
    def _steps_grow(self) -> Self:
        if any(later <= before for before, later in zip(self.steps, self.steps[1:], strict=False)):
            raise PydanticCustomError("steps", "each step must be larger than the one before it", {"key": "steps"})
        if self.steps[0] == 1:
            told = "the first step must be below 1: the gates compare with the sessions that are left"
            raise PydanticCustomError("steps", told, {"key": "steps"})
        return self
