"""The CPU of a recall, stage by stage: `recall()` itself, with a clock around what it calls.

What would run side by side - the arms, the read of the memories beside late interaction - runs one after another
while the clock is on, so that the CPU of the whole process belongs to one stage at a time, engine threads
included. A stage within another (the embedding in the vector arm) is taken off the outer one. So the stages add up
to the recall, and what is left is what lies between them: tasks, the event loop, waiting made and undone.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from contextlib import ExitStack
from contextvars import ContextVar
from functools import wraps
from types import ModuleType
from typing import Any, ParamSpec, TypeVar
from unittest.mock import patch

from orion_recall.recall import pipeline, search_pass
from orion_recall.recall.bundle import select
from orion_recall.recall.search import follow_up

P = ParamSpec("P")
T = TypeVar("T")

UNDERSTANDING, EMBEDDING = "understanding", "embedding, as the worker does it"
VECTOR, KEYWORDS, GRAPH, TIMELINE = "vector arm", "keyword arm", "graph arm", "timeline arm"
FUSION, READING, LATE = "fusion", "reading the memories", "late interaction"
ADMITTING, LINKS, SECOND_STEP = "filters", "following: titles", "following: second step"
SCORING, DUPLICATES = "scoring", "near-duplicates"
SELECTING, RENDERING, CONFIDENCE, BETWEEN = "selection", "rendering", "confidence", "between the stages"
STAGES = (
    UNDERSTANDING, EMBEDDING, VECTOR, KEYWORDS, GRAPH, TIMELINE, FUSION, READING, LATE, ADMITTING, LINKS,
    SECOND_STEP, SCORING, DUPLICATES, SELECTING, RENDERING, CONFIDENCE, BETWEEN,
)  # fmt: skip

# What the path of a query calls by these names, and the stage that it is.
_CALLED: tuple[tuple[ModuleType, str, str], ...] = (
    (pipeline, "understand", UNDERSTANDING),
    (search_pass, "fuse", FUSION),
    (search_pass, "without_deleted", ADMITTING),
    (search_pass, "visible", ADMITTING),
    (search_pass, "in_asked_time", ADMITTING),
    (search_pass, "score_candidates", SCORING),
    (search_pass, "near_duplicates", DUPLICATES),
    (pipeline, "select", SELECTING),
    (select, "head", RENDERING),
    (select, "body", RENDERING),
    (select, "snippet", RENDERING),
    (pipeline, "confidences", CONFIDENCE),
    (pipeline, "answer_confidence", CONFIDENCE),
)
_AWAITED: tuple[tuple[ModuleType, str, str], ...] = (
    (search_pass, "fetch", READING),
    (search_pass, "late_interaction", LATE),
    (follow_up, "_linked", LINKS),
    (follow_up, "_stepped", SECOND_STEP),
)


_is_alone: ContextVar[bool] = ContextVar("_is_alone", default=False)


class Clock:
    """Where the CPU of this process goes while it is on; off it costs nothing and changes nothing."""

    def __init__(self, now: Callable[[], float] = time.process_time) -> None:
        self._now = now
        self._running: list[str] = []
        self._since = 0.0
        self._spent: dict[str, float] = {}
        self._alone = asyncio.Lock()

    @property
    def is_on(self) -> bool:
        """Whether something is being measured."""
        return bool(self._running)

    @contextlib.contextmanager
    def measuring(self) -> Generator[dict[str, float]]:
        """Milliseconds by stage, filled when the block has ended."""
        self._spent, self._running, self._since = {}, [BETWEEN], self._now()
        spent: dict[str, float] = {}
        try:
            yield spent
        finally:
            self._turn()
            self._running.clear()
            spent.update({name: seconds * 1000 for name, seconds in self._spent.items()})

    @contextlib.contextmanager
    def stage(self, name: str) -> Generator[None]:
        """What is spent in the block, but for stages within it, is this stage's."""
        if not self.is_on:
            yield
            return
        self._turn()
        self._running.append(name)
        try:
            yield
        finally:
            self._turn()
            self._running.pop()

    @contextlib.asynccontextmanager
    async def alone(self, name: str) -> AsyncGenerator[None]:
        """As `stage`, and no other such block runs meanwhile. One within another is the outer one's."""
        if not self.is_on or _is_alone.get():
            yield
            return
        async with self._alone:
            before = _is_alone.set(True)
            try:
                with self.stage(name):
                    yield
            finally:
                _is_alone.reset(before)

    def called(self, name: str, function: Callable[P, T]) -> Callable[P, T]:
        """The function as that stage."""

        @wraps(function)
        def clocked(*arguments: P.args, **named: P.kwargs) -> T:
            with self.stage(name):
                return function(*arguments, **named)

        return clocked

    def awaited(
        self, name: str, function: Callable[P, Coroutine[Any, Any, T]]
    ) -> Callable[P, Coroutine[Any, Any, T]]:
        """The coroutine function as that stage, alone."""

        @wraps(function)
        async def clocked(*arguments: P.args, **named: P.kwargs) -> T:
            async with self.alone(name):
                return await function(*arguments, **named)

        return clocked

    def _turn(self) -> None:
        now = self._now()
        if self._running:
            name = self._running[-1]
            self._spent[name] = self._spent.get(name, 0.0) + now - self._since
        self._since = now


@contextlib.contextmanager
def clocked_recall(clock: Clock) -> Generator[None]:
    """In the block a query's path calls its stages through the clock; for the arms see `asked_anew`."""
    with ExitStack() as stack:
        for module, name, stage in _CALLED:
            stack.enter_context(patch.object(module, name, clock.called(stage, getattr(module, name))))
        for module, name, stage in _AWAITED:
            stack.enter_context(patch.object(module, name, clock.awaited(stage, getattr(module, name))))
        yield
