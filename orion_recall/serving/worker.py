"""The query worker: decodes a query, answers it, and commits reply and decision.

Every entry ends with one reply and one decision, whatever it holds. `bus/consumer_loop.py` brings the entries.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Protocol

from opentelemetry.trace import Tracer

from orion_recall.bus.commit import Commit, CommitPort, Committed, ReplyAddress
from orion_recall.bus.consumer_loop import Turned
from orion_recall.bus.delivery import Deliveries, Delivery
from orion_recall.bus.group_reader import Entry
from orion_recall.bus.signing.callers import Callers
from orion_recall.contracts import DECISION_KIND, QUERY_KIND, REPLY_KIND, v1_decision
from orion_recall.errors import MessageError, Overloaded
from orion_recall.foreground import FOREGROUND
from orion_recall.profile.watch import ProfilesInUse
from orion_recall.recall.report.asked import KeptText
from orion_recall.recall.report.decision import RequestFacts, decision
from orion_recall.recall.types import Recalled, Sources
from orion_recall.serving.answers import Answers, Counters, QueryAnswer, QueryRequest
from orion_recall.serving.trials import ShadowTask
from orion_recall.settings import Settings
from orion_recall.tasks import errors_logged
from orion_recall.telemetry import (
    ATTRIBUTE_COMMIT,
    ATTRIBUTE_OUTCOME,
    ATTRIBUTE_PROFILE,
    ATTRIBUTE_TENANT,
    LOG_WORKER,
    Continued,
)
from orion_recall.text.ids import new_id
from orion_recall.text.normal import storable
from orion_recall.values import Outcome

log = logging.getLogger(LOG_WORKER)

# How long a commit has priority over background work: one that the bus does not take may wait for minutes.
_FIRST_COMMIT_S = 0.25
# So many refusals are made without a gap for recalls: three milliseconds of them.
_REFUSED_AT_ONCE = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedMessage:
    """One served entry with its outcome. `recall_began_ns` is when the search began, by this machine's clock."""

    facts: RequestFacts
    outcome: Outcome
    commit: Committed
    seconds: float
    traced: Continued
    recalled: Recalled | None
    recall_began_ns: int


class ServingObserver(Protocol):
    """Observes a worker: gives the tracer, where spans are recorded, and is told of every committed entry."""

    @property
    def tracer(self) -> Tracer | None: ...

    def served(self, served: ServedMessage) -> None: ...


