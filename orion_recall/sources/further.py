"""Sources of other packages: opened as their specs say. Whatever they raise costs their own hits alone.

Here is all that is expected of the code of others: that it raises anything, gives anything, and does not end.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, contextmanager
from functools import cache
from numbers import Integral, Real
from typing import Any, cast

from orion_recall.errors import ModelError, OrionError, PartialSourceError, SourceError
from orion_recall.interfaces import Source, Unavailable, answers_for
from orion_recall.packages import PackageSettings, every_refused
from orion_recall.source_specs import FURTHER_SOURCES, SourceSpec, further_sources
from orion_recall.sources.hits import MOST_LINE, MOST_NAME, MOST_TAGS, MOST_TEXT
from orion_recall.tasks import report
from orion_recall.text.normal import storable
from orion_recall.values import Hit, MemoryView, SearchRequest, SourceName, ToldTime

log = logging.getLogger("orion_recall.sources")

_OPEN_S, _CLOSE_S = 10.0, 5.0


class FurtherSource:
    """A source of another package. What it raises that is no error of ours becomes a SourceError of its type.

    The text of such an error may quote a memory, so it is not shown. A hit that is none, or whose fields are of
    another type than they are declared, is an error too; so is a memory that cannot be shown, when it is read.
    """

    def __init__(self, spec: SourceSpec, opened: Source) -> None:
        self.name: SourceName = spec.name
        self._spec, self._opened = spec, opened

    def answers_for(self, tenant: str) -> bool:
        """Whether the tenant may have hits; no, where the source fails to say so, or says anything but True."""
        try:
            return answers_for(self._opened, tenant) is True
        except BaseException as error:  # noqa: BLE001 (logged)
            _note(f"the source {self.name} does not say for whom it answers", error)
            return False

    async def search(self, request: SearchRequest) -> Sequence[Hit]:
        """Its hits, best first, as many as were asked for at most. SourceError for what it raises."""
        with _contained(f"the source {self.name} failed"):
            try:
                found = await self._opened.search(request)
            except PartialSourceError as error:
                raise PartialSourceError(str(error), _best(error.hits, request.limit)) from error
            return _best(found, request.limit)

    async def check(self) -> str | None:
        """What its spec's `check` says of it; None where there is none. SourceError for what that raises."""
        if self._spec.check is None:
            return None
        with _contained(f"the check of the source {self.name} failed"):
            return await self._spec.check(self._opened)


@contextmanager
def _contained(what: str) -> Generator[None]:
    """Raise what the block raises as a SourceError of its type, and log it as `what`; our own errors stay.

    Ctrl-C and the end of this task pass.
    """
    try:
        yield
    except (SourceError, ModelError):
        raise
    except BaseException as error:
        _note(what, error)
        raise SourceError(f"unexpected: {type(error).__name__}") from error


def _note(what: str, error: BaseException) -> None:
    """Log the error as `what`; raise it again where it is Ctrl-C, or where this task is being cancelled.

    Any other CancelledError is one that the code of others raised, which nobody waits for.
    """
    if isinstance(error, KeyboardInterrupt):
        raise error
    if isinstance(error, asyncio.CancelledError) and (task := asyncio.current_task()) and task.cancelling() > 0:
        raise error
    report(what, error)


def _best(found: Iterable[object], limit: int) -> Sequence[Hit]:
    hits = [_sound(hit) for hit in found]
    hits.sort(key=lambda hit: (-hit.score, hit.key))
    return hits[:limit]


def _sound(hit: object) -> Hit:
    """The hit; TypeError, ValueError or OverflowError for what cannot be fused or shown."""
    if not isinstance(hit, Hit):
        raise TypeError("no Hit")
    given: Mapping[str, Any] = hit._asdict()
    key, read = given["key"], given["read"]
    if type(key) is bool or not isinstance(key, Integral) or not 0 <= int(key) < _KEYS:
        raise ValueError("a key is a number from 0 to 2**63 - 1")
    return Hit(
        key=int(key),
        score=_number(given["score"]),
        read=None if read is None else cache(lambda: _read(read)),  # a recall reads it several times
        statements=_texts(given["statements"], MOST_LINE),
        path=_number(given["path"]),
        source_ref=_text(given["source_ref"], MOST_LINE, may_miss=True),
    )


def _read(read: Callable[[], object]) -> MemoryView:
    """The memory of a hit. SourceError for whatever `read` raises or gives that cannot be shown; it is not logged
    here, since every hit may be like it."""
    try:
        return _sound_memory(read())
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise SourceError(f"unexpected: {type(error).__name__}") from error


