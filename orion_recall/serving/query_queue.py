"""The queue of queries that wait for a slot, and admission: whether one can be answered in time.

How long an answer takes, and how quickly answers follow each other while all slots are taken, is measured; before
that nothing is turned away. Entries are taken from their tenants in turn: who sends many waits for himself.
"""

from __future__ import annotations

import json
import logging
import math
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any, cast

from orion_recall.bus.consumer_loop import Turned
from orion_recall.bus.group_reader import Entry
from orion_recall.bus.signing.callers import tenant_of
from orion_recall.bus.signing.keys import Caller
from orion_recall.errors import Overloaded, RefusedMessage
from orion_recall.settings import Settings
from orion_recall.telemetry import LOG_WORKER

# The weight of the newest measurement: twenty answers make most of the mean.
_NEWEST = 0.1
# How far an answer may be off: few take longer than the mean and three mean deviations. A query that has to wait
# may have to wait longer than expected, too.
_DEVIATIONS, _DEVIATIONS_OF_WAIT = 3, 1
# Waits that were expected to be shorter say little about how right expectations are.
_LEAST_EXPECTED_S = 0.1
_MOST_STRETCH = 4.0
# In how much of the longest recall an answer should come, when recalls only wait for each other's processor.
_SHARE_OF_DEADLINE = 0.25
# An event loop that comes so late has more to do than it can; one that comes so early has not.
_LATE_S, _EARLY_S = 0.01, 0.002
_FEWEST_SLOTS = 2
_SOONEST_S, _LATEST_S = 0.05, 60.0


