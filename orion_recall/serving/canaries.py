"""Canaries: a share of the sessions is answered by another profile, until it is taken back or answers all.

Whose sessions is decided by a hash: every worker decides alike, and a session that belongs to a step belongs to
all later ones. Each worker judges by the answers that it gave itself, with the measures of
`decisions.comparison`. Steps and canaries taken back are shared over the bus; while the bus does not tell them, a
worker goes by its own.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, cast

from redis.asyncio import Redis
from redis.exceptions import RedisError

from orion_recall.bus.connect import BUS_AWAY
from orion_recall.contracts import CanaryV1, RecallQueryV1
from orion_recall.decisions.comparison import RECALLED, Answer, Compared, Pair, compared
from orion_recall.errors import BusUnavailable
from orion_recall.profile.sections import Canary, CanaryGates
from orion_recall.profile.watch import LoadedProfile, ProfilesInUse
from orion_recall.settings import Settings
from orion_recall.telemetry import LOG_WORKER
from orion_recall.text.normal import number_of

log = logging.getLogger(LOG_WORKER)

_EVERY_S = 2.0
_WHOLE = float(1 << 63)
# A trial that nobody looks at any more is forgotten; while workers run, each write begins it anew.
_LIFE_S = 400 * 24 * 3600
_MOST_ANSWERS = 5000
_Key = tuple[str, str, str]
TrialChange = Literal["taken back", "next step"]


@dataclass(slots=True)
class StepAnswers:
    """The answers of one profile in one step: how many, and the latest 5,000 of them."""

    queries: int = 0
    latest: deque[Answer] = field(default_factory=lambda: deque[Answer](maxlen=_MOST_ANSWERS))

    def add(self, answer: Answer) -> None:
        """Count one answer; one that was not recalled is left out."""
        if answer.outcome in RECALLED:
            self.queries += 1
            self.latest.append(answer)


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedTrial:
    """What all workers know of a trial. `step` counts from 0, `began` is in epoch seconds."""

    step: int
    began: float
    taken_back: str | None = None


@dataclass(slots=True, kw_only=True)
class CanaryTrial:
    """A trial on this worker. `shared` is what it has in common with other workers, the answers are its own.

    The id is made of the names and contents of both profiles: an edit of either begins another trial.
    """

    id: str
    profile: str
    canary: str
    settings: Canary
    shared: SharedTrial
    of_canary: StepAnswers = field(default_factory=StepAnswers)
    of_control: StepAnswers = field(default_factory=StepAnswers)
    before: StepAnswers | None = None
    _judged: tuple[int, int] = (0, 0)

    @classmethod
    def of(cls, control: LoadedProfile, canary: LoadedProfile, now: float) -> CanaryTrial:
        """The trial of a profile's canary, at its first step."""
        profile = control.profile
        named = (profile.profile, control.content_hash, canary.profile.profile, canary.content_hash)
        return cls(
            id=hashlib.sha256("\x1f".join(named).encode()).hexdigest()[:16],
            profile=profile.profile,
            canary=canary.profile.profile,
            settings=profile.canary,
            shared=SharedTrial(step=0, began=now),
        )

    @property
    def share(self) -> float:
        """The share of the sessions that the canary answers now."""
        return 0.0 if self.shared.taken_back else self.settings.steps[self.shared.step]

    @property
    def control(self) -> StepAnswers:
        """The control's answers: those of the step, or of the one before where the step has too few."""
        if self.before is not None and self.of_control.queries < self.settings.min_queries:
            return self.before
        return self.of_control

    def judge(self, now: float) -> TrialChange | None:
        """Take the canary back or begin its next step, as its answers say; None where nothing changes."""
        least = self.settings.min_queries
        if self.shared.taken_back or min(self.of_canary.queries, self.control.queries) < least:
            return None
        if (counts := (self.of_canary.queries, self.control.queries)) != self._judged:
            self._judged = counts
            pairs = [Pair(before=one, after=None) for one in self.control.latest]
            pairs += [Pair(before=None, after=one) for one in self.of_canary.latest]
            if (why := failed_gate(self.settings.gates, compared(pairs, 1))) is not None:
                self.adopt(SharedTrial(step=self.shared.step, began=self.shared.began, taken_back=why))
                return "taken back"
        is_over = now - self.shared.began >= self.settings.step_minutes * 60
        if is_over and self.shared.step + 1 < len(self.settings.steps):
            self.adopt(SharedTrial(step=self.shared.step + 1, began=now))
            return "next step"
        return None

    def adopt(self, shared: SharedTrial) -> None:
        """Go on from there. Answers begin anew with a step; a canary that was taken back stays so."""
        if self.shared.taken_back:
            return
        step = min(max(shared.step, 0), len(self.settings.steps) - 1)
        if step != self.shared.step:
            self.before, self.of_control, self.of_canary = self.control, StepAnswers(), StepAnswers()
            self._judged = (0, 0)
        self.shared = SharedTrial(step=step, began=shared.began, taken_back=shared.taken_back)


