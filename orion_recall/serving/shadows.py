"""Some queries once more, by another profile, after they have been answered: only a decision comes of it.

Which ones is decided by their correlation ids, so every worker, and a query that is sent again, decides alike. At
most so many run at once as the settings say; what comes while others wait is left out, and counted.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from uuid import uuid4

from redis.asyncio import Redis

from orion_recall.contracts import RecallQueryV1
from orion_recall.errors import MessageError
from orion_recall.profile.watch import LoadedProfile
from orion_recall.recall.pipeline import recall
from orion_recall.recall.report.decision import RequestFacts, decision
from orion_recall.recall.report.query_text import KeptText
from orion_recall.recall.types import Sources
from orion_recall.settings import Settings
from orion_recall.tasks import cancel, outcomes
from orion_recall.telemetry import LOG_WORKER
from orion_recall.text.normal import number_of

log = logging.getLogger(LOG_WORKER)

_MOST_WAITING = 32
_WHOLE = float(1 << 63)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shadowed:
    """A query that was answered, to be recalled by `profile` as it was at `now`; `sealed` makes a message of a
    decision. `profiles` are those that layers of its cascade may name.
    """

    first: RequestFacts
    query: RecallQueryV1
    tenant: str
    profile: LoadedProfile
    now: float
    sealed: Callable[[bytes], bytes]
    profiles: Mapping[str, LoadedProfile] = field(default_factory=dict[str, LoadedProfile])


def shadow_for(asked: RequestFacts, profiles: Mapping[str, LoadedProfile]) -> LoadedProfile | None:
    """The profile that is to recall the query as well; None for most."""
    shadow = profiles[asked.profile].profile.shadow
    if shadow.profile is None or number_of("shadow", asked.corr_id) >= shadow.share * _WHOLE:
        return None
    return profiles.get(shadow.profile)


class Shadows:
    """Takes answered queries, and recalls them while `run` runs. `send` puts a message on the decision stream."""

    def __init__(self, settings: Settings, sources: Sources, send: Callable[[bytes], Awaitable[None]]) -> None:
        self.done = self.failed = self.left_out = 0
        self._settings, self._sources, self._send = settings, sources, send
        self._kept_text = KeptText.of(settings)
        self._waiting: asyncio.Queue[Shadowed] = asyncio.Queue(_MOST_WAITING)

    def note(self, one: Shadowed) -> None:
        """One more, unless too many wait already."""
        if self._settings.shadows_at_once == 0 or self._waiting.full():
            self.left_out += 1
            return
        self._waiting.put_nowait(one)

    async def run(self) -> None:
        """Recall until cancelled; what waits then is left out."""
        workers = [asyncio.create_task(self._work()) for _ in range(self._settings.shadows_at_once)]
        try:
            await asyncio.gather(asyncio.Event().wait(), *workers)
        finally:
            await cancel(*workers)

    async def _work(self) -> None:
        while True:
            one = await self._waiting.get()
            # Whatever is wrong with the other profile is its own affair: the answer has gone out.
            (error,) = await outcomes("a shadow recall failed", self._recall(one))
            if error is not None:
                self.failed += 1
                fields = {"correlation_id": one.first.corr_id[:200], "profile": one.profile.profile.profile}
                why = self._kept_text.error(error) if isinstance(error, MessageError) else type(error).__name__
                log.warning("a shadow recall failed: %s", why, extra={"fields": fields})
            else:
                self.done += 1

    async def _recall(self, one: Shadowed) -> None:
        started = time.perf_counter()
        timeout_s = self._settings.deadline_ms / 1000
        recalled = await recall(
            one.query,
            one.profile.profile,
            self._sources,
            tenant=one.tenant,
            now=one.now,
            timeout_s=timeout_s,
            profiles={name: loaded.profile for name, loaded in one.profiles.items()},
        )
        asked = replace(
            one.first,
            decision_id=str(uuid4()),
            profile=one.profile.profile.profile,
            profile_hash=one.profile.content_hash,
            profile_fallback=False,
            reply_to=None,
            shadow_of=one.first.decision_id,
        )
        latency_ms = round((time.perf_counter() - started) * 1000, 3)
        decided = decision(
            asked, outcome=recalled.outcome, latency_ms=latency_ms, recalled=recalled, kept_text=self._kept_text
        )
        await self._send(one.sealed(decided.model_dump_json().encode()))


def to_decisions(redis: Redis, settings: Settings) -> Callable[[bytes], Awaitable[None]]:
    """Puts messages on the decision stream while there is room: nothing else is to go for them."""

    async def send(message: bytes) -> None:
        if await redis.xlen(settings.decision_stream) < settings.decisions_cap:
            await redis.xadd(settings.decision_stream, {"envelope": message})

    return send
