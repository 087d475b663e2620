"""One arm over several stores: all are asked at once, and what they bring is one list."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence

from orion_recall.errors import ModelError, PartialSourceError, SourceError
from orion_recall.sources.breaker import Breaker
from orion_recall.sources.source import Source
from orion_recall.values import Hit, SearchRequest, SourceName

_SHARE_OF_TIME = 0.8
_ENDING_S = 0.05


class SeveralStores:
    """An arm whose hits come from stores by name. Their scores must be on one scale; they are merged by score.

    A store that is silent is waited for until shortly before the arm's own deadline, and after three such times it
    is left alone for a while: it must not cost the others' hits.
    """

    def __init__(self, name: SourceName, stores: Mapping[str, Source]) -> None:
        self.name: SourceName = name
        self.stores = stores
        self.breakers = {store: Breaker() for store in stores}

    async def search(self, request: SearchRequest) -> Sequence[Hit]:
        """The best of all stores, best first.

        SourceError when none of them answers; PartialSourceError, with the hits of the others, when one does not.
        """
        hits: list[Hit] = []
        silent: dict[str, str] = {}
        tasks: dict[str, asyncio.Task[Sequence[Hit]]] = {}
        for name, store in self.stores.items():
            if self.breakers[name].lets_through(time.monotonic()):
                tasks[name] = asyncio.create_task(_asked(store, request))
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
            if error := _failure(task, request, late=task in unfinished):
                silent[name] = error
            else:
                hits.extend(task.result())
            self.breakers[name].record(error, time.monotonic())
        hits.sort(key=lambda hit: (-hit.score, hit.key))
        if not silent:
            return hits[: request.limit]
        told = "; ".join(f"{name}: {why}" if name else why for name, why in silent.items())
        if len(silent) == len(self.stores):
            raise SourceError(told)
        raise PartialSourceError(told, hits[: request.limit])


async def _asked(store: Source, request: SearchRequest) -> Sequence[Hit]:
    return await store.search(request)


def _failure(task: asyncio.Task[Sequence[Hit]], request: SearchRequest, *, late: bool) -> str | None:
    if late:
        return f"no answer within {request.timeout_s * _SHARE_OF_TIME * 1000:.0f} ms"
    error = task.exception()
    if error is None:
        return None
    if not isinstance(error, SourceError | ModelError):
        raise error
    return str(error)
