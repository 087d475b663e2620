"""The message envelope: `decode` reads any entry without raising, `encode` and `encode_request` write ours.

`decode` gives a `Received` for every entry. Where something is wrong, `Received.error` says what, and all that
could still be read (correlation id, reply address, trace) is there, so that the sender gets a reply.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NotRequired, TypedDict, Unpack, cast
from uuid import NAMESPACE_URL, uuid5

from orion_recall.bus.bounded import ON_LOOP_BYTES, TOO_DEEP, is_too_deep, json_object, sender_of, too_large
from orion_recall.bus.group_reader import Entry
from orion_recall.bus.signing.keys import Caller
from orion_recall.contracts import QUERY_KIND, Envelope, count_unknown, read_message
from orion_recall.contracts.fields import is_link
from orion_recall.contracts.recall import QUERY_ALIASES
from orion_recall.errors import InvalidMessage, MessageError
from orion_recall.tasks import report
from orion_recall.text.ids import new_id
from orion_recall.text.normal import storable, storable_json

MESSAGE_FIELDS = (b"envelope", b"data")
# In place of a published message that was too large for the stream: its size in bytes, its first and last bytes.
LEFT_OUT_BYTES, LEFT_OUT_HEAD, LEFT_OUT_TAIL = b"left_out_bytes", b"left_out_head", b"left_out_tail"
_ALIASES = {QUERY_KIND: QUERY_ALIASES}
# What comes back with every reply: correlation id, reply address, trace, causality chain and the like.
_MOST_WITHOUT_PAYLOAD = 64 << 10
# NUL and halves of surrogate pairs, as escapes and as bytes.
_MAY_BE_UNSTORABLE = re.compile(rb"\\u(?:0000|[dD][89a-fA-F])|\x00|\xed")
# Unexpected errors that reading a value may raise.
_UNEXPECTED = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    """One entry, as far as it could be read.

    `onward_chain` is the causality chain of its reply. `has_options`: its sender reads more than V1 fields.
    `caller` is who signed it, where messages must be signed.
    """

    entry: Entry
    correlation_id: str
    payload: Mapping[str, Any]
    reply_to: str | None = None
    ttl_ms: int | None = None
    trace: Mapping[str, Any] | None = None
    onward_chain: tuple[Mapping[str, Any], ...] = ()
    has_options: bool = False
    unknown_fields: int = 0
    error: MessageError | None = None
    caller: Caller | None = None

    @property
    def size(self) -> int:
        return size_of(self.entry)

    @property
    def expires_at(self) -> float | None:
        """When the sender stops waiting, by the server's clock; None for never."""
        return None if self.ttl_ms is None else self.entry.added_at + self.ttl_ms / 1000


def raw_of(entry: Entry) -> bytes | None:
    """The message's bytes; None for an entry without one."""
    return next((entry.fields[name] for name in MESSAGE_FIELDS if name in entry.fields), None)


def size_of(entry: Entry) -> int:
    return sum(len(name) + len(value) for name, value in entry.fields.items())


def decode(
    entry: Entry, *, kind: str, max_bytes: int, sender_only: bool = False, now: float | None = None
) -> Received:
    """The message of the `kind`, or of its aliases, in an entry. It never raises: see `error`.

    With `sender_only` no more is read of it than whom to answer. `now` is the time by the bus's clock (default:
    this machine's): no entry came later.
    """
    try:
        return _decode(entry, kind, max_bytes, sender_only, time.time() if now is None else now)
    except _UNEXPECTED as error:  # an entry that raised here would stay pending for ever
        report(f"entry {entry.id} cannot be read", error)
        unreadable = InvalidMessage("the message cannot be read: the worker's log says where it failed")
        return Received(entry=entry, correlation_id=_uuid_of(entry), payload={}, error=unreadable)


