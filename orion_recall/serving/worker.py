"""The path of one message: decode, recall, commit.

Whatever arrives, its entry ends with one reply and one decision. `bus/serve.py` brings the entries.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Protocol
from uuid import uuid4

from opentelemetry.trace import Tracer

from orion_recall.bus.addresses import ReplyRules
from orion_recall.bus.commit import Commit, Committed, Ending, ReplyAddress, commit_when_possible
from orion_recall.bus.envelope import Received, decode, encode
from orion_recall.bus.group_reader import Entry
from orion_recall.contracts import (
    DECISION_KIND,
    QUERY_KIND,
    REPLY_KIND,
    RecallQueryV1,
    ignored_fields,
    read_message,
    v1_decision,
)
from orion_recall.errors import ExpiredMessage, InvalidMessage, MessageError, RefusedMessage
from orion_recall.foreground import RECALLS
from orion_recall.profile import Profile
from orion_recall.profile.watch import LoadedProfile, ProfilesInUse
from orion_recall.recall.pipeline import recall
from orion_recall.recall.report.decision import RequestFacts, decision
from orion_recall.recall.report.query_text import KeptText
from orion_recall.recall.report.reply import ErrorKind, error_reply, reply, reply_json, why_failed
from orion_recall.recall.search.lane import narrowed
from orion_recall.recall.search.requests import scope_of
from orion_recall.recall.types import Recalled, Sources
from orion_recall.serving.shadows import Shadowed, shadow_for
from orion_recall.settings import Settings
from orion_recall.tasks import errors_logged
from orion_recall.telemetry import (
    ATTRIBUTE_COMMIT,
    ATTRIBUTE_OUTCOME,
    ATTRIBUTE_PROFILE,
    ATTRIBUTE_TENANT,
    LOG_WORKER,
    Continued,
    continue_trace,
)
from orion_recall.text.normal import storable
from orion_recall.values import OUTCOMES, Outcome

log = logging.getLogger(LOG_WORKER)

# What a reply needs after the last source has answered: fusing, ranking, rendering, the commit.
_RESERVE_S = 0.05
# How long a commit goes before work that nobody waits for; one that the bus does not take may wait for minutes.
_FIRST_COMMIT_S = 0.25


@dataclass(slots=True)
class Counters:
    """What this worker has done since it started."""

    outcomes: dict[Outcome, int] = field(default_factory=lambda: dict.fromkeys(OUTCOMES, 0))
    fenced: int = 0
    poison: int = 0
    unknown_fields: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answer:
    """What is to be said about one entry; `reply` is JSON. `searched` is the query as its lane narrowed it."""

    outcome: Outcome
    reply: bytes
    searched: RecallQueryV1 | None = None
    recalled: Recalled | None = None
    error: str | None = None
    dead_reason: str = ""
    recall_began_ns: int = 0
    shadow: LoadedProfile | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """What became of one entry. `recall_began_ns` is when the search began, by this machine's clock."""

    asked: RequestFacts
    outcome: Outcome
    commit: Committed
    seconds: float
    traced: Continued
    recalled: Recalled | None
    recall_began_ns: int


class Watch(Protocol):
    """Who looks on: gives the spans, if they are recorded, and is told of every entry once it is committed."""

    @property
    def tracer(self) -> Tracer | None: ...

    def served(self, served: Served) -> None: ...


class TakesShadows(Protocol):
    """Who recalls answered queries once more."""

    def note(self, one: Shadowed) -> None: ...