def failed_gate(gates: CanaryGates, between: Compared) -> str | None:
    """The gate that the canary (`after`) fails against the control, in words; None while it fails none."""
    for name, words, most in (
        ("degraded", "degraded or failed", ("errors", gates.errors)),
        ("empty", "empty", ("empty", gates.empty)),
        ("unsure", "unsure", ("unsure", gates.unsure)),
    ):
        level = between.levels[name]
        if level.after > level.before + most[1]:
            return f"{words} {level.after:.3f}, control {level.before:.3f}, gate {most[0]} {most[1]:g}"
    control_ms, canary_ms = between.p95_ms
    if canary_ms > control_ms * gates.latency_ratio:
        told = f"p95 {canary_ms:.1f} ms, control {control_ms:.1f} ms"
        return f"{told}, gate latency_ratio {gates.latency_ratio:g}"
    return None


class SharesTrials(Protocol):
    """Shares trials among workers. BusUnavailable: a trial cannot be read now. Writing raises nothing."""

    async def read(self, trial_id: str) -> SharedTrial | None: ...
    async def write(self, trial_id: str, shared: SharedTrial) -> None: ...


class TrialsOnBus:
    """Shared trials as hashes on the bus that all workers read. While the bus is away nothing is written."""

    def __init__(self, redis: Redis, settings: Settings) -> None:
        self._redis, self._settings = redis, settings

    async def read(self, trial_id: str) -> SharedTrial | None:
        """The trial; None when nobody has written it. BusUnavailable when it cannot be read."""
        try:
            raw = await cast("Any", self._redis).hgetall(self._settings.canary_key(trial_id))
            if not raw:
                return None
            return SharedTrial(
                step=int(raw[b"step"]),
                began=float(raw[b"began"]),
                taken_back=raw.get(b"taken_back", b"").decode("utf-8", "replace") or None,
            )
        except (*BUS_AWAY, RedisError, KeyError, ValueError) as error:
            raise BusUnavailable(f"the canary trial {trial_id} cannot be read: {error}") from error

    async def write(self, trial_id: str, shared: SharedTrial) -> None:
        """Write the trial as it is now."""
        key = self._settings.canary_key(trial_id)
        fields: dict[Any, Any] = {"step": shared.step, "began": shared.began}
        if shared.taken_back:
            fields["taken_back"] = shared.taken_back
        try:
            async with self._redis.pipeline(transaction=True) as pipeline:
                pipeline.hset(key, mapping=fields)
                pipeline.expire(key, _LIFE_S)
                await pipeline.execute()
        except (*BUS_AWAY, RedisError) as error:
            log.debug("the canary trial %s is not written: %s", trial_id, error)


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

    def record(self, canary: CanaryV1, answer: Answer) -> None:
        """Count an answer of either profile; one that was drawn in an earlier step is left out."""
        trial = next((one for one in self._trials.values() if one.id == canary.trial), None)
        if trial is not None and trial.shared.step + 1 == canary.step:
            (trial.of_canary if canary.variant == "canary" else trial.of_control).add(answer)

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
            trial = self._trials[key] = CanaryTrial.of(profiles[name], profiles[canary], self._now())
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