class Admission:
    """Measures answers, and from that says what fits into a caller's time.

    `slots` is how many recalls are under way at once: `most_slots`, and fewer while the processor is what they wait
    for. More of them would then be no quicker together, and each would take longer than its sources may.
    """

    def __init__(self, *, most_slots: int, deadline_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.slots = self._most_slots = most_slots
        self._target_s, self._clock = deadline_s * _SHARE_OF_DEADLINE, clock
        self._answer_s, self._deviation_s, self._interval_s = math.nan, 0.0, math.nan
        self._lag_s, self._stretch = 0.0, 1.0
        self._last_end: float | None = None
        self._ends = 0

    def ended(self, seconds: float, *, is_busy: bool) -> None:
        """Hear that an answer took so long. `is_busy`: all slots were taken until then."""
        if math.isnan(self._answer_s):
            self._answer_s, self._deviation_s = seconds, seconds / 2
        else:
            self._deviation_s += _NEWEST * (abs(seconds - self._answer_s) - self._deviation_s)
            self._answer_s += _NEWEST * (seconds - self._answer_s)
        now = self._clock()
        if is_busy and self._last_end is not None:
            passed_s = now - self._last_end
            if math.isnan(self._interval_s):
                self._interval_s = seconds / self.slots
            self._interval_s += _NEWEST * (passed_s - self._interval_s)
            self._ends += 1
        self._last_end = now if is_busy else None
        if self._ends >= self.slots:
            self._ends = 0
            self._set_slots()

    def loop_was_late(self, seconds: float) -> None:
        """Hear that the event loop ran something so much later than it should have."""
        self._lag_s += _NEWEST * (seconds - self._lag_s)

    def waited(self, seconds: float, *, expected_s: float) -> None:
        """Hear that a query's turn came after so long. `expected_s`: what `turn_s` said when it came."""
        if expected_s >= _LEAST_EXPECTED_S:
            # A turn comes sooner than expected where some before it were refused: what is to be avoided.
            stretch = min(max(seconds / expected_s, 1.0), _MOST_STRETCH)
            self._stretch += _NEWEST * (stretch - self._stretch)

    def turn_s(self, ahead: int) -> float:
        """Seconds until so many have been answered."""
        return 0.0 if math.isnan(self._interval_s) else ahead * self._interval_s

    def wait_s(self, ahead: int) -> float:
        """Seconds until a slot is free for what has so many before it.

        It takes longer than `turn_s` where queries of other tenants come in between: as much longer as of late.
        """
        return self.turn_s(ahead) * self._stretch

    def fits(self, left_s: float, ahead: int, *, is_only: bool = False) -> bool:
        """Whether a query with `ahead` before it is answered within `left_s`.

        Most likely so; of the only one that a tenant has waiting (`is_only`) on average: who asks seldom would lose
        more by a refusal than is lost by a late answer now and then.
        """
        margin_s = 0.0 if is_only else _DEVIATIONS_OF_WAIT * self._deviation_s
        return not self.is_too_late(left_s - self.wait_s(ahead) - margin_s, is_only=is_only)

    def is_too_late(self, left_s: float, *, is_only: bool = False) -> bool:
        """Whether a query whose turn has come may well not be answered in time; of an only one, on average."""
        margin_s = 0.0 if is_only else _DEVIATIONS * self._deviation_s
        answer_s = 0.0 if math.isnan(self._answer_s) else self._answer_s
        return answer_s + margin_s > left_s

    def _set_slots(self) -> None:
        together_s = self.slots * self._interval_s
        if together_s > self._target_s and self._lag_s > _LATE_S:
            self.slots = max(min(_FEWEST_SLOTS, self._most_slots), self.slots - 1)
        elif together_s + self._interval_s <= self._target_s or self._lag_s < _EARLY_S:
            self.slots = min(self._most_slots, self.slots + 1)


log = logging.getLogger(LOG_WORKER)


class FairQueue:
    """A queue for each tenant, and the turn of the tenants. `size_bytes` is what the entries hold together."""

    def __init__(self) -> None:
        self.size_bytes = 0
        self._by_tenant: dict[str, deque[Entry]] = {}
        self._turns: deque[str] = deque()
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Entry]:
        return (entry for waiting in self._by_tenant.values() for entry in waiting)

    def put(self, tenant: str, entry: Entry, *, first: bool = False) -> None:
        if tenant not in self._by_tenant:
            self._by_tenant[tenant] = deque()
            self._turns.append(tenant)
        waiting = self._by_tenant[tenant]
        (waiting.appendleft if first else waiting.append)(entry)
        self._count += 1
        self.size_bytes += entry.size_bytes

    def take(self) -> tuple[str, Entry] | None:
        if not self._turns:
            return None
        tenant = self._turns.popleft()
        self._turns.append(tenant)
        return tenant, self._gone(tenant, self._by_tenant[tenant].popleft())

    def has(self, tenant: str) -> bool:
        return tenant in self._by_tenant

    def ahead_of(self, tenant: str) -> int:
        """How many entries come before another one of this tenant, as far as is known now."""
        own = len(self._by_tenant.get(tenant, ()))
        return own + sum(min(len(waiting), own + 1) for name, waiting in self._by_tenant.items() if name != tenant)

    def drop_newest(self) -> Entry:
        """Take out the newest entry of the tenant who has most waiting. IndexError when nothing waits."""
        if not self._by_tenant:
            raise IndexError("nothing waits")
        tenant, waiting = max(self._by_tenant.items(), key=lambda one: len(one[1]))
        return self._gone(tenant, waiting.pop())

    def _gone(self, tenant: str, entry: Entry) -> Entry:
        self._count -= 1
        self.size_bytes -= entry.size_bytes
        if not self._by_tenant[tenant]:
            del self._by_tenant[tenant]
            self._turns.remove(tenant)
        return entry


_TOLD_EVERY_S = 10.0
# Of larger messages neither tenant nor ttl is read before their turn: reading them is what takes long.
_MOST_PEEKED_BYTES = 64 << 10
_MOST_BYTES = 64 << 20
# While all slots are taken, more is read after an eighth of the time for which what waits will fill them: none is
# free in vain then, and other tenants have their turn. A read and its batch of commits cost as a few refusals do.
_PAUSE_SHARE = 0.125
_SHORTEST_PAUSE_S, _LONGEST_PAUSE_S = 0.02, 0.1
# Those whose tenant is not known share one queue. No tenant has this name: an identifier is not empty.
_UNKNOWN = ""