class Worker:
    """Answers queries.

    `server_time` is the clock of the bus: a ttl is counted on it. `used` is told what was returned, `watch` what
    became of every entry, and `shadows` which ones are to be recalled once more.
    """

    def __init__(
        self,
        settings: Settings,
        committer: Ending,
        sources: Sources,
        profiles: ProfilesInUse,
        *,
        server_time: Callable[[], float] = time.time,
        used: Callable[[str, Sequence[str]], None] | None = None,
        watch: Watch | None = None,
        shadows: TakesShadows | None = None,
    ) -> None:
        self.settings, self.counters = settings, Counters()
        self._committer, self._sources, self._profiles = committer, sources, profiles
        self._server_time, self._used, self._watch = server_time, used, watch
        self._tracer = watch.tracer if watch else None
        self._shadows = shadows
        self._rules, self._kept_text = ReplyRules.of(settings), KeptText.of(settings)
        self._source = {"name": "orion-recall", "node": settings.node, "instance": settings.instance}

    async def serve(self, entry: Entry) -> None:
        """One entry, from bytes to commit."""
        started = time.perf_counter()
        with RECALLS.taken() as release:
            received = decode(entry, kind=QUERY_KIND, max_bytes=self.settings.max_message_bytes)
            traced = continue_trace(received.trace, tracer=self._tracer)
            asked, address, answer = await self._answer(received, traced, started)
            releasing = asyncio.get_running_loop().call_later(_FIRST_COMMIT_S, release)
            try:
                result = await self._commit(received, traced, asked, address, answer, started)
                if result == "reply_not_writable":
                    answer = self._for_the_shared_stream(answer, address, received, asked, started)
                    result = await self._commit(received, traced, asked, self._rules.shared, answer, started)
            finally:
                releasing.cancel()
        self._count(answer, result)
        for follow_up in (
            partial(self._note_use, asked, answer, result),
            partial(self._note_shadow, received, traced, asked, answer, result),
            partial(self._tell, traced, asked, answer, result, started),
            partial(self._log, asked, answer, result, started),
        ):
            # An error here must not make the entry look as if it were pending.
            with errors_logged(f"entry {entry.id} is answered and acknowledged; what follows that failed"):
                follow_up()

    def _count(self, answer: _Answer, result: Committed) -> None:
        if result == "committed":
            self.counters.outcomes[answer.outcome] += 1
        else:
            self.counters.fenced += 1

    async def _answer(
        self, received: Received, traced: Continued, started: float
    ) -> tuple[RequestFacts, ReplyAddress, _Answer]:
        """What is to be said, to whom. Nothing gets past this: the unforeseen is a failure that is answered."""
        asked = self._asked(received, traced)
        profiles = self._profiles.current  # for the whole of this message, whatever is edited meanwhile
        address, refused = self._rules.resolve_or_shared(received.reply_to)
        try:
            if received.entry.deliveries > self.settings.max_deliveries:
                self.counters.poison += 1
                times = received.entry.deliveries - 1
                message = f"delivered {times} times without an answer: it may be what its workers died of"
                reason = f"poison: {message}"
                return asked, address, self._failure(message, received, asked, started, dead_reason=reason)
            if received.error is not None:
                raise received.error
            query = read_message(RecallQueryV1, received.payload, "payload")
            asked = self._profiled(replace(asked, query=query), profiles)
            profile = profiles[asked.profile].profile
            asked, query = self._in_lane(asked, query, profile, received)
            scope_of(query, profile, "")  # of several outcomes, invalid comes first
            self.settings.check_kinds(query.options.kinds if query.options else (), "payload.options.kinds")
            timeout_s = self._time_left(received)
            if refused is not None:
                raise refused
            answer = await self._recalled(query, asked, profiles, timeout_s, started)
            return asked, address, replace(answer, shadow=shadow_for(asked, profiles))
        except MessageError as error:
            return asked, address, self._refusal(error, received, asked, started)
        except Exception:  # the one place: an entry must be answered whatever happens
            fields = {"correlation_id": received.correlation_id, "trace_id": traced.trace_id}
            log.exception("a query failed", extra={"fields": fields})
            message = "an unexpected error; the worker's log has it under this correlation id"
            return asked, address, self._failure(message, received, asked, started)

    def _in_lane(
        self, asked: RequestFacts, query: RecallQueryV1, profile: Profile, received: Received
    ) -> tuple[RequestFacts, RecallQueryV1]:
        """With the count of what the message holds and is not used; and the query as its lane narrows it."""
        unused = received.unknown_fields + ignored_fields(received.payload)
        in_lane = narrowed(query, profile, self.settings.query_lane)
        unused += in_lane is None and query.lane is not None
        self.counters.unknown_fields += unused
        return replace(asked, unknown_fields=unused), in_lane or query

    def _time_left(self, received: Received) -> float:
        """Seconds for the search: the service's longest or the ttl left, less what a reply needs."""
        deadline_s = self.settings.deadline_ms / 1000
        if received.expires_at is not None:
            # Our reading of the server's clock may be a little behind; an entry has not come before its time.
            left_s = received.expires_at - max(self._server_time(), received.entry.added_at)
            if left_s <= 0:
                raise ExpiredMessage(f"the ttl of {received.ttl_ms} ms ran out {-left_s * 1000:.0f} ms ago")
            deadline_s = min(deadline_s, left_s)
        return max(deadline_s - _RESERVE_S, deadline_s / 2)

    async def _recalled(
        self,
        query: RecallQueryV1,
        asked: RequestFacts,
        profiles: Mapping[str, LoadedProfile],
        timeout_s: float,
        started: float,
    ) -> _Answer:
        tenant = asked.tenant or self.settings.default_tenant
        if not self.settings.serves(tenant):
            raise RefusedMessage(f"tenant {tenant!r} is not served here")
        began_ns = time.time_ns()
        recalled = await recall(
            query,
            profiles[asked.profile].profile,
            self._sources,
            tenant=tenant,
            timeout_s=timeout_s,
            profiles={name: loaded.profile for name, loaded in profiles.items()},
        )
        assert asked.query is not None
        answer = reply(
            asked.query,  # with a lane the other has options that nobody has sent
            recalled,
            latency_ms=_ms_since(started),
            profile=asked.profile,
            decision_id=asked.decision_id,
        )
        error = why_failed(recalled.reports) if recalled.outcome == "failed" else None
        return _Answer(
            outcome=recalled.outcome,
            reply=reply_json(answer),
            searched=query,
            recalled=recalled,
            error=error,
            recall_began_ns=began_ns,
        )

    def _asked(self, received: Received, traced: Continued) -> RequestFacts:
        return RequestFacts(
            decision_id=str(uuid4()),
            corr_id=storable(received.correlation_id),
            entry_id=received.entry.id,
            raw=received.payload,
            profile=self.settings.default_profile,
            unknown_fields=received.unknown_fields,
            deliveries=received.entry.deliveries,
            reply_to=received.reply_to,
            trace_id=traced.trace_id,
            worker=self.settings.instance,
        )

    def _profiled(self, asked: RequestFacts, profiles: Mapping[str, LoadedProfile]) -> RequestFacts:
        """With the tenant and the profile that will be used; an unknown profile falls back to the default one."""
        assert asked.query is not None
        options = asked.query.options
        requested = asked.query.profile
        name = requested if requested is not None and requested in profiles else self.settings.default_profile
        return replace(
            asked,
            tenant=(options.tenant if options else None) or self.settings.default_tenant,
            profile=name,
            profile_requested=requested,
            profile_hash=profiles[name].content_hash,
            profile_fallback=requested is not None and requested != name,
        )

    def _refusal(self, error: MessageError, received: Received, asked: RequestFacts, started: float) -> _Answer:
        outcome: ErrorKind = "invalid"
        if isinstance(error, ExpiredMessage):
            outcome = "expired"
        elif isinstance(error, RefusedMessage):
            outcome = "refused"
        message = self._kept_text.error(error)
        dead_reason = f"invalid: {message}" if isinstance(error, InvalidMessage) else ""
        reply = self._error(outcome, message, received, asked, started)
        return _Answer(outcome=outcome, reply=reply, error=message, dead_reason=dead_reason)

    def _failure(
        self, message: str, received: Received, asked: RequestFacts, started: float, *, dead_reason: str = ""
    ) -> _Answer:
        reply = self._error("failed", message, received, asked, started)
        return _Answer(outcome="failed", reply=reply, error=message, dead_reason=dead_reason)

    def _error(
        self, kind: ErrorKind, message: str, received: Received, asked: RequestFacts, started: float
    ) -> bytes:
        """The reply without an answer. To a sender without options, which may forbid it, no error is told."""
        return reply_json(
            error_reply(
                kind,
                message,
                latency_ms=_ms_since(started),
                profile=asked.profile,
                extended=received.has_options,
            )
        )

    def _for_the_shared_stream(
        self, answer: _Answer, address: ReplyAddress, received: Received, asked: RequestFacts, started: float
    ) -> _Answer:
        """That the reply's own address cannot be written to, unless there is worse to be said."""
        if answer.outcome in ("invalid", "expired"):
            return answer
        message = f"reply_to {address.name!r} cannot take a reply: it holds something else, or is closed to us"
        refused = self._refusal(RefusedMessage(message), received, asked, started)
        return replace(
            refused,
            recalled=answer.recalled,
            dead_reason=answer.dead_reason,
            recall_began_ns=answer.recall_began_ns,
        )

    async def _commit(
        self,
        received: Received,
        traced: Continued,
        asked: RequestFacts,
        address: ReplyAddress,
        answer: _Answer,
        started: float,
    ) -> Committed:
        decided = decision(
            asked,
            outcome=answer.outcome,
            latency_ms=_ms_since(started),
            recalled=answer.recalled,
            error=answer.error,
            kept_text=self._kept_text,
        )

        envelope = partial(self._envelope, received, traced)
        published = b""
        if self.settings.decision_channels:
            published = envelope(DECISION_KIND, asked.corr_id, json.dumps(v1_decision(decided)).encode())
        commit = Commit(
            entry_id=received.entry.id,
            address=address,
            reply=envelope(REPLY_KIND, received.correlation_id, answer.reply),
            decision=envelope(DECISION_KIND, asked.corr_id, decided.model_dump_json().encode()),
            published=published,
            dead_reason=answer.dead_reason[:2000],
            correlation_id=received.correlation_id,
            keep_message=self._kept_text.is_full,
        )
        return await commit_when_possible(self._committer, commit)

    def _envelope(
        self, received: Received, traced: Continued, kind: str, correlation_id: str, payload: bytes
    ) -> bytes:
        return encode(
            kind,
            payload,
            correlation_id=correlation_id,
            source=self._source,
            trace=traced.trace,
            causality_chain=received.onward_chain,
        )

    def _tell(
        self, traced: Continued, asked: RequestFacts, answer: _Answer, result: Committed, started: float
    ) -> None:
        """End the span; tell who looks on. The answer has gone out before."""
        traced.span.set_attributes(
            {
                ATTRIBUTE_OUTCOME: answer.outcome,
                ATTRIBUTE_PROFILE: asked.profile,
                ATTRIBUTE_TENANT: asked.tenant or "",
                ATTRIBUTE_COMMIT: result,
            }
        )
        if self._watch is not None:
            self._watch.served(
                Served(
                    asked=asked,
                    outcome=answer.outcome,
                    commit=result,
                    seconds=time.perf_counter() - started,
                    traced=traced,
                    recalled=answer.recalled,
                    recall_began_ns=answer.recall_began_ns,
                )
            )
        traced.span.end()

    def _note_use(self, asked: RequestFacts, answer: _Answer, result: Committed) -> None:
        if result != "committed" or answer.outcome == "refused" or answer.recalled is None or asked.tenant is None:
            return
        options = asked.query.options if asked.query else None
        if options is not None and options.include is not None and options.include.trace:
            return  # it was asked why memories are found: a look at them, not a use
        if self._used is not None:
            self._used(asked.tenant, [item.scored.memory.id for item in answer.recalled.selection.items])

    def _note_shadow(
        self, received: Received, traced: Continued, asked: RequestFacts, answer: _Answer, result: Committed
    ) -> None:
        if self._shadows is None or answer.shadow is None or answer.outcome == "refused" or result != "committed":
            return
        recalled, query = answer.recalled, answer.searched
        if recalled is None or recalled.understood is None or query is None:
            return
        self._shadows.note(
            Shadowed(
                first=asked,
                query=query,
                tenant=recalled.scope.tenant,
                profile=answer.shadow,
                profiles=self._profiles.current,
                now=recalled.understood.question.now,
                sealed=partial(self._envelope, received, traced, DECISION_KIND, asked.corr_id),
            )
        )

    def _log(self, asked: RequestFacts, answer: _Answer, result: Committed, started: float) -> None:
        if not log.isEnabledFor(logging.INFO):
            return
        recalled = answer.recalled
        fields: dict[str, object] = {
            "correlation_id": asked.corr_id[:200],
            "trace_id": asked.trace_id,
            "session_id": asked.query.session_id if asked.query else None,
            "profile": asked.profile,
            "outcome": answer.outcome,
            "commit": result,
            "latency_ms": _ms_since(started),
            "results": len(recalled.selection.items) if recalled else 0,
            "scores": [item.scored.score for item in recalled.selection.items] if recalled else [],
        }
        if self.settings.content_capture and asked.query:
            fields["query"] = asked.query.fragment[:1000]
        log.info("recall", extra={"fields": fields})


def _ms_since(started: float) -> float:
    return round((time.perf_counter() - started) * 1000, 3)
