"""The query worker: decodes a query, answers it, and commits reply and decision.

Every entry ends with one reply and one decision, whatever it holds. `bus/consumer_loop.py` brings the entries.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial

from opentelemetry.trace import Tracer

from orion_recall import telemetry as t
from orion_recall.bus.commit import Commit, CommitPort, Committed, ReplyAddress
from orion_recall.bus.consumer_loop import Turned
from orion_recall.bus.delivery import Deliveries, Delivery
from orion_recall.bus.group_reader import Entry
from orion_recall.bus.signing.callers import Callers, tenant_of
from orion_recall.contracts import DECISION_KIND, QUERY_KIND, REPLY_KIND, RecallQueryV1, read_message
from orion_recall.contracts.recall import ignored_fields, v1_decision
from orion_recall.errors import ErrorKind, ExpiredMessage, InvalidMessage, MessageError, Overloaded, RefusedMessage
from orion_recall.foreground import FOREGROUND
from orion_recall.profile.watch import LoadedProfile, ProfilesInUse
from orion_recall.recall.pipeline import Recalled, recall
from orion_recall.recall.report.asked import KeptText
from orion_recall.recall.report.decision import RequestFacts, candidates_to_keep, decision
from orion_recall.recall.report.reply import error_reply, reply, reply_json, why_failed
from orion_recall.recall.search.requests import narrowed, scope_of
from orion_recall.recall.types import Sources
from orion_recall.serving.trials import ShadowTask, canary_for, shadow_for
from orion_recall.settings import Settings
from orion_recall.tasks import errors_logged
from orion_recall.text.ids import new_id
from orion_recall.text.normal import memory_key, storable
from orion_recall.values import Outcome

log = logging.getLogger(t.LOG_WORKER)

# How long a commit has priority over background work: one that the bus does not take may wait for minutes.
_FIRST_COMMIT_S = 0.25
# So many take three milliseconds.
_REFUSED_AT_ONCE = 16
# What a reply needs after the last source has answered: fusing, ranking, rendering, the commit.
_RESERVE_S = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryAnswer:
    """An answer: the reply as JSON, and facts for the decision. `searched` is the query as its lane narrowed it.

    `recall_began_ns` is when the search began, by this machine's clock.
    """

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
    """One query. `facts` grow as it is read; `profiles` stay the same, whatever is edited meanwhile."""

    delivery: Delivery
    profiles: Mapping[str, LoadedProfile]
    facts: RequestFacts
    answer: QueryAnswer = field(init=False)


def _searched_s(deadline_s: float) -> float:
    return max(deadline_s - _RESERVE_S, deadline_s / 2)


def _is_traced(query: RecallQueryV1) -> bool:
    return query.options is not None and query.options.include is not None and query.options.include.trace


class Worker:
    """Answers queries.

    `used` hears which memories were returned, `served` what became of every entry, and `shadow` takes the queries
    that another profile is to recall as well. With `callers` only signed queries are answered. `build` is what
    decisions say of this worker's version and model. `counts` are of answers by outcome, of commits that were stale
    (`fenced`), and of entries that were delivered too often (`poison`).
    """

    def __init__(
        self,
        settings: Settings,
        committer: CommitPort,
        sources: Sources,
        profiles: ProfilesInUse,
        *,
        server_time: Callable[[], float] = time.time,
        used: Callable[[str, Sequence[str]], None] | None = None,
        tracer: Tracer | None = None,
        served: Callable[[QueryRequest, Committed], None] | None = None,
        shadow: Callable[[ShadowTask], None] | None = None,
        callers: Callers | None = None,
        build: Callable[[], Mapping[str, str] | None] = lambda: None,
    ) -> None:
        self.settings, self.counts = settings, Counter[str]()
        self._profiles, self._kept_text, self._build = profiles, KeptText.of(settings), build
        self._used, self._served, self._shadow = used, served, shadow
        # What a reply needs after the last source has answered is kept back.
        self._full_timeout_s = _searched_s(settings.deadline_ms / 1000)
        self._deliveries = Deliveries(
            settings, committer, kind=QUERY_KIND, server_time=server_time, tracer=tracer, callers=callers
        )
        self._sources = sources

    async def turn_away(self, turned: Sequence[Turned]) -> None:
        """Answer entries that they cannot be served in time; what is invalid or expired is answered as that.

        Each step is done for sixteen of them before the next one, which costs less, and then recalls have a turn.
        """
        async with asyncio.TaskGroup() as commits:
            for start in range(0, len(turned), _REFUSED_AT_ONCE):
                some = turned[start : start + _REFUSED_AT_ONCE]
                requests = [await self._opened(one.entry) for one in some]
                for request, one in zip(requests, some, strict=True):
                    request.answer = await self._answer(request, one.error)
                for request in requests:
                    commits.create_task(self._commit_refusal(request))
                await asyncio.sleep(0)

    async def _commit_refusal(self, request: QueryRequest) -> None:
        with errors_logged(f"entry {request.facts.entry_id} stays pending: its refusal could not be written"):
            result = await self._deliveries.commit(request.delivery, partial(self._commit_to, request))
            self._follow_up(request, result, is_logged=False)  # a line for each costs what is short

    async def serve(self, entry: Entry) -> None:
        with FOREGROUND.active() as release:
            request = await self._opened(entry)
            request.answer = await self._answer(request)
            releasing = asyncio.get_running_loop().call_later(_FIRST_COMMIT_S, release)
            try:
                result = await self._deliveries.commit(request.delivery, partial(self._commit_to, request))
            finally:
                releasing.cancel()
        self._follow_up(request, result)

    def _follow_up(self, request: QueryRequest, result: Committed, *, is_logged: bool = True) -> None:
        self.counts[request.answer.outcome if result == "committed" else "fenced"] += 1
        entry = request.delivery.received.entry
        follow_ups = (self._note_use, self._start_shadow, self._observe, self._log)
        for follow_up in follow_ups if is_logged else follow_ups[:-1]:
            # An error here must not make the entry look as if it were pending.
            with errors_logged(f"entry {entry.id} is answered and acknowledged; what follows that failed"):
                follow_up(request, result)

    async def _opened(self, entry: Entry) -> QueryRequest:
        delivery = await self._deliveries.open(entry)
        received = delivery.received
        facts = RequestFacts(
            decision_id=new_id(),
            corr_id=storable(received.correlation_id),
            entry_id=received.entry.id,
            raw=received.payload,
            profile=self.settings.default_profile,
            unknown_fields=received.unknown_fields,
            deliveries=received.entry.deliveries,
            reply_to=received.reply_to,
            trace_id=delivery.traced.trace_id,
            worker=self.settings.instance,
            build=self._build(),
        )
        return QueryRequest(delivery=delivery, profiles=self._profiles.current, facts=facts)

    async def _answer(self, request: QueryRequest, overloaded: Overloaded | None = None) -> QueryAnswer:
        delivery = request.delivery
        try:
            if (message := self._deliveries.poison(delivery)) is not None:
                self.counts["poison"] += 1
                return self._error(request, "failed", message, dead_reason=f"poison: {message}")
            return await self._read_and_recall(request, overloaded)
        except MessageError as error:
            return self._refusal(request, error)
        except Exception:  # the one place: an entry must be answered whatever happens
            ids = {"correlation_id": delivery.received.correlation_id, "trace_id": delivery.traced.trace_id}
            log.exception("a query failed", extra={"fields": ids})
            message = "an unexpected error; the worker's log has it under this correlation id"
            return self._error(request, "failed", message)

    async def _read_and_recall(self, request: QueryRequest, overloaded: Overloaded | None = None) -> QueryAnswer:
        """MessageError when it cannot be served. `overloaded`: it is turned away."""
        delivery = request.delivery
        if delivery.received.error is not None:
            raise delivery.received.error
        query = self._read(request)
        if (left_s := self._deliveries.time_left_s(delivery)) <= 0:
            raise ExpiredMessage(f"the ttl of {delivery.received.ttl_ms} ms ran out {-left_s * 1000:.0f} ms ago")
        if delivery.refused is not None:
            raise delivery.refused
        if overloaded is not None:
            raise overloaded
        return await self._recall(request, query, min(self._full_timeout_s, _searched_s(left_s)))

    def _refusal(self, request: QueryRequest, error: MessageError) -> QueryAnswer:
        message = self._kept_text.error(error)
        # What is invalid becomes a dead letter.
        dead_reason = f"invalid: {message}" if isinstance(error, InvalidMessage) else ""
        retry_after_ms = error.retry_after_ms if isinstance(error, Overloaded) else None
        return self._error(request, error.outcome, message, dead_reason=dead_reason, retry_after_ms=retry_after_ms)

    def _error(
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

    def _read(self, request: QueryRequest) -> RecallQueryV1:
        received = request.delivery.received
        query = read_message(RecallQueryV1, received.payload, "payload")
        unused = received.unknown_fields + ignored_fields(received.payload)
        named = query.options.tenant if query.options else None
        tenant = tenant_of(named, received.caller, self.settings.default_tenant)
        request.facts = self._facts_of(request, query, tenant=tenant, unused=unused)
        profile = request.profiles[request.facts.profile].profile
        in_lane = narrowed(query, profile, self.settings.query_lane)
        if in_lane is None and query.lane is not None:
            unused += 1
            request.facts = replace(request.facts, unknown_fields=unused)
        query = in_lane or query
        scope_of(query, profile, "")  # raises for a scope that is incomplete
        self.settings.check_kinds(query.options.kinds if query.options else (), "payload.options.kinds")
        return query

    def _facts_of(self, request: QueryRequest, query: RecallQueryV1, *, tenant: str, unused: int) -> RequestFacts:
        facts, profiles, requested = request.facts, request.profiles, query.profile
        name = requested if requested is not None and requested in profiles else self.settings.default_profile
        is_fallback = requested is not None and requested != name
        canary = canary_for(name, profiles, query, tenant=tenant, corr_id=facts.corr_id)
        name = canary.canary if canary is not None and canary.variant == "canary" else name
        return replace(
            facts,
            query=query,
            tenant=tenant,
            unknown_fields=unused,
            candidates=candidates_to_keep(profiles[name].profile, facts.corr_id, is_traced=_is_traced(query)),
            profile=name,
            profile_requested=requested,
            profile_hash=profiles[name].content_hash,
            profile_fallback=is_fallback,
            canary=canary,
        )

    async def _recall(self, request: QueryRequest, query: RecallQueryV1, timeout_s: float) -> QueryAnswer:
        facts = request.facts
        tenant = facts.tenant or self.settings.default_tenant
        if not self.settings.serves(tenant):
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

    def _commit_to(self, request: QueryRequest, address: ReplyAddress) -> Commit:
        """The commit of the answer; to another address than the request's, that this one cannot take it."""
        delivery, answer = request.delivery, request.answer
        if address != delivery.address and answer.outcome not in ("invalid", "expired"):
            name = delivery.address.name
            told = f"reply_to {name!r} cannot take a reply: it holds something else, or is closed to us"
            refusal = self._refusal(request, RefusedMessage(told))
            # Beside the reason what was recalled.
            request.answer = answer = replace(
                refusal,
                recalled=answer.recalled,
                recall_began_ns=answer.recall_began_ns,
                dead_reason=answer.dead_reason,
            )
        decided = decision(
            request.facts,
            outcome=answer.outcome,
            latency_ms=delivery.elapsed_ms,
            recalled=answer.recalled,
            error=answer.error,
            created_at=datetime.fromtimestamp(self._deliveries.now(), UTC),
            kept_text=self._kept_text,
        )
        envelope = partial(self._deliveries.envelope, delivery, DECISION_KIND, correlation_id=request.facts.corr_id)
        is_published = bool(self.settings.decision_channels)
        return Commit(
            entry_id=delivery.received.entry.id,
            address=address,
            reply=self._deliveries.envelope(delivery, REPLY_KIND, answer.reply),
            decision=envelope(decided.model_dump_json().encode()),
            published=envelope(json.dumps(v1_decision(decided)).encode()) if is_published else b"",
            dead_reason=answer.dead_reason[:2000],
            correlation_id=delivery.received.correlation_id,
            keep_message=self._kept_text.is_full,
            head=delivery.head,
        )

    def _note_use(self, request: QueryRequest, result: Committed) -> None:
        facts, answer = request.facts, request.answer
        if result != "committed" or answer.outcome == "refused" or answer.recalled is None or facts.tenant is None:
            return
        # One that asked why memories are found is an inspection, not a use.
        if self._used is not None and not (facts.query and _is_traced(facts.query)):
            shown = [(item.scored.candidate.key, item.scored.memory.id) for item in answer.recalled.selection.items]
            # An item of another store may have the id of a memory of ours.
            self._used(facts.tenant, [name for key, name in shown if memory_key(facts.tenant, name) == key])

    def _start_shadow(self, request: QueryRequest, result: Committed) -> None:
        facts, answer = request.facts, request.answer
        if self._shadow is None or answer.shadow is None or answer.outcome == "refused" or result != "committed":
            return
        recalled, query = answer.recalled, answer.searched
        if recalled is None or recalled.understood is None or query is None:
            return
        envelope = partial(self._deliveries.envelope, request.delivery, DECISION_KIND, correlation_id=facts.corr_id)
        now = recalled.understood.question.now
        self._shadow(ShadowTask(facts, query, recalled.scope.tenant, answer.shadow, now, envelope))

    def _observe(self, request: QueryRequest, result: Committed) -> None:
        facts, span = request.facts, request.delivery.traced.span
        span.set_attributes({t.ATTRIBUTE_OUTCOME: request.answer.outcome, t.ATTRIBUTE_PROFILE: facts.profile})
        span.set_attributes({t.ATTRIBUTE_TENANT: facts.tenant or "", t.ATTRIBUTE_COMMIT: result})
        if self._served is not None:
            self._served(request, result)
        span.end()

    def _log(self, request: QueryRequest, result: Committed) -> None:
        if not log.isEnabledFor(logging.INFO):
            return
        facts, recalled = request.facts, request.answer.recalled
        items, reports = (recalled.selection.items, recalled.reports) if recalled else ((), ())
        fallbacks = [report.source for report in reports if report.fallback is not None]
        fields: dict[str, object] = {
            "correlation_id": facts.corr_id[:200],
            "trace_id": facts.trace_id,
            "session_id": facts.query.session_id if facts.query else None,
            "profile": facts.profile,
            "outcome": request.answer.outcome,
            "commit": result,
            "latency_ms": request.delivery.elapsed_ms,
            "results": len(items),
            "scores": [item.scored.score for item in items],
        }
        if self.settings.content_capture and facts.query:
            fields["query"] = facts.query.fragment[:1000]
        if facts.canary is not None:
            fields["canary"] = facts.canary.variant
        if fallbacks:
            fields["fallback"] = fallbacks
            log.warning("recall: the index is away, the record's text search answered", extra={"fields": fields})
        else:
            log.info("recall", extra={"fields": fields})