class QueryQueue:
    """Queries that wait for a slot. `earliest` is the clock of the bus, 0 while it is not known.

    `caller_of` says who signed a query, where queries are signed: nobody takes the turns of others.
    """

    def __init__(
        self,
        settings: Settings,
        admission: Admission,
        *,
        earliest: Callable[[], float],
        caller_of: Callable[[Entry], Caller | None] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.turned_away: Counter[str] = Counter()
        self._settings, self._admission, self._earliest = settings, admission, earliest
        self._queue, self._caller_of = FairQueue(), caller_of
        self.ended, self.loop_was_late = admission.ended, admission.loop_was_late
        self._clock, self._told_at = clock, -math.inf
        self._came: dict[str, tuple[float, float]] = {}  # when, and after how long its turn was expected

    def __len__(self) -> int:
        return len(self._queue)

    @property
    def slots(self) -> int:
        return self._admission.slots

    @property
    def ids(self) -> Iterable[str]:
        return [entry.id for entry in self._queue]

    def put(self, entry: Entry, *, first: bool = False) -> list[Turned]:
        tenant, ttl_ms = _peeked(entry, "")
        tenant = self._tenant_of(entry, tenant)
        ahead = self._queue.ahead_of(tenant)
        left_s = self._left_s(entry, ttl_ms)
        if not first and not self._admission.fits(left_s, ahead, is_only=not self._queue.has(tenant)):
            return [self._turned(entry, "no_time", ahead, left_s)]
        self._queue.put(tenant, entry, first=first)
        if not first:
            self._came[entry.id] = self._clock(), self._admission.turn_s(ahead)
        turned: list[Turned] = []
        while len(self._queue) > self._settings.max_waiting or self._queue.size_bytes > _MOST_BYTES:
            dropped = self._queue.drop_newest()
            self._came.pop(dropped.id, None)
            turned.append(self._turned(dropped, "full", len(self._queue), math.inf))
        return turned

    @property
    def pause_s(self) -> float:
        busy_s = self._admission.turn_s(len(self._queue))
        return min(max(_PAUSE_SHARE * busy_s, _SHORTEST_PAUSE_S), _LONGEST_PAUSE_S)

    def _tenant_of(self, entry: Entry, named: str) -> str:
        caller: Caller | None = None
        if self._caller_of is None or (caller := self._caller_of(entry)) is not None:
            with suppress(RefusedMessage):
                tenant = tenant_of(named, caller, self._settings.default_tenant)
                return tenant if self._settings.serves(tenant) else _UNKNOWN
        return _UNKNOWN

    def take(self) -> Entry | Turned | None:
        found = self._queue.take()
        if found is None:
            return None
        tenant, entry = found
        if (came := self._came.pop(entry.id, None)) is not None:
            self._admission.waited(self._clock() - came[0], expected_s=came[1])
        left_s = self._left_s(entry, _peeked(entry, tenant)[1])
        if self._admission.is_too_late(left_s, is_only=not self._queue.has(tenant)):
            return self._turned(entry, "no_time", self._queue.ahead_of(tenant), left_s)
        return entry

    def _left_s(self, entry: Entry, ttl_ms: int | None) -> float:
        if ttl_ms is None:
            return math.inf
        return entry.added_at + ttl_ms / 1000 - max(self._earliest(), entry.added_at)

    def _turned(self, entry: Entry, why: str, ahead: int, left_s: float) -> Turned:
        self.turned_away[why] += 1
        if self._clock() - self._told_at >= _TOLD_EVERY_S:
            self._told_at = self._clock()
            log.warning(
                "overloaded: queries that cannot be answered in time are refused, %d since the start; %d wait",
                *(self.turned_away.total(), len(self._queue)),
            )
        retry_after_ms = math.ceil(min(max(self._admission.wait_s(ahead), _SOONEST_S), _LATEST_S) * 1000)
        if why == "full":
            reason = f"no more than {self._settings.max_waiting} queries may wait (ORION_MAX_WAITING)"
        else:
            reason = f"{ahead} queries are before this one, and its ttl leaves {max(0.0, left_s) * 1000:.0f} ms"
        error = Overloaded(f"overloaded: {reason}; ask again in {retry_after_ms} ms", retry_after_ms=retry_after_ms)
        return Turned(entry=entry, error=error)


def _peeked(entry: Entry, default_tenant: str) -> tuple[str, int | None]:
    """Tenant and ttl of a query as far as they can be read quickly; whether it is valid is found out later."""
    raw = entry.fields.get(b"envelope") or entry.fields.get(b"data") or b""
    if len(raw) > _MOST_PEEKED_BYTES:
        return _UNKNOWN, None
    try:
        found: Any = json.loads(raw)
    except (ValueError, RecursionError):
        return _UNKNOWN, None
    data = _object(found)
    ttl_ms = data.get("ttl_ms")
    has_ttl = isinstance(ttl_ms, int) and not isinstance(ttl_ms, bool) and 0 <= ttl_ms <= 2**53
    tenant = _object(_object(data.get("payload")).get("options")).get("tenant")
    return (tenant if isinstance(tenant, str) and tenant else default_tenant), ttl_ms if has_ttl else None


def _object(value: object) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}