_KEYS = 2**63
_MOST: Mapping[str, int] = {
    "id": MOST_LINE,
    "text": MOST_TEXT,
    "text_hash": MOST_NAME,
    "title": MOST_LINE,
    "uri": MOST_LINE,
    "source_ref": MOST_LINE,
    **dict.fromkeys(("kind", "guessed_kind", "speaker", "session_id", "user_id", "agent_id", "run_id"), MOST_NAME),
}
_CUT = ("text", "title", "uri")  # of the others two could be one
_NEEDED = ("id", "text", "text_hash")
_NUMBERS = ("ts", "until", "confidence")
_FLAGS = ("after_question", "first_person", "chatter", "assistant")


def _sound_memory(memory: object) -> MemoryView:
    """The memory, of which other memories' keys are left out: they are those of our own index alone.

    TypeError, ValueError or OverflowError for a field that is not as `MemoryView` declares it.
    """
    if not isinstance(memory, MemoryView):
        raise TypeError("no MemoryView")
    given: Mapping[str, Any] = memory._asdict()
    fields: dict[str, Any] = {
        **{
            name: _text(given[name], most, may_miss=name not in _NEEDED, is_cut=name in _CUT)
            for name, most in _MOST.items()
        },
        **{name: None if given[name] is None else _number(given[name]) for name in _NUMBERS},
        **{name: bool(given[name]) for name in _FLAGS},
        **{name: _texts(given[name], MOST_NAME) for name in ("tags", "entities")},
        "told": tuple(
            ToldTime(_number(since), _number(until), bool(weekly)) for since, until, weekly in given["told"]
        ),
    }
    return MemoryView(**fields)


def _text(value: object, most: int, *, may_miss: bool = False, is_cut: bool = False) -> str | None:
    if value is None and may_miss:
        return None
    if not isinstance(value, str):
        raise TypeError("no text")
    if len(value) > most and not is_cut:
        raise ValueError("a text that is too long")
    return storable(value[:most])


def _texts(values: object, most: int) -> tuple[str, ...]:
    if not isinstance(values, tuple | list):
        raise TypeError("no texts")
    given = cast("Sequence[object]", values)[:MOST_TAGS]
    if not all(isinstance(value, str) for value in given):
        raise TypeError("no text")
    return tuple(storable(value[:most]) for value in cast("Sequence[str]", given))


def _number(value: object) -> float:
    if not isinstance(value, Real) or not math.isfinite(value):
        raise ValueError("no finite number")
    return float(value)


async def open_further(settings: PackageSettings, stack: AsyncExitStack) -> Mapping[SourceName, Source]:
    """The sources of other packages by name, closed with the stack; one that cannot be opened says why.

    What of these packages cannot be used is logged.
    """
    for refused in every_refused():
        log.warning("%s", refused)
    found: dict[SourceName, Source] = {}
    for spec in further_sources():
        try:
            found[spec.name] = await open_one(spec, settings, stack)
        except SourceError as error:
            log.warning("%s", error)
            # Which tenants it is for is not known then: recalls are not told the reason, which is the operator's.
            told = f"the source {spec.name} could not be opened: the log and `doctor` say why"
            found[spec.name] = Unavailable(spec.name, str(error), told=told)
    return found


async def open_one(spec: SourceSpec, settings: PackageSettings, stack: AsyncExitStack) -> FurtherSource:
    """The open source, closed with the stack. SourceError, which names the package, for whatever it raises."""
    assert spec.open is not None
    limit = asyncio.timeout(_OPEN_S)
    try:
        async with limit:
            context = spec.open(settings)
            source = await context.__aenter__()
    except OrionError as error:
        raise SourceError(_told(spec, str(error))) from error
    except BaseException as error:
        # The text of any other error is not meant to be shown: it may have an address with its password.
        _note(f"the source {spec.name} cannot be opened", error)
        is_late = limit.expired() and isinstance(error, TimeoutError)
        why = f"it was not open within {_OPEN_S:.0f} s" if is_late else type(error).__name__
        raise SourceError(_told(spec, why)) from error
    stack.push_async_callback(_close, spec, context)
    return FurtherSource(spec, source)


def _told(spec: SourceSpec, why: str) -> str:
    return f"the source {spec.name} of the package {FURTHER_SOURCES.package_of(spec.name)} cannot be opened: {why}"


async def _close(spec: SourceSpec, context: AbstractAsyncContextManager[Source]) -> None:
    try:
        async with asyncio.timeout(_CLOSE_S):
            await context.__aexit__(None, None, None)
    except BaseException as error:  # noqa: BLE001 (logged)
        _note(f"the source {spec.name} could not be closed", error)