def _decode(entry: Entry, kind: str, max_bytes: int, sender_only: bool, now: float) -> Received:
    try:
        data, problem = _found_in(entry, kind, max_bytes, sender_only)
    except InvalidMessage as error:
        return Received(entry=entry, correlation_id=_uuid_of(entry), payload={}, error=error)
    if size_of(entry) > ON_LOOP_BYTES and problem is None:
        data, problem = _with_small_envelope(data)
    raw_correlation_id = _first_text(data, ("correlation_id", "corr_id", "id")) or _uuid_of(entry)
    if problem is not None:
        return Received(
            entry=entry,
            correlation_id=raw_correlation_id,
            payload={},
            reply_to=_reply_to(data),
            has_options=_has_options(data),
            error=problem,
        )
    is_storable = _MAY_BE_UNSTORABLE.search(raw_of(entry) or b"") is None
    cleaned = data if is_storable else cast("dict[str, Any]", storable_json(data))
    payload = cast("dict[str, Any]", cleaned["payload"]) if isinstance(cleaned.get("payload"), dict) else {}
    error: InvalidMessage | None = None
    envelope: Envelope | None = None
    try:
        # What is in the payload is JSON, and is validated as what it is later: not also as an envelope's.
        without: dict[str, Any] = cleaned | {"payload": {}} if payload else cleaned
        envelope = read_message(Envelope, without, "envelope")
        if envelope.kind not in (None, kind, *_ALIASES.get(kind, ())):
            kinds = " or ".join((kind, *_ALIASES.get(kind, ())))
            expected = f"envelope.kind: expected {kinds} on this stream"
            raise InvalidMessage(f"{expected} (got {envelope.kind[:200]!r})", without_values=expected)
    except InvalidMessage as problem:
        error = problem
    chain = cleaned.get("causality_chain")
    steps = cast("list[Any]", chain) if isinstance(chain, list) else []
    links: list[Mapping[str, Any]] = [step for step in steps if is_link(step)]
    return Received(
        entry=entry,
        correlation_id=raw_correlation_id,
        payload=payload,
        reply_to=_reply_to(cleaned),
        ttl_ms=envelope.ttl_ms if envelope else None,
        trace=cleaned["trace"] if isinstance(cleaned.get("trace"), dict) else None,
        onward_chain=(*links, *_own_link(cleaned, envelope, raw_correlation_id, kind, min(entry.added_at, now))),
        has_options=_has_options(cleaned),
        unknown_fields=count_unknown(Envelope, cleaned) + len(steps) - len(links),
        error=error,
    )


class Head(TypedDict):
    """The fields of an envelope. `created_at` (default: now) comes back in the causality chain of the reply."""

    correlation_id: str
    source: Mapping[str, str]
    trace: NotRequired[Mapping[str, Any] | None]
    causality_chain: NotRequired[Iterable[Any]]
    created_at: NotRequired[datetime]


def encode(kind: str, payload: bytes, **head: Unpack[Head]) -> bytes:
    """An envelope with long names and a new id around a payload that is JSON already.

    Strict readers accept it: `trace` is an object and never null, and there are no further fields.
    """
    # The default escapes all but ASCII: a correlation id with a lone surrogate goes back exactly as it came.
    return json.dumps(_envelope(kind, head)).encode()[:-1] + b', "payload": ' + payload + b"}"


