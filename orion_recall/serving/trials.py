"""Trials of another profile, on a share of the queries. `decisions compare` compares its answers.

A canary answers a share of the sessions, a shadow recalls a share of the queries again, for a decision only. A hash
decides which ones, so every worker decides alike.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import NamedTuple

from redis.asyncio import Redis

from orion_recall.contracts import RecallQueryV1
from orion_recall.contracts.recall import CanaryV1
from orion_recall.errors import MessageError
from orion_recall.profile.watch import LoadedProfile
from orion_recall.recall.pipeline import recall
from orion_recall.recall.report.asked import KeptText
from orion_recall.recall.report.decision import RequestFacts, candidates_to_keep, decision
from orion_recall.recall.types import Sources
from orion_recall.settings import Settings
from orion_recall.tasks import cancel, outcomes
from orion_recall.telemetry import LOG_WORKER
from orion_recall.text.ids import new_id
from orion_recall.text.normal import number_of

log = logging.getLogger(LOG_WORKER)

_MOST_WAITING = 32
_WHOLE = float(1 << 63)


def canary_for(
    name: str, profiles: Mapping[str, LoadedProfile], query: RecallQueryV1, *, tenant: str, corr_id: str
) -> CanaryV1 | None:
    """Which profile answers a query for the profile `name`; None where that has no canary.

    A user's queries stay with one profile, without a user a session's; else each query is drawn by itself.
    """
    control = profiles[name]
    given = control.profile.canary
    canary = profiles.get(given.profile or "")
    if canary is None or given.profile is None:
        return None
    unit = (query.options.user if query.options else None) or query.session_id or corr_id
    is_drawn = number_of(f"canary {name} {tenant}", unit) < given.share * _WHOLE
    contents = "\x1f".join((name, control.content_hash, given.profile, canary.content_hash))
    return CanaryV1(
        trial=hashlib.sha256(contents.encode()).hexdigest()[:16],
        profile=name,
        canary=given.profile,
        variant="canary" if is_drawn else "control",
        share=given.share,
    )


def shadow_for(facts: RequestFacts, profiles: Mapping[str, LoadedProfile]) -> LoadedProfile | None:
    """The profile that recalls the query a second time; None for most queries."""
    shadow = profiles[facts.profile].profile.shadow
    if shadow.profile is None or number_of("shadow", facts.corr_id) >= shadow.share * _WHOLE:
        return None
    return profiles.get(shadow.profile)


class ShadowTask(NamedTuple):
    """An answered query, to be recalled again by `profile` as of `now`."""

    facts: RequestFacts
    query: RecallQueryV1
    tenant: str
    profile: LoadedProfile
    now: float
    envelope: Callable[[bytes], bytes]


class Shadows:
    """The queue of shadow recalls, served by `run`; what finds it full is left out. `send` sends a decision."""

    def __init__(
        self,
        settings: Settings,
        sources: Sources,
        send: Callable[[bytes], Awaitable[None]],
        now: Callable[[], float] = time.time,
    ) -> None:
        self.done = self.failed = self.left_out = 0
        self._settings, self._sources, self._send, self._now = settings, sources, send, now
        self._kept_text = KeptText.of(settings)
        self._waiting: asyncio.Queue[ShadowTask] = asyncio.Queue(_MOST_WAITING)

    def add(self, task: ShadowTask) -> None:
        if self._settings.shadows_at_once == 0 or self._waiting.full():
            self.left_out += 1
            return
        self._waiting.put_nowait(task)

    async def run(self) -> None:
        """Recall until cancelled; what waits then is dropped."""
        workers = [asyncio.create_task(self._work()) for _ in range(self._settings.shadows_at_once)]
        try:
            await asyncio.gather(asyncio.Event().wait(), *workers)
        finally:
            await cancel(*workers)

    async def _work(self) -> None:
        while True:
            task = await self._waiting.get()
            # An error of the other profile concerns nobody else: the reply has gone out.
            (error,) = await outcomes("a shadow recall failed", self._recall(task))
            if error is not None:
                self.failed += 1
                fields = {"correlation_id": task.facts.corr_id[:200], "profile": task.profile.profile.profile}
                why = self._kept_text.error(error) if isinstance(error, MessageError) else type(error).__name__
                log.warning("a shadow recall failed: %s", why, extra={"fields": fields})
            else:
                self.done += 1

    async def _recall(self, task: ShadowTask) -> None:
        started, profile = time.perf_counter(), task.profile.profile
        timeout_s = self._settings.deadline_ms / 1000
        recalled = await recall(
            task.query, profile, self._sources, tenant=task.tenant, now=task.now, timeout_s=timeout_s
        )
        facts = replace(
            task.facts,
            decision_id=new_id(),
            candidates=candidates_to_keep(profile, task.facts.corr_id, is_traced=False),
            profile=profile.profile,
            profile_hash=task.profile.content_hash,
            profile_fallback=False,
            reply_to=None,
            shadow_of=task.facts.decision_id,
            canary=None,
        )
        decided = decision(
            facts,
            outcome=recalled.outcome,
            latency_ms=round((time.perf_counter() - started) * 1000, 3),
            recalled=recalled,
            created_at=datetime.fromtimestamp(self._now(), UTC),
            kept_text=self._kept_text,
        )
        await self._send(task.envelope(decided.model_dump_json().encode()))


def to_decisions(redis: Redis, settings: Settings) -> Callable[[bytes], Awaitable[None]]:
    """A sender to the decision stream that drops messages once the stream is full: real decisions go first."""

    async def send(message: bytes) -> None:
        if await redis.xlen(settings.decision_stream) < settings.decisions_cap:
            await redis.xadd(settings.decision_stream, {"envelope": message})

    return send
