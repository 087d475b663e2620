"""Removes what is forgotten from the streams of the bus: replies, decisions, dead letters.

An entry holds what is forgotten when it names one of the memories, or who is forgotten. Replies and dead letters
that do are deleted. A decision that is not in the log yet is replaced by itself without words: it is persisted all
the same. What waits on an intake stream is left to the worker that serves it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, cast

from redis.asyncio import Redis
from redis.exceptions import RedisError, ResponseError

from orion_recall.decisions.blanking import blanked
from orion_recall.memory.forget.record import Report, Target
from orion_recall.settings import DECISIONS_GROUP, Settings

_AT_ONCE = 100
_REWRITE_S = 120.0
_POLL_S = 0.1
_STRING = re.compile(rb'"(?:[^"\\]|\\.)*"')
_KEYS = {"user": ("user", "user_id"), "session": ("session", "session_id"), "tenant": ("tenant",)}
_Fields = Mapping[bytes, bytes]
_Row = tuple[bytes, _Fields]


class Matcher:
    """Tells whether an entry holds what is forgotten."""

    def __init__(self, target: Target, ids: Collection[str], default_tenant: str) -> None:
        self._target, self.ids, self._default = target, frozenset(ids), default_tenant
        names = "|".join(re.escape(one) for one in target.values)
        self._names = re.compile(rf"(?<!\w)(?:{names})(?!\w)", re.IGNORECASE) if target.kind == "person" else None

    def matches(self, fields: _Fields) -> bool:
        """Whether it does. One that names only other tenants does not."""
        texts = [one for value in fields.values() for one in _texts(value)]
        tenants = {text for key, text in texts if key == "tenant"}
        if tenants and self._target.tenant not in tenants:
            return False
        if not self.ids.isdisjoint(text for _, text in texts):
            return True
        if self._names is not None:
            return any(self._names.search(text) for _, text in texts)
        if self._target.kind == "tenant":
            return bool(tenants) or (self._target.tenant == self._default and _is_message(fields))
        keys = _KEYS.get(self._target.kind, ())
        return any(key in keys and text == self._target.values[0] for key, text in texts)

    def is_by(self, payload: Mapping[str, Any]) -> bool:
        """Whether a decision is on a recall by whom is forgotten."""
        value = self._target.values[0] if self._target.values else self._target.tenant
        return any(payload.get(name) == value for name in _KEYS.get(self._target.kind, ()))


class ForgetBus:
    """The streams of one installation. `is_ours`: the server is the embedded one of this data folder."""

    def __init__(
        self,
        redis: Redis,
        settings: Settings,
        *,
        is_ours: bool,
        of_others: Callable[[Sequence[str]], Awaitable[Collection[str]]],
    ) -> None:
        """`of_others` gives those of some correlation ids whose recalls were other tenants': a reply names none."""
        self._redis, self._settings, self.is_ours, self._of_others = redis, settings, is_ours, of_others

    async def clear(self, matcher: Matcher, *, dry_run: bool = False) -> dict[str, int]:
        """Removes entries that match, or counts them: by what the stream is."""
        settings = self._settings
        found = {"replies": 0, "decision stream": 0, "dead letters": 0, "waiting messages": 0}
        dead = [f"{stream}:dead" for stream in (*settings.intake_streams.values(), settings.decision_stream)]
        for stream in dead:
            found["dead letters"] += await self._delete(stream, matcher, dry_run=dry_run)
        async for stream in self._reply_streams():
            found["replies"] += await self._delete(stream, matcher, dry_run=dry_run)
        found["decision stream"] = await self._decisions(matcher, dry_run=dry_run)
        for stream in settings.intake_streams.values():
            found["waiting messages"] += await self._delete(stream, matcher, dry_run=True)
        return found

    async def rewrite(self, report: Report) -> None:
        """Rewrites the embedded server's files without what was deleted; of another one says what is left to do."""
        if not self.is_ours:
            report.add(
                "bus: files of its server",
                what="entries were deleted",
                remains="their bytes, in its append-only file, snapshots and replicas",
                until="its operator rewrites them (BGREWRITEAOF, with aof-use-rdb-preamble no)",
            )
            return
        try:
            # As commands: a snapshot would take blocks of streams along as they are, deleted entries included.
            await self._call("CONFIG", "SET", "aof-use-rdb-preamble", "no")
            await self._rewritten()
            await self._call("SLOWLOG", "RESET")
        except (RedisError, TimeoutError) as error:
            report.unfinished.append(f"the bus's append-only file could not be rewritten: {error or 'in time'}")
            return
        report.add("bus: append-only file", what="rewritten")

    async def _rewritten(self) -> None:
        async with asyncio.timeout(_REWRITE_S):
            await self._idle()  # one that runs already began before the entries were deleted
            await self._call("BGREWRITEAOF")
            await asyncio.sleep(_POLL_S)
            await self._idle()

    async def _idle(self) -> None:
        while True:
            told = cast("dict[str, Any]", await cast("Any", self._redis).info("persistence"))
            if not told.get("aof_rewrite_in_progress") and not told.get("aof_rewrite_scheduled"):
                return
            await asyncio.sleep(_POLL_S)

    async def _call(self, *command: str) -> Any:
        return await cast("Any", self._redis).execute_command(*command)

    async def _reply_streams(self) -> AsyncGenerator[str]:
        seen: set[str] = set()
        for pattern in self._settings.reply_streams:
            keys = cast("Any", self._redis).scan_iter(match=_literal(self._settings.prefix) + pattern, count=1000)
            async for key in keys:
                name = cast("bytes", key).decode("utf-8", "surrogateescape")
                if name not in seen and await cast("Any", self._redis).type(key) == b"stream":
                    seen.add(name)
                    yield name

    async def _pages(self, stream: str) -> AsyncGenerator[list[_Row]]:
        first = "-"
        while True:
            try:
                rows = cast("list[_Row]", await self._redis.xrange(stream, min=first, count=_AT_ONCE))
            except ResponseError:  # no stream: it is not ours
                return
            if not rows:
                return
            yield rows
            first = f"({rows[-1][0].decode()}"

    async def _delete(self, stream: str, matcher: Matcher, *, dry_run: bool) -> int:
        count = 0
        async with contextlib.aclosing(self._pages(stream)) as pages:
            async for rows in pages:
                matching = await self._own(await asyncio.to_thread(_matching, matcher, rows))
                count += len(matching)
                if matching and not dry_run:
                    await self._redis.xdel(stream, *matching)
        return count

    async def _own(self, rows: Sequence[_Row]) -> list[bytes]:
        """The ids of entries that are not answers to recalls of other tenants."""
        correlations = {entry_id: _correlation(fields) for entry_id, fields in rows}
        asked = [one for one in correlations.values() if one]
        others = frozenset(await self._of_others(asked)) if asked else frozenset[str]()
        return [entry_id for entry_id, correlation in correlations.items() if correlation not in others]

    async def _decisions(self, matcher: Matcher, *, dry_run: bool) -> int:
        """Those in the log are deleted here; the others are replaced by themselves without words."""
        stream, count = self._settings.decision_stream, 0
        async with contextlib.aclosing(self._pages(stream)) as pages:
            async for rows in pages:
                matching = await asyncio.to_thread(_matching, matcher, rows)
                for entry_id, fields in matching:
                    changed = await asyncio.to_thread(_without_words, fields, matcher)
                    if changed == fields:
                        continue
                    count += 1
                    if not dry_run:
                        await self._replace(stream, entry_id, changed)
        return count

    async def _replace(self, stream: str, entry_id: bytes, fields: _Fields) -> None:
        is_open = await self._is_open(stream, entry_id)
        async with self._redis.pipeline(transaction=True) as pipeline:
            if is_open:
                pipeline.xadd(stream, cast("Any", dict(fields)))
            pipeline.xack(stream, DECISIONS_GROUP, entry_id)
            pipeline.xdel(stream, entry_id)
            await pipeline.execute()

    async def _is_open(self, stream: str, entry_id: bytes) -> bool:
        """Whether it is not in the log yet: no sink has read it, or none has acknowledged it."""
        name = entry_id.decode()
        for group in await self._groups(stream):
            if _parts(name) > _parts(group["last-delivered-id"]):
                return True
            pending = await self._redis.xpending_range(stream, DECISIONS_GROUP, name, name, 1)
            return bool(pending)
        return True

    async def _groups(self, stream: str) -> list[dict[str, Any]]:
        try:
            groups = cast("list[dict[str, Any]]", await cast("Any", self._redis).xinfo_groups(stream))
        except ResponseError:
            return []
        return [one for one in groups if one["name"] in (DECISIONS_GROUP, DECISIONS_GROUP.encode())]


