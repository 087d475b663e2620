"""The client: recalls and stores memories over the bus, many calls at once on one reply stream.

async with RecallClient.connect("redis://localhost:6379") as client:
    reply = await client.recall("what did Ana say about the harbour?", profile="reflect.v1")
    prompt = reply.bundle.rendered

`SyncRecallClient` is the same for code without an event loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import threading
from collections.abc import AsyncGenerator, Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from concurrent.futures import CancelledError, Future, wait
from datetime import datetime
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar, Unpack, cast
from uuid import UUID

from pydantic import BaseModel

from orion_recall.bus.calls import CallOptions, Calls, ConnectOptions, TraceOptions
from orion_recall.contracts import (
    DELETE_KIND,
    FEEDBACK_KIND,
    QUERY_KIND,
    STORE_KIND,
    UPDATE_KIND,
    MemoryDeleteV1,
    MemoryReceiptV1,
    MemoryUpdateV1,
    MemoryV1,
    MemoryWhereV1,
    RecallFeedbackV1,
    RecallOptionsV1,
    RecallQueryV1,
    RecallReceiptV1,
    RecallReplyV1,
    read_message,
)
from orion_recall.contracts.fields import refuse_unknown, refuse_unknown_names
from orion_recall.contracts.memory import MAX_WAIT_MS
from orion_recall.errors import BusUnavailable, ClientError, InvalidMessage

Reply = TypeVar("Reply", bound=BaseModel)
P = ParamSpec("P")
R = TypeVar("R")
_STORED = MemoryV1.model_fields.keys()
_CHANGED = _STORED | {"expected_version"}
_LONGEST_WAIT_S = MAX_WAIT_MS // 1000


class RecallClient:
    """Calls orion-recall over the bus. One reply stream per client, deleted when the client closes.

    Every call also takes:

    - `timeout_s`: seconds to wait for the reply, a finite number; it is the message's time to live as well.
    - `correlation_id`: the caller's own, a UUID or text; a new UUID where it is not given. Strict readers of the
      mesh take UUIDs only. Two calls of one client that are in flight at once cannot share one.
    - `trace`: an object that comes back unchanged, such as {"traceparent": …}.
    - `causality_chain`: the messages that led to this one, oldest first, each {correlation_id: UUID, kind, source:
      {name, node, version, instance}, created_at}.

    Every call raises

    - InvalidMessage before anything is sent: a field that the contract does not know, a value that it does not
      take, a time-out that is no finite number, an invalid causality link, a correlation id that is in flight, a
      message that is too large;
    - ReplyTimeout when no reply comes in time;
    - BusUnavailable when the bus cannot be reached or the client is closed, and its subclass BusRefused when the
      bus answers with a refusal (memory full, no permission).

    An error in a worker's answer is no exception: see `reply.error` and `receipt.error`.
    """

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    @property
    def reply_stream(self) -> str:
        """The stream on which replies to this client arrive."""
        return self._calls.reply_stream

    @classmethod
    @contextlib.asynccontextmanager
    async def connect(cls, url: str, **options: Unpack[ConnectOptions]) -> AsyncGenerator[RecallClient]:
        """A connected client.

        `url` is the bus's address: redis://, rediss://, unix:// or redis+sentinel://. Options are

        - `prefix`: what stands before the names of all streams (ORION_PREFIX of the workers).
        - `service`: the source name of the messages.
        - `max_query_bytes`, `max_message_bytes`: a larger query, or other message, is not sent, for no worker would
          read it (ORION_MAX_QUERY_BYTES and ORION_MAX_MESSAGE_BYTES of the workers).
        - `key`: the file of the key that messages are signed with (default: what ORION_KEY names, else unsigned).

        Raises SettingsError for an invalid address or key, BusUnavailable when the server does not answer,
        BusRefused when it denies the user access.
        """
        async with Calls.connect(url, **options) as calls:
            yield cls(calls)

    async def recall(
        self,
        query: str | RecallQueryV1,
        *,
        verb: str | None = None,
        intent: str | None = None,
        session_id: str | None = None,
        node_id: str | None = None,
        profile: str | None = None,
        options: RecallOptionsV1 | Mapping[str, Any] | None = None,
        timeout_s: float = 10.0,
        **how: Unpack[CallOptions],
    ) -> RecallReplyV1:
        """The reply to one query.

        `query` is the text, or a ready-made RecallQueryV1, which allows no further fields (TypeError).
        `session_id` is the session that asks, `node_id` the node, `profile` how to recall; words of `intent` join
        the search, `verb` is kept with the decision. `options` are those of RecallOptionsV1: tenant, scope, user,
        agent_id, run_id, k (items at most), budget, max_tokens (of the rendered text), min_score (0 to 1), kinds,
        tags, since, until, as_of (times with a zone), timezone, exclude, cascade, no_answer and more.

        Raises as the class says. An answered error (expired, refused, …) is `reply.error`, with an empty bundle.
        """
        given = _given(
            verb=verb, intent=intent, session_id=session_id, node_id=node_id, profile=profile, options=options
        )
        if not isinstance(query, RecallQueryV1):
            query = _read(RecallQueryV1, {"fragment": query, **given}, "query")
        elif given:
            raise TypeError(f"a ready-made query takes no further fields: set {', '.join(given)} in it")
        if query.reply_to:
            raise InvalidMessage("query.reply_to: replies come to the client: leave it out")
        payload = _json(query)
        payload["options"] = payload.get("options") or {}  # without them a reply has no room for an error
        return await self._call(QUERY_KIND, payload, RecallReplyV1, timeout_s, **how)

    async def store(
        self,
        memories: Sequence[Mapping[str, Any]],
        *,
        wait_s: float | None = None,
        timeout_s: float = 60.0,
        **how: Unpack[CallOptions],
    ) -> MemoryReceiptV1:
        """The receipt for up to 1,000 memories, each a mapping of MemoryV1's fields.

        `id` and `text` are needed; times (`occurred_at`, …) are ISO 8601 text or datetimes, with a zone. Each
        memory is judged alone: `receipt.results` has its status, and why it was rejected.

        It comes when the next recall can find them, on any worker, after `wait_s` seconds at most: 0 to 30, by
        default what ORION_ACKNOWLEDGE_MS of the workers says, 2. `receipt.pending` is True where that was not long
        enough, and `receipt.pending_in` names what does not have them yet: index, graph. Raises as the class says.
        """
        payload = {"memories": _memories(memories, _STORED)} | _waiting_for(wait_s)
        return await self._call(STORE_KIND, payload, MemoryReceiptV1, timeout_s, **how)

    async def update(
        self,
        memories: Sequence[Mapping[str, Any]] | None = None,
        *,
        where: MemoryWhereV1 | Mapping[str, Any] | None = None,
        set: Mapping[str, Any] | None = None,
        tenant: str | None = None,
        actor: str | None = None,
        idempotency_key: str | None = None,
        expected_count: int | None = None,
        wait_s: float | None = None,
        timeout_s: float = 60.0,
        **how: Unpack[CallOptions],
    ) -> MemoryReceiptV1:
        """The receipt for changes: of each memory by `id`, or by `set` of all that `where` matches.

        Each of `memories` has `id`, the fields to change (None clears one), and perhaps `expected_version`.
        `expected_count` is how many `where` must match; without it nothing changes, and `receipt.matched` says how
        many it would be. `actor` is recorded in the history. The same request under the same
        `idempotency_key` gets the first receipt again. `wait_s`, `receipt.pending` and `receipt.pending_in` are as
        in `store`; meanwhile recalls leave the memories out. Raises as the class says.
        """
        given = _given(
            memories=None if memories is None else _memories(memories, _CHANGED),
            where=where,
            set=None if set is None else _memory(set, _STORED, "set"),
            tenant=tenant,
            actor=actor,
            idempotency_key=idempotency_key,
            expected_count=expected_count,
            **_waiting_for(wait_s),
        )
        payload = _json(_read(MemoryUpdateV1, given, "message"))
        return await self._call(UPDATE_KIND, payload, MemoryReceiptV1, timeout_s, **how)

    async def delete(
        self,
        ids: Sequence[str] | None = None,
        *,
        where: MemoryWhereV1 | Mapping[str, Any] | None = None,
        tenant: str | None = None,
        actor: str | None = None,
        reason: str | None = None,
        erase: bool = False,
        idempotency_key: str | None = None,
        expected_count: int | None = None,
        wait_s: float | None = None,
        timeout_s: float = 60.0,
        **how: Unpack[CallOptions],
    ) -> MemoryReceiptV1:
        """The receipt for deletions, by id or by what `where` matches. A deleted memory never comes back.

        With `erase` the history keeps no word of them either. `reason` and `actor` are for the history;
        `expected_count`, `idempotency_key` and `wait_s` are as in `update`. `receipt.pending` is False once nothing
        shows the memories any more. Raises as the class says.
        """
        given = _given(
            ids=ids,
            where=where,
            tenant=tenant,
            actor=actor,
            reason=reason,
            erase=erase or None,
            idempotency_key=idempotency_key,
            expected_count=expected_count,
            **_waiting_for(wait_s),
        )
        payload = _json(_read(MemoryDeleteV1, given, "message"))
        return await self._call(DELETE_KIND, payload, MemoryReceiptV1, timeout_s, **how)

    async def feedback(
        self,
        *,
        decision_id: str | None = None,
        correlation_id: UUID | str | None = None,
        tenant: str | None = None,
        used: Sequence[str] = (),
        wrong: Sequence[str] = (),
        note: str | None = None,
        actor: str | None = None,
        timeout_s: float = 10.0,
        **how: Unpack[TraceOptions],
    ) -> RecallReceiptV1:
        """Give feedback on a recall, under that recall's `tenant`.

        The recall is named by `decision_id` (`reply.bundle.stats.decision_id`) or by its `correlation_id`: here
        that is the recall's, and the message itself gets a new one. `used` and `wrong` are ids of its items, `note`
        is text for people, `actor` the sender. Raises as the class says.
        """
        given = _given(
            decision_id=decision_id,
            correlation_id=None if correlation_id is None else str(correlation_id),
            tenant=tenant,
            used=used or None,
            wrong=wrong or None,
            note=note,
            actor=actor,
        )
        payload = _json(_read(RecallFeedbackV1, given, "message"))
        return await self._call(FEEDBACK_KIND, payload, RecallReceiptV1, timeout_s, **how)

    async def _call(
        self,
        kind: str,
        payload: Mapping[str, Any],
        model: type[Reply],
        timeout_s: float,
        **how: Unpack[CallOptions],
    ) -> Reply:
        return read_message(model, await self._calls.call(kind, payload, timeout_s=timeout_s, **how), "reply")


def _given(**fields: Any) -> dict[str, Any]:
    """The fields that were given."""
    return {name: value for name, value in fields.items() if value is not None}


def _waiting_for(wait_s: float | None) -> dict[str, int]:
    if wait_s is None:
        return {}
    if not (isinstance(wait_s, int | float) and 0 <= wait_s <= _LONGEST_WAIT_S):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidMessage(f"wait_s: expected 0 to {_LONGEST_WAIT_S} seconds (got {wait_s!r:.60})")
    return {"wait_ms": round(wait_s * 1000)}


def _read(model: type[Reply], fields: Mapping[str, Any], where: str) -> Reply:
    """The validated message; InvalidMessage when it is invalid or has an unknown field."""
    refuse_unknown(model, fields, where)
    return read_message(model, fields, where)


def _json(message: BaseModel) -> dict[str, Any]:
    return message.model_dump(mode="json", exclude_unset=True)


def _memories(memories: Sequence[Mapping[str, Any]], known: Collection[str]) -> list[dict[str, Any]]:
    if not isinstance(memories, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidMessage(f"memories: expected a list of memories (got {memories!r:.60})")
    return [_memory(memory, known, f"memories.{place}") for place, memory in enumerate(memories)]


def _memory(memory: object, known: Collection[str], where: str) -> dict[str, Any]:
    """The fields of one memory as JSON values; the worker validates them."""
    if not isinstance(memory, Mapping):
        raise InvalidMessage(f"{where}: expected a mapping of a memory's fields (got {memory!r:.60})")
    fields = cast("Mapping[str, Any]", memory)
    refuse_unknown_names(fields, known, where)
    return {name: value.isoformat() if isinstance(value, datetime) else value for name, value in fields.items()}


# Python sees a signal that comes in the instant before a wait only when the wait ends.
_SIGNALS_EVERY_S = 0.25


def _waiting(
    method: Callable[Concatenate[RecallClient, P], Coroutine[Any, Any, R]],
) -> Callable[Concatenate[SyncRecallClient, P], R]:
    @functools.wraps(method)
    def call(self: SyncRecallClient, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return self._wait(lambda: method(self._client, *args, **kwargs))  # pyright: ignore[reportPrivateUsage]

    return call


class SyncRecallClient:
    """The calls of `RecallClient`, each waiting for its reply. Any number of threads may call at once.

        with SyncRecallClient.connect("redis://localhost:6379") as client:
            prompt = client.recall("what did Ana say about the harbour?").bundle.rendered

    Fields and errors are those of `RecallClient`. It keeps an event loop of its own in a thread, so it also works
    where another loop runs (a notebook); that one stands still while a call waits. Ctrl-C ends the call that waits,
    and further calls can be made. Close it, or use it as a context manager: that ends the thread and deletes the
    reply stream. A process that was forked needs a client of its own.
    """

    recall = _waiting(RecallClient.recall)
    store = _waiting(RecallClient.store)
    update = _waiting(RecallClient.update)
    delete = _waiting(RecallClient.delete)
    feedback = _waiting(RecallClient.feedback)

    def __init__(self, opening: contextlib.AbstractAsyncContextManager[RecallClient]) -> None:
        """Use `connect`."""
        self._process = os.getpid()
        self._lock = threading.Lock()  # between a call that is handed over and the end of the loop
        self._open = True
        self._stack = contextlib.AsyncExitStack()
        started: Future[tuple[asyncio.AbstractEventLoop, asyncio.Task[Any]]] = Future()
        self._thread = threading.Thread(
            target=lambda: asyncio.run(self._keep_running(started)), name="orion-recall-client", daemon=True
        )
        self._thread.start()
        self._loop, self._running = started.result()
        with contextlib.ExitStack() as unless_connected:
            unless_connected.callback(self.close)
            self._client = self._wait(lambda: self._stack.enter_async_context(opening))
            unless_connected.pop_all()

    @classmethod
    def connect(cls, url: str, **options: Unpack[ConnectOptions]) -> Self:
        """A connected client. Options and errors are those of `RecallClient.connect`."""
        return cls(RecallClient.connect(url, **options))

    def close(self) -> None:
        """Deletes the reply stream and ends the thread. Calls that wait get BusUnavailable. May be called again."""
        with self._lock:
            was_open, self._open = self._open, False
        if os.getpid() != self._process:
            return  # the thread, and the stream, are the other process's
        if was_open:
            self._loop.call_soon_threadsafe(self._running.cancel)
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def _keep_running(self, started: Future[tuple[asyncio.AbstractEventLoop, asyncio.Task[Any]]]) -> None:
        running = asyncio.current_task()
        assert running is not None
        with contextlib.suppress(asyncio.CancelledError):
            async with self._stack:
                started.set_result((asyncio.get_running_loop(), running))
                await asyncio.Event().wait()

    def _wait(self, call: Callable[[], Coroutine[Any, Any, R]]) -> R:
        if os.getpid() != self._process:
            raise ClientError("this client was connected by another process: connect one here")
        with self._lock:
            if not self._open:
                raise BusUnavailable("the client is closed")
            future = asyncio.run_coroutine_threadsafe(call(), self._loop)
        try:
            while not wait([future], timeout=_SIGNALS_EVERY_S).done:
                pass
            return future.result()
        except CancelledError as error:
            raise BusUnavailable("the client was closed before the reply came") from error
        finally:
            future.cancel()
