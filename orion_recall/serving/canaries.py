"""Canaries: a share of the sessions is answered by another profile, until it is taken back or answers all.

Whose sessions is decided by a hash: every worker decides alike, and a session that belongs to a step belongs to all
later ones. Each worker judges by the answers that it gave itself. Steps and canaries taken back are shared over the
bus; while the bus does not tell them, a worker goes by its own.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from orion_recall.contracts import CanaryV1, RecallQueryV1
from orion_recall.errors import BusUnavailable
from orion_recall.profile.watch import LoadedProfile, ProfilesInUse
from orion_recall.serving.canary_trial import CanaryTrial, SharedTrial, trial_of
from orion_recall.telemetry import LOG_WORKER
from orion_recall.text.normal import number_of
from orion_recall.values import Outcome

log = logging.getLogger(LOG_WORKER)

_EVERY_S = 2.0
_WHOLE = float(1 << 63)
_Key = tuple[str, str, str]


class SharesTrials(Protocol):
    """Shares trials among workers. BusUnavailable: a trial cannot be read now. Writing raises nothing."""

    async def read(self, trial_id: str) -> SharedTrial | None: ...
    async def write(self, trial_id: str, shared: SharedTrial) -> None: ...


class Canaries:
    """The canary trials of one worker. `run` judges them every two seconds."""

    def __init__(
        self,
        profiles: ProfilesInUse,
        shared: SharesTrials | None = None,
        *,
        now: Callable[[], float] = time.time,
        changed: Callable[[], None] = lambda: None,
    ) -> None:
        self._profiles, self._shared, self._now, self._changed = profiles, shared, now, changed
        self._trials: dict[_Key, CanaryTrial] = {}

    @property
    def trials(self) -> Sequence[CanaryTrial]:
        """The trials of the profiles in use."""
        return tuple(self._trials.values())

    def chosen(
        self, name: str, profiles: Mapping[str, LoadedProfile], query: RecallQueryV1, *, tenant: str, corr_id: str
    ) -> CanaryV1 | None:
        """Which profile answers a query for the profile `name`; None where that has no canary.

        A user's queries stay with one profile, without a user a session's; else each query is drawn on its own.
        """
        if (trial := self._trial(name, profiles)) is None:
            return None
        user = query.options.user if query.options else None
        unit = user or query.session_id or corr_id
        draw = number_of(f"canary {name} {tenant}", unit)
        return CanaryV1(
            trial=trial.id,
            profile=name,
            canary=trial.canary,
            variant="canary" if draw < trial.share * _WHOLE else "control",
            step=trial.shared.step + 1,
            share=trial.share,
        )

    def record(self, canary: CanaryV1, outcome: Outcome, latency_ms: float) -> None:
        """Count an answer of either profile; one that was drawn in an earlier step is left out."""
        trial = next((one for one in self._trials.values() if one.id == canary.trial), None)
        if trial is not None and trial.shared.step + 1 == canary.step:
            (trial.of_canary if canary.variant == "canary" else trial.of_control).add(outcome, latency_ms)

    async def run(self) -> None:
        """Judge until cancelled."""
        while True:
            await self.judge()
            await asyncio.sleep(_EVERY_S)

    async def judge(self) -> None:
        """Take up what other workers know, judge every trial, and share what changed."""
        profiles = self._profiles.current
        wanted = {key for name in profiles if (key := _key(name, profiles)) is not None}
        for key in self._trials.keys() - wanted:
            del self._trials[key]
        for name, _, _ in wanted:
            self._trial(name, profiles)
        for trial in self.trials:
            await self._judge(trial)

    async def _judge(self, trial: CanaryTrial) -> None:
        before = trial.shared
        known, is_told = await self._known(trial)
        if known is not None and (known.taken_back or known.step > before.step):
            trial.adopt(known)
        elif known is not None and known.step == before.step and known.began < before.began:
            trial.adopt(known)  # this worker was started in the middle of the step
        trial.judge(self._now())
        if self._shared is not None and is_told and _is_news(trial.shared, known):
            await self._shared.write(trial.id, trial.shared)
        if (trial.shared.step, trial.shared.taken_back) != (before.step, before.taken_back):
            _log(trial)
            self._changed()

    async def _known(self, trial: CanaryTrial) -> tuple[SharedTrial | None, bool]:
        """What is shared of the trial, and whether that could be told."""
        if self._shared is None:
            return None, False
        try:
            return await self._shared.read(trial.id), True
        except BusUnavailable as error:
            log.debug("%s", error)
            return None, False

    def _trial(self, name: str, profiles: Mapping[str, LoadedProfile]) -> CanaryTrial | None:
        if (key := _key(name, profiles)) is None:
            return None
        if (trial := self._trials.get(key)) is None:
            canary = profiles[name].profile.canary.profile
            assert canary is not None
            trial = self._trials[key] = trial_of(profiles[name], profiles[canary], self._now())
        return trial


def _key(name: str, profiles: Mapping[str, LoadedProfile]) -> _Key | None:
    """The profile and the contents of it and its canary; None without a canary among the profiles."""
    control = profiles[name]
    canary = profiles.get(control.profile.canary.profile or "")
    return None if canary is None else (name, control.content_hash, canary.content_hash)


def _is_news(own: SharedTrial, known: SharedTrial | None) -> bool:
    """Whether this worker is ahead of what all know; it may have been while the bus was away."""
    return known is None or own.step > known.step or (own.taken_back is not None and known.taken_back is None)


def _log(trial: CanaryTrial) -> None:
    fields: dict[str, object] = {"profile": trial.profile, "canary": trial.canary, "step": trial.shared.step + 1}
    if trial.shared.taken_back:
        told = "the canary %s of %s was taken back: %s"
        log.warning(told, trial.canary, trial.profile, trial.shared.taken_back, extra={"fields": fields})
    else:
        told = "the canary %s of %s answers %.0f%% of the sessions now"
        log.info(told, trial.canary, trial.profile, trial.share * 100, extra={"fields": fields})
