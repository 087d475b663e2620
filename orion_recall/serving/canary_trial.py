"""One canary trial: its step, its figures since the step began, and whether it was taken back.

The id is made of the names and contents of both profiles: an edit of either begins another trial.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Literal

from orion_recall.profile.canary import Canary
from orion_recall.profile.watch import LoadedProfile
from orion_recall.serving.canary_gates import AnswerFigures, failed_gate

TrialChange = Literal["taken back", "next step"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedTrial:
    """What all workers know of a trial. `step` counts from 0, `began` is in epoch seconds."""

    step: int
    began: float
    taken_back: str | None = None


@dataclass(slots=True, kw_only=True)
class CanaryTrial:
    """A trial on this worker. `shared` is what it has in common with other workers, the figures are its own."""

    id: str
    profile: str
    canary: str
    settings: Canary
    shared: SharedTrial
    of_canary: AnswerFigures = field(default_factory=AnswerFigures)
    of_control: AnswerFigures = field(default_factory=AnswerFigures)
    before: AnswerFigures | None = None

    @property
    def share(self) -> float:
        """The share of the sessions that the canary answers now."""
        return 0.0 if self.shared.taken_back else self.settings.steps[self.shared.step]

    @property
    def control(self) -> AnswerFigures:
        """The control's figures: those of the step, or of the one before where the step has too few."""
        if self.before is not None and self.of_control.queries < self.settings.min_queries:
            return self.before
        return self.of_control

    def judge(self, now: float) -> TrialChange | None:
        """Take the canary back or begin its next step, as its figures say; None where nothing changes."""
        least = self.settings.min_queries
        if self.shared.taken_back or min(self.of_canary.queries, self.control.queries) < least:
            return None
        if (why := failed_gate(self.settings, self.of_canary, self.control)) is not None:
            self.adopt(SharedTrial(step=self.shared.step, began=self.shared.began, taken_back=why))
            return "taken back"
        is_over = now - self.shared.began >= self.settings.step_minutes * 60
        if is_over and self.shared.step + 1 < len(self.settings.steps):
            self.adopt(SharedTrial(step=self.shared.step + 1, began=now))
            return "next step"
        return None

    def adopt(self, shared: SharedTrial) -> None:
        """Go on from there. Figures begin anew with a step; a canary that was taken back stays so."""
        if self.shared.taken_back:
            return
        step = min(max(shared.step, 0), len(self.settings.steps) - 1)
        if step != self.shared.step:
            self.before, self.of_control, self.of_canary = self.control, AnswerFigures(), AnswerFigures()
        self.shared = SharedTrial(step=step, began=shared.began, taken_back=shared.taken_back)


def trial_of(control: LoadedProfile, canary: LoadedProfile, now: float) -> CanaryTrial:
    """The trial of a profile's canary, at its first step."""
    profile = control.profile
    named = (profile.profile, control.content_hash, canary.profile.profile, canary.content_hash)
    return CanaryTrial(
        id=hashlib.sha256("\x1f".join(named).encode()).hexdigest()[:16],
        profile=profile.profile,
        canary=canary.profile.profile,
        settings=profile.canary,
        shared=SharedTrial(step=0, began=now),
    )
