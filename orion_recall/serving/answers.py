"""Answers to queries: the reply of a recall, or an error reply."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from orion_recall.bus.delivery import Deliveries, Delivery
from orion_recall.bus.envelope import Received
from orion_recall.bus.signing.callers import tenant_of
from orion_recall.contracts import RecallQueryV1, ignored_fields, read_message
from orion_recall.errors import (
    ErrorKind,
    ExpiredMessage,
    InvalidMessage,
    MessageError,
    Overloaded,
    RefusedMessage,
)
from orion_recall.profile.watch import LoadedProfile
from orion_recall.recall.pipeline import recall
from orion_recall.recall.report.asked import KeptText
from orion_recall.recall.report.decision import RequestFacts, candidates_to_keep
from orion_recall.recall.report.reply import error_reply, reply, reply_json, why_failed
from orion_recall.recall.search.requests import narrowed, scope_of
from orion_recall.recall.types import Recalled, Sources
from orion_recall.serving.trials import canary_for, shadow_for
from orion_recall.settings import Settings
from orion_recall.values import OUTCOMES, Outcome

# What a reply needs after the last source has answered: fusing, ranking, rendering, the commit.
_RESERVE_S = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryAnswer:
    """An answer: the reply as JSON, and facts for the decision. `searched` is the query as its lane narrowed it."""

    outcome: Outcome
    reply: bytes
    error: str | None = None
    dead_reason: str = ""
    searched: RecallQueryV1 | None = None
    recalled: Recalled | None = None
    recall_began_ns: int = 0
    shadow: LoadedProfile | None = None


@dataclass(slots=True, kw_only=True)
class QueryRequest:
    """The state of one query: its delivery, the profiles it is served with, its facts and answer.

    `facts` grow as the query is read. `profiles` stay the same for the request, whatever is edited meanwhile.
    """

    delivery: Delivery
    profiles: Mapping[str, LoadedProfile]
    facts: RequestFacts
    answer: QueryAnswer = field(init=False)


@dataclass(slots=True)
class Counters:
    """Counters of this worker since its start. `fenced` counts commits refused as stale."""

    outcomes: dict[Outcome, int] = field(default_factory=lambda: dict.fromkeys(OUTCOMES, 0))
    fenced: int = 0
    poison: int = 0


def searched_s(deadline_s: float) -> float:
    return max(deadline_s - _RESERVE_S, deadline_s / 2)


class Answers:
    """Answers queries; of several errors in one query, the first is replied."""

    def __init__(
        self,
        settings: Settings,
        sources: Sources,
        deliveries: Deliveries,
        kept_text: KeptText,
    ) -> None:
        self._settings, self._sources, self._deliveries = settings, sources, deliveries
        self._kept_text = kept_text

    async def recall(self, request: QueryRequest, overloaded: Overloaded | None = None) -> QueryAnswer:
        """The query read and recalled; MessageError when it cannot be served. `overloaded`: it is turned away."""
        delivery = request.delivery
        if delivery.received.error is not None:
            raise delivery.received.error
        query = self._read(request)
        timeout_s = self._search_timeout_s(delivery)
        if delivery.refused is not None:
            raise delivery.refused
        if overloaded is not None:
            raise overloaded
        return await self._recall(request, query, timeout_s)

    def refusal(self, request: QueryRequest, error: MessageError) -> QueryAnswer:
        """The answer for a query that cannot be served; what is invalid becomes a dead letter."""
        message = self._kept_text.error(error)
        dead_reason = f"invalid: {message}" if isinstance(error, InvalidMessage) else ""
        retry_after_ms = error.retry_after_ms if isinstance(error, Overloaded) else None
        return self.error(request, error.outcome, message, dead_reason=dead_reason, retry_after_ms=retry_after_ms)

    def error(
        self,
        request: QueryRequest,
        kind: ErrorKind,
        message: str,
        *,
        dead_reason: str = "",
        retry_after_ms: int | None = None,
    ) -> QueryAnswer:
        """An answer without memories. Senders without options get no error: their readers may forbid the field."""
        told = error_reply(
            kind,
            message,
            latency_ms=request.delivery.elapsed_ms,
            profile=request.facts.profile,
            extended=request.delivery.received.has_options,
            retry_after_ms=retry_after_ms,
        )
        return QueryAnswer(outcome=kind, reply=told, error=message, dead_reason=dead_reason)

    def address_refused(self, request: QueryRequest) -> QueryAnswer:
        """The answer once its reply address could not be written: the reason, beside what was recalled."""
        name, answer = request.delivery.address.name, request.answer
        error = RefusedMessage(
            f"reply_to {name!r} cannot take a reply: it holds something else, or is closed to us"
        )
        return replace(
            self.refusal(request, error),
            recalled=answer.recalled,
            dead_reason=answer.dead_reason,
            recall_began_ns=answer.recall_began_ns,
        )

    def _read(self, request: QueryRequest) -> RecallQueryV1:
        received = request.delivery.received
        query = read_message(RecallQueryV1, received.payload, "payload")
        unused = received.unknown_fields + ignored_fields(received.payload)
        request.facts = self._facts(request, query, tenant=self._tenant(query, received), unused=unused)
        profile = request.profiles[request.facts.profile].profile
        in_lane = narrowed(query, profile, self._settings.query_lane)
        if in_lane is None and query.lane is not None:
            unused += 1
            request.facts = replace(request.facts, unknown_fields=unused)
        query = in_lane or query
        scope_of(query, profile, "")  # raises for a scope that is incomplete
        self._settings.check_kinds(query.options.kinds if query.options else (), "payload.options.kinds")
        return query

    def _tenant(self, query: RecallQueryV1, received: Received) -> str:
        named = query.options.tenant if query.options else None
        return tenant_of(named, received.caller, self._settings.default_tenant)

    def _facts(self, request: QueryRequest, query: RecallQueryV1, *, tenant: str, unused: int) -> RequestFacts:
        facts, profiles, requested = request.facts, request.profiles, query.profile
        name = requested if requested is not None and requested in profiles else self._settings.default_profile
        is_fallback = requested is not None and requested != name
        canary = canary_for(name, profiles, query, tenant=tenant, corr_id=facts.corr_id)
        name = canary.canary if canary is not None and canary.variant == "canary" else name
        options = query.options
        is_traced = options is not None and options.include is not None and options.include.trace
        return replace(
            facts,
            query=query,
            tenant=tenant,
            unknown_fields=unused,
            candidates=candidates_to_keep(profiles[name].profile, facts.corr_id, is_traced=is_traced),
            profile=name,
            profile_requested=requested,
            profile_hash=profiles[name].content_hash,
            profile_fallback=is_fallback,
            canary=canary,
        )

    def _search_timeout_s(self, delivery: Delivery) -> float:
        left_s = self._deliveries.time_left_s(delivery)
        if left_s <= 0:
            raise ExpiredMessage(f"the ttl of {delivery.received.ttl_ms} ms ran out {-left_s * 1000:.0f} ms ago")
        return min(self._full_timeout_s, searched_s(left_s))

    @property
    def _full_timeout_s(self) -> float:
        return searched_s(self._settings.deadline_ms / 1000)

    async def _recall(self, request: QueryRequest, query: RecallQueryV1, timeout_s: float) -> QueryAnswer:
        facts = request.facts
        tenant = facts.tenant or self._settings.default_tenant
        if not self._settings.serves(tenant):
            raise RefusedMessage(f"tenant {tenant!r} is not served here: ORION_TENANTS lists those that are")
        began_ns = time.time_ns()
        recalled = await recall(
            query,
            request.profiles[facts.profile].profile,
            self._sources,
            tenant=tenant,
            now=self._deliveries.now(),
            timeout_s=timeout_s,
            full_timeout_s=self._full_timeout_s,
        )
        assert facts.query is not None
        answer = reply(
            facts.query,  # as it was sent: its lane may have added options
            recalled,
            latency_ms=request.delivery.elapsed_ms,
            profile=facts.profile,
            decision_id=facts.decision_id,
        )
        return QueryAnswer(
            outcome=recalled.outcome,
            reply=reply_json(answer),
            error=why_failed(recalled.reports) if recalled.outcome == "failed" else None,
            searched=query,
            recalled=recalled,
            recall_began_ns=began_ns,
            shadow=shadow_for(facts, request.profiles),
        )