def _without_words(fields: _Fields, matcher: Matcher) -> dict[bytes, bytes]:
    """A decision's entry with its payload blanked; one that cannot be read loses all."""
    try:
        envelope = json.loads(fields[b"envelope"])
        payload = cast("dict[str, Any]", envelope["payload"])
        envelope["payload"] = blanked(payload, with_asker=matcher.is_by(payload), ids=matcher.ids)
        if envelope["payload"] == payload:
            return dict(fields)
        return {b"envelope": json.dumps(envelope, ensure_ascii=False, separators=(",", ":")).encode()}
    except (KeyError, TypeError, ValueError, RecursionError):
        return {b"envelope": b""}


def _matching(matcher: Matcher, rows: Sequence[_Row]) -> list[_Row]:
    return [row for row in rows if matcher.matches(row[1])]


def _correlation(fields: _Fields) -> str:
    with contextlib.suppress(KeyError, TypeError, ValueError, RecursionError):
        return str(json.loads(fields[b"envelope"])["correlation_id"])
    return ""


def _texts(value: bytes) -> Iterator[tuple[str, str]]:
    """The texts in a value: of JSON each with its key, of anything else what stands in quotation marks."""
    with contextlib.suppress(ValueError, RecursionError):
        yield from _walked("", json.loads(value))
        return
    for match in _STRING.finditer(value):
        with contextlib.suppress(ValueError):
            yield "", json.loads(match.group())
    yield "", value.decode("utf-8", "replace")


def _walked(key: str, value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield key, value
    elif isinstance(value, dict):
        for name, one in cast("dict[str, Any]", value).items():
            yield "", name
            yield from _walked(name, one)
    elif isinstance(value, list):
        for one in cast("list[Any]", value):
            yield from _walked(key, one)


def _is_message(fields: _Fields) -> bool:
    """Whether it is a message of a caller, set aside; one that names no tenant is of the default one."""
    return any(name.startswith(b"field:") or name == b"message_head" for name in fields)


def _literal(text: str) -> str:
    return re.sub(r"([*?\[\]\\^])", r"\\\1", text)


def _parts(entry_id: bytes | str) -> tuple[int, int]:
    text = entry_id.decode() if isinstance(entry_id, bytes) else entry_id
    milliseconds, _, sequence = text.partition("-")
    return int(milliseconds), int(sequence or 0)
