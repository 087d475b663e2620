"""Backoff: growing, jittered waits between retries.

One implementation for all unbounded retries, and neither `tenacity` nor `stamina`: those retry a function that
raises, while our loops wait on a condition or a stop event, go on for ever and reset after a success in the middle;
and the client, which uses this too, has no dependencies but pydantic and redis.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable

from orion_recall.tasks import sleep

# First and longest waits, in seconds, for the bus and for Postgres.
BUS_S, POSTGRES_S = (0.05, 2.0), (0.2, 5.0)

# Sleeps for seconds, or until the event is set.
Sleep = Callable[[float, asyncio.Event | None], Awaitable[object]]


class Backoff:
    """Waits of `first_s`, doubled up to `longest_s`, until `reset()`.

    Each wait is between half and all of that ("equal jitter"), so that processes that lost the same server do not
    come back to it in step: https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/
    """

    def __init__(
        self,
        first_s: float,
        longest_s: float,
        *,
        sleep: Sleep = sleep,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._first_s, self._longest_s = first_s, longest_s
        self._sleep, self._jitter = sleep, jitter
        self.next_s = first_s
        self.is_first = True

    def reset(self) -> None:
        """After a success: the next wait is a first one."""
        self.next_s, self.is_first = self._first_s, True

    async def wait(self, stop: asyncio.Event | None = None) -> None:
        """Sleep for `next_s` at most, which then grows; `stop` ends the sleep."""
        upper_s, self.is_first = self.next_s, False
        self.next_s = min(upper_s * 2, self._longest_s)
        await self._sleep(upper_s * (1 + self._jitter()) / 2, stop)
