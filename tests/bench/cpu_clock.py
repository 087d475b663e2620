"""A CPU clock for the stages of a recall: `recall()` itself runs with a clock around the functions it calls.

Concurrent stages - the sources, reading memories beside late interaction - run one after another while the clock is
on, so the CPU of the whole process, engine threads included, belongs to one stage at a time. A nested stage (the
embedding in the vector source) is subtracted from the outer one. So the stages add up to the recall, and the rest
lies between them: tasks and the event loop.
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
from orion_recall.recall.bundle import lines
from orion_recall.recall.candidates import filters
from orion_recall.recall.ranking import score
from orion_recall.recall.search import follow_up

P = ParamSpec("P")
T = TypeVar("T")

UNDERSTANDING, EMBEDDING = "understanding", "embedding, as the worker does it"
VECTOR, KEYWORDS, GRAPH, TIMELINE = "vector source", "keyword source", "graph source", "timeline source"
FUSION, READING, LATE = "fusion", "reading the memories", "late interaction"
ADMITTING, LINKS, SECOND_STEP = "filters", "following: titles", "following: second step"
SCORING, DUPLICATES = "scoring", "near-duplicates"
SELECTING, RENDERING, CONFIDENCE, BETWEEN = "selection", "rendering", "confidence", "between the stages"
STAGES = (
    UNDERSTANDING, EMBEDDING, VECTOR, KEYWORDS, GRAPH, TIMELINE, FUSION, READING, LATE, ADMITTING, LINKS,
    SECOND_STEP, SCORING, DUPLICATES, SELECTING, RENDERING, CONFIDENCE, BETWEEN,
)  # fmt: skip

# The functions that a recall calls (module, name), and the stage of each.
_CALLED: tuple[tuple[ModuleType, str, str], ...] = (
    (pipeline, "understand", UNDERSTANDING),
    (search_pass, "fuse", FUSION),
    (search_pass, "without_deleted", ADMITTING),
    (search_pass, "visible", ADMITTING),
    (filters, "in_asked_time", ADMITTING),
    (search_pass, "score_candidates", SCORING),
    (score, "said_once", DUPLICATES),
    (pipeline, "select", SELECTING),
    (lines, "head", RENDERING),
    (lines, "parts_of", RENDERING),
    (lines, "snippet", RENDERING),
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
    """Assigns the CPU of this process to stages while it is on; off, it does nothing."""

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
        """The CPU of the block, without nested stages, counts for this stage."""
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
        """As `stage`, while no other such block runs. A nested block counts for the outer one."""
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
    """In the block a recall calls its stages through the clock; for the sources see `uncached`."""
    with ExitStack() as stack:
        for module, name, stage in _CALLED:
            stack.enter_context(patch.object(module, name, clock.called(stage, getattr(module, name))))
        for module, name, stage in _AWAITED:
            stack.enter_context(patch.object(module, name, clock.awaited(stage, getattr(module, name))))
        yield