class Worker:
    """Answers queries.

    `used` is told which memories were returned, `observer` what became of every entry, and `shadow` takes the
    queries that another profile is to recall as well. With `callers` only signed queries are answered. `build` is
    what decisions say of this worker's version and model.
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
        observer: ServingObserver | None = None,
        shadow: Callable[[ShadowTask], None] | None = None,
        callers: Callers | None = None,
        build: Callable[[], Mapping[str, str] | None] = lambda: None,
    ) -> None:
        self.settings, self.counters = settings, Counters()
        self._profiles, self._kept_text = profiles, KeptText.of(settings)
        self._build = build
        self._used, self._observer, self._shadow = used, observer, shadow
        tracer = observer.tracer if observer else None
        self._deliveries = Deliveries(
            settings, committer, kind=QUERY_KIND, server_time=server_time, tracer=tracer, callers=callers
        )
        self._answers = Answers(settings, sources, self._deliveries, self._kept_text)

    async def turn_away(self, turned: Sequence[Turned]) -> None:
        """Answer entries that they cannot be served in time; what is invalid or expired is answered as that.

        Sixteen are committed together, and each step is done for all of them before the next one: the processor has
        the code of the step at hand then, and it costs less. Between sixteen and sixteen it yields to recalls.
        """
        alone: list[QueryRequest] = []
        for start in range(0, len(turned), _REFUSED_AT_ONCE):
            alone += await self._turn_some_away(turned[start : start + _REFUSED_AT_ONCE])
        await asyncio.gather(*map(self._commit_alone, alone))

    async def _turn_some_away(self, turned: Sequence[Turned]) -> list[QueryRequest]:
        requests = [await self._opened(one.entry) for one in turned]
        for request, one in zip(requests, turned, strict=True):
            request.answer = await self._answer(request, one.error)
        commits: dict[int, Commit] = {}
        for place, request in enumerate(requests):
            with errors_logged(f"entry {request.facts.entry_id} stays pending: its refusal could not be written"):
                commits[place] = self._commit_to(request, request.delivery.address)
        results = await self._deliveries.commit_all(list(commits.values()))
        left: list[QueryRequest] = []
        for place, result in zip(commits, results, strict=True):
            if result is None:
                left.append(requests[place])
            else:
                self._follow_up(requests[place], result, is_logged=False)  # a line for each costs what is short
        return left

    async def _commit_alone(self, request: QueryRequest) -> None:
        result = await self._deliveries.commit(request.delivery, partial(self._commit_to, request))
        self._follow_up(request, result, is_logged=False)

    async def _opened(self, entry: Entry) -> QueryRequest:
        delivery = await self._deliveries.open(entry)
        return QueryRequest(delivery=delivery, profiles=self._profiles.current, facts=self._facts(delivery))

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
        self._count(request.answer, result)
        entry = request.delivery.received.entry
        follow_ups = (self._note_use, self._start_shadow, self._observe, self._log)
        for follow_up in follow_ups if is_logged else follow_ups[:-1]:
            # An error here must not make the entry look as if it were pending.
            with errors_logged(f"entry {entry.id} is answered and acknowledged; what follows that failed"):
                follow_up(request, result)

    def _facts(self, delivery: Delivery) -> RequestFacts:
        received = delivery.received
        return RequestFacts(
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

    async def _answer(self, request: QueryRequest, overloaded: Overloaded | None = None) -> QueryAnswer:
        delivery = request.delivery
        try:
            if (message := self._deliveries.poison(delivery)) is not None:
                self.counters.poison += 1
                return self._answers.error(request, "failed", message, dead_reason=f"poison: {message}")
            return await self._answers.recall(request, overloaded)
        except MessageError as error:
            return self._answers.refusal(request, error)
        except Exception:  # the one place: an entry must be answered whatever happens
            ids = {"correlation_id": delivery.received.correlation_id, "trace_id": delivery.traced.trace_id}
            log.exception("a query failed", extra={"fields": ids})
            message = "an unexpected error; the worker's log has it under this correlation id"
            return self._answers.error(request, "failed", message)

    def _commit_to(self, request: QueryRequest, address: ReplyAddress) -> Commit:
        """The commit of the answer; to another address than the request's, that this one cannot take it."""
        delivery, answer = request.delivery, request.answer
        if address != delivery.address and answer.outcome not in ("invalid", "expired"):
            answer = request.answer = self._answers.address_refused(request)
        decided = decision(
            request.facts,
            outcome=answer.outcome,
            latency_ms=delivery.elapsed_ms,
            recalled=answer.recalled,
            error=answer.error,
            created_at=datetime.fromtimestamp(self._deliveries.now(), UTC),
            kept_text=self._kept_text,
        )
        decision_envelope = partial(
            self._deliveries.envelope, delivery, DECISION_KIND, correlation_id=request.facts.corr_id
        )
        published = b""
        if self.settings.decision_channels:
            published = decision_envelope(json.dumps(v1_decision(decided)).encode())
        return Commit(
            entry_id=delivery.received.entry.id,
            address=address,
            reply=self._deliveries.envelope(delivery, REPLY_KIND, answer.reply),
            decision=decision_envelope(decided.model_dump_json().encode()),
            published=published,
            dead_reason=answer.dead_reason[:2000],
            correlation_id=delivery.received.correlation_id,
            keep_message=self._kept_text.is_full,
            head=delivery.head,
        )

    def _count(self, answer: QueryAnswer, result: Committed) -> None:
        if result == "committed":
            self.counters.outcomes[answer.outcome] += 1
        else:
            self.counters.fenced += 1

    def _note_use(self, request: QueryRequest, result: Committed) -> None:
        facts, answer = request.facts, request.answer
        if result != "committed" or answer.outcome == "refused" or answer.recalled is None or facts.tenant is None:
            return
        options = facts.query.options if facts.query else None
        if options is not None and options.include is not None and options.include.trace:
            return  # it asked why memories are found: an inspection, not a use
        if self._used is not None:
            self._used(facts.tenant, [item.scored.memory.id for item in answer.recalled.selection.items])

    def _start_shadow(self, request: QueryRequest, result: Committed) -> None:
        facts, answer = request.facts, request.answer
        if self._shadow is None or answer.shadow is None or answer.outcome == "refused" or result != "committed":
            return
        recalled, query = answer.recalled, answer.searched
        if recalled is None or recalled.understood is None or query is None:
            return
        self._shadow(
            ShadowTask(
                facts=facts,
                query=query,
                tenant=recalled.scope.tenant,
                profile=answer.shadow,
                now=recalled.understood.question.now,
                envelope=partial(
                    self._deliveries.envelope, request.delivery, DECISION_KIND, correlation_id=facts.corr_id
                ),
            )
        )

    def _observe(self, request: QueryRequest, result: Committed) -> None:
        facts, answer, span = request.facts, request.answer, request.delivery.traced.span
        span.set_attributes(
            {
                ATTRIBUTE_OUTCOME: answer.outcome,
                ATTRIBUTE_PROFILE: facts.profile,
                ATTRIBUTE_TENANT: facts.tenant or "",
                ATTRIBUTE_COMMIT: result,
            }
        )
        if self._observer is not None:
            self._observer.served(
                ServedMessage(
                    facts=facts,
                    outcome=answer.outcome,
                    commit=result,
                    seconds=request.delivery.elapsed_s,
                    traced=request.delivery.traced,
                    recalled=answer.recalled,
                    recall_began_ns=answer.recall_began_ns,
                )
            )
        span.end()

    def _log(self, request: QueryRequest, result: Committed) -> None:
        if not log.isEnabledFor(logging.INFO):
            return
        facts, items = request.facts, request.answer.recalled.selection.items if request.answer.recalled else ()
        reports = request.answer.recalled.reports if request.answer.recalled else ()
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