def encode_request(
    kind: str, payload: Mapping[str, Any], *, reply_to: str, ttl_ms: int | None, **head: Unpack[Head]
) -> bytes:
    """A request's envelope that strict readers accept; InvalidMessage for what a worker could not read."""
    trace = head.get("trace")
    if trace is not None and not isinstance(trace, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidMessage(f"trace: expected an object (got {trace!r:.60})")
    message = _envelope(kind, head) | {"ttl_ms": ttl_ms, "reply_to": reply_to, "payload": payload}
    if is_too_deep(message):
        raise InvalidMessage(TOO_DEEP)
    try:
        return json.dumps(message, allow_nan=False).encode()
    except (ValueError, TypeError) as error:
        raise InvalidMessage(f"the message cannot be written as JSON: {error}") from error


def _envelope(kind: str, head: Head) -> dict[str, Any]:
    return {
        "schema": "orion.envelope",
        "schema_version": "2.0.0",
        "id": new_id(),
        "correlation_id": head["correlation_id"],
        "kind": kind,
        "source": head["source"],
        "created_at": head.get("created_at", datetime.now(UTC)).isoformat(),
        "ttl_ms": None,
        "reply_to": None,
        "trace": dict(head.get("trace") or {}),
        "causality_chain": list(head.get("causality_chain", ())),
    }


def _uuid_of(entry: Entry) -> str:
    """A correlation id for a message without one: the same for every delivery of the entry."""
    return str(uuid5(NAMESPACE_URL, f"orion-recall:{entry.id}"))


def _has_options(data: Mapping[str, Any]) -> bool:
    payload = data.get("payload")
    return isinstance(payload, dict) and cast("dict[str, Any]", payload).get("options") not in (None, "")


def _own_link(
    data: Mapping[str, Any], envelope: Envelope | None, correlation_id: str, kind: str, added_at: float
) -> list[Mapping[str, Any]]:
    """The link for the message that is answered; none where strict readers would refuse it.

    Of an invalid envelope, the parts that can be read are used.
    """
    # Never later than now: the sender may have chosen the entry id, and no date holds a time in the far future.
    created = datetime.fromtimestamp(added_at, UTC)
    if envelope is not None:
        if envelope.source is None:
            return []
        told, source = envelope.kind, envelope.source.model_dump(exclude_none=True)
        created = envelope.created_at or created
    else:
        told, source = _first_text(data, ("kind", "event")), data.get("source", data.get("service"))
        source = {"name": source} if isinstance(source, str) else source
    link: dict[str, Any] = {"correlation_id": correlation_id, "kind": told or kind, "source": source}
    link |= {"created_at": created.isoformat()}
    return [link] if is_link(link) else []


def _found_in(
    entry: Entry, kind: str, max_bytes: int, sender_only: bool
) -> tuple[dict[str, Any], InvalidMessage | None]:
    setting = "ORION_MAX_QUERY_BYTES" if kind == QUERY_KIND else "ORION_MAX_MESSAGE_BYTES"
    raw = raw_of(entry)
    if raw is None:
        if (left_out := entry.fields.get(LEFT_OUT_BYTES, b"")[:20].decode("ascii", "replace")) == "":
            raise InvalidMessage("the stream entry has no field `envelope` (or `data`)")
        head, tail = (entry.fields.get(name, b"") for name in (LEFT_OUT_HEAD, LEFT_OUT_TAIL))
        return sender_of(head, tail), too_large(left_out, max_bytes, setting=setting)
    if sender_only and len(raw) > ON_LOOP_BYTES:
        return sender_of(raw, raw), InvalidMessage("the message is not read again")
    return json_object(raw, max_bytes, setting=setting)


def _with_small_envelope(data: dict[str, Any]) -> tuple[dict[str, Any], InvalidMessage | None]:
    """The message; where what comes back with its reply is too large, an error, and a sender without that."""
    rest = {name: value for name, value in data.items() if name != "payload"}
    size = len(json.dumps(rest))
    if size <= _MOST_WITHOUT_PAYLOAD:
        return data, None
    short = {name: value for name, value in rest.items() if isinstance(value, str) and len(value) <= 1024}
    why = f"the envelope has {size} bytes without its payload; at most {_MOST_WITHOUT_PAYLOAD} are read"
    return short | {"payload": data.get("payload")}, InvalidMessage(why)


def _reply_to(data: Mapping[str, Any]) -> str | None:
    payload = data.get("payload")
    within = _first_text(cast("Mapping[str, Any]", payload), ("reply_to",)) if isinstance(payload, dict) else None
    return storable(found) if (found := _first_text(data, ("reply_to",)) or within) else None


def _first_text(data: Mapping[str, Any], names: Iterable[str]) -> str | None:
    for name in names:
        value = data.get(name)
        if isinstance(value, str) and value:
            return value
    return None
