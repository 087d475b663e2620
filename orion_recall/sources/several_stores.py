"""One source over several stores: all are searched at once, and their hits become one list; circuit breakers."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from orion_recall.errors import ModelError, PartialSourceError, QueryNotTaken, SourceError
from orion_recall.interfaces import Source, answers_for
from orion_recall.tasks import Waited, noticed
from orion_recall.values import Hit, SearchRequest, SourceName

_FAILURES_TO_OPEN = 3
_PAUSE_S = 2.0


@dataclass(slots=True)
class Breaker:
    """The breaker of one source. After three failures in a row it lets one request through every two seconds.

    Requests that are given less than the fair time are let through apart from the others: they cannot show that the
    source fails, and must not use up the turns of those that can.
    """

    failures: int = 0
    retry_at: float = 0.0
    short_retry_at: float = 0.0
    last_error: str = ""

    @property
    def is_open(self) -> bool:
        """Whether the source is not asked, apart from a request every two seconds."""
        return self.failures >= _FAILURES_TO_OPEN

    def lets_through(self, now: float, *, is_short: bool = False) -> bool:
        """Whether the source may be asked now. While it is open, each request that passes delays the next."""
        if not self.is_open:
            return True
        if now < (self.short_retry_at if is_short else self.retry_at):
            return False
        if is_short:
            self.short_retry_at = now + _PAUSE_S
        else:
            self.retry_at = now + _PAUSE_S
        return True

    def record(self, error: str | None, now: float) -> None:
        """Record one answer: None for success, or the error."""
        if error is None:
            self.failures = 0
            return
        self.failures += 1
        self.last_error = error
        if self.is_open:
            self.retry_at = self.short_retry_at = now + _PAUSE_S

    def record_error(self, error: SourceError | ModelError, now: float) -> None:
        """Record an error that was raised; one that is the query's own fault gives its turn back."""
        if isinstance(error, QueryNotTaken):
            self.retry_at = self.short_retry_at = min(now, self.retry_at, self.short_retry_at)
        else:
            self.record(str(error), now)

    def record_late(self, error: str, now: float, *, is_excused: bool) -> None:
        """Record that no answer came in time. `is_excused`: it had less than the fair time, which says nothing."""
        if not is_excused:
            self.record(error, now)


log = logging.getLogger("orion_recall.sources")

_SHARE_OF_TIME = 0.8
# The errors of reading a malformed answer. Of an external store they are source errors.
_UNREADABLE = (ValueError, TypeError, LookupError, ArithmeticError, AttributeError, RecursionError)
_ENDING_S = 0.05


class SeveralStores:
    """A source over several named stores, whose hits are merged by score.

    A store that is silent is waited for until shortly before the source's own deadline, and after three such times
    left alone for a while: it must not cost the others' hits. One that is not the tenant's is neither asked nor
    named.
    """

    def __init__(self, name: SourceName, stores: Mapping[str, Source]) -> None:
        self.name: SourceName = name
        self.stores = stores
        self.breakers = {store: Breaker() for store in stores}

    @property
    def are_left_alone(self) -> bool:
        return all(breaker.is_open for breaker in self.breakers.values())

    async def search(self, request: SearchRequest) -> Sequence[Hit]:
        """The best of all stores, best first. PartialSourceError, with the others' hits, when one is silent."""
        found: list[Sequence[Hit]] = []
        silent: dict[str, str] = {}
        tasks: dict[str, asyncio.Task[Sequence[Hit]]] = {}
        waited: dict[str, Waited] = {}
        for name, store in self.stores.items():
            if not answers_for(store, request.scope.tenant):
                continue
            if self.breakers[name].lets_through(time.monotonic(), is_short=request.is_short):
                tasks[name], waited[name] = noticed(store.search(request))
            else:
                silent[name] = f"left alone after: {self.breakers[name].last_error}"
        try:
            if tasks:
                await asyncio.wait(tasks.values(), timeout=request.timeout_s * _SHARE_OF_TIME)
        finally:
            unfinished = {task for task in tasks.values() if task.cancel()}
            if unfinished:
                await asyncio.wait(unfinished, timeout=_ENDING_S)
        for name, task in tasks.items():
            breaker, now = self.breakers[name], time.monotonic()
            if task in unfinished:
                silent[name] = f"no answer within {request.timeout_s * _SHARE_OF_TIME * 1000:.0f} ms"
                breaker.record_late(silent[name], now, is_excused=request.is_short or waited[name].is_set)
            elif (error := task.exception()) is None:
                found.append(task.result())
                breaker.record(None, now)
            elif isinstance(error, SourceError | ModelError):
                silent[name] = str(error)
                breaker.record_error(error, now)
            elif name and isinstance(error, _UNREADABLE):
                log.warning("the store %r gave an answer that cannot be read (%s)", name, type(error).__name__)
                silent[name] = f"its answer cannot be read ({type(error).__name__})"
                breaker.record(silent[name], now)
            else:
                raise error  # a malformed answer of the service's own store
        hits = [hit for some in (_in_proportion(found) if self.name == "lexical" else found) for hit in some]
        hits.sort(key=lambda hit: (-hit.score, hit.key))
        if not silent:
            return hits[: request.limit]
        told = "; ".join(f"{name}: {why}" if name else why for name, why in silent.items())
        raise PartialSourceError(told, hits[: request.limit])


def _in_proportion(found: Sequence[Sequence[Hit]]) -> list[Sequence[Hit]]:
    """Every store's hits, scaled to the best score of the first store, which is the service's own.

    BM25 is on no common scale: how much a word counts depends on how many texts its own collection holds.
    """
    best = [(hits, max(hit.score for hit in hits)) for hits in found if hits]
    return [
        hits
        if score == best[0][1] or score <= 0
        else [hit._replace(score=hit.score * best[0][1] / score) for hit in hits]
        for hits, score in best
    ]
