"""The message envelope: `decode` reads any entry without raising, `encode` and `encode_request` write ours.

`decode` gives a `Received` for every entry. Where something is wrong, `Received.error` says what, and all that
could still be read (correlation id, reply address, trace) is there, so that the sender gets a reply.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, cast
from uuid import NAMESPACE_URL, uuid4, uuid5

from orion_recall.bus.group_reader import Entry
from orion_recall.contracts import QUERY_ALIASES, QUERY_KIND, Envelope, count_unknown, is_link, read_message
from orion_recall.errors import InvalidMessage
from orion_recall.tasks import report
from orion_recall.text.normal import storable, storable_json

_FIELDS = (b"envelope", b"data")
# In place of a published message that was too large for the stream: its size in bytes.
LEFT_OUT_BYTES = b"left_out_bytes"
_ALIASES = {QUERY_KIND: QUERY_ALIASES}
# Deeper than any valid message, and far from where walking or writing it would exhaust the stack.
_MOST_LEVELS = 100
# Unexpected errors that reading a value may raise.
_UNEXPECTED = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
_TOO_DEEP = f"the message is nested more than {_MOST_LEVELS} levels deep"


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    """One entry, as far as it could be read.

    `onward_chain` is the causality chain of its reply. `has_options`: its sender reads more than V1 fields.
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
    error: InvalidMessage | None = None

    @property
    def expires_at(self) -> float | None:
        """When the sender stops waiting, by the server's clock; None for never."""
        return None if self.ttl_ms is None else self.entry.added_at + self.ttl_ms / 1000


def decode(entry: Entry, *, kind: str, max_bytes: int) -> Received:
    """The message of the `kind`, or of its aliases, in an entry. It never raises: see `error`."""
    try:
        return _decode(entry, kind, max_bytes)
    except _UNEXPECTED as error:  # an entry that raised here would stay pending for ever
        report(f"entry {entry.id} cannot be read", error)
        unreadable = InvalidMessage("the message cannot be read: the worker's log says where it failed")
        return Received(entry=entry, correlation_id=_uuid_of(entry), payload={}, error=unreadable)


def _decode(entry: Entry, kind: str, max_bytes: int) -> Received:
    try:
        data, problem = _json_object(entry, max_bytes)
    except InvalidMessage as error:
        return Received(entry=entry, correlation_id=_uuid_of(entry), payload={}, error=error)
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
    cleaned = cast("dict[str, Any]", storable_json(data))
    payload = cast("dict[str, Any]", cleaned["payload"]) if isinstance(cleaned.get("payload"), dict) else {}
    error: InvalidMessage | None = None
    envelope: Envelope | None = None
    try:
        envelope = read_message(Envelope, cleaned, "envelope")
        if envelope.kind not in (None, kind, *_ALIASES.get(kind, ())):
            kinds = " or ".join((kind, *_ALIASES.get(kind, ())))
            expected = f"envelope.kind: expected {kinds} on this stream"
            raise InvalidMessage(f"{expected} (got {envelope.kind!r})", without_values=expected)
    except InvalidMessage as problem:
        error = problem
    links, left_out = _links(cleaned)
    return Received(
        entry=entry,
        correlation_id=raw_correlation_id,
        payload=payload,
        reply_to=_reply_to(cleaned),
        ttl_ms=envelope.ttl_ms if envelope else None,
        trace=cleaned["trace"] if isinstance(cleaned.get("trace"), dict) else None,
        onward_chain=(*links, *_own_link(cleaned, envelope, raw_correlation_id, kind, entry)),
        has_options=_has_options(cleaned),
        unknown_fields=count_unknown(Envelope, cleaned) + left_out,
        error=error,
    )


def encode(
    kind: str,
    payload: bytes,
    *,
    correlation_id: str,
    source: Mapping[str, str],
    trace: Mapping[str, Any] | None = None,
    causality_chain: Iterable[Mapping[str, Any]] = (),
) -> bytes:
    """An envelope with long names around a payload that is JSON already. The id is new, the time is now.

    Strict readers accept it: `trace` is an object and never null, and there are no further fields.
    """
    head = _head(kind, correlation_id, source, trace) | {"causality_chain": list(causality_chain)}
    # The default escapes all but ASCII: a correlation id with a lone surrogate goes back exactly as it came.
    return json.dumps(head).encode()[:-1] + b', "payload": ' + payload + b"}"


def encode_request(
    kind: str,
    payload: Mapping[str, Any],
    *,
    correlation_id: str,
    source: Mapping[str, str],
    reply_to: str | None,
    ttl_ms: int | None,
    trace: Mapping[str, Any] | None = None,
    causality_chain: Iterable[Any] = (),
    created_at: datetime | None = None,
) -> bytes:
    """A request's envelope that strict readers accept; InvalidMessage for what a worker could not read.

    `created_at` (default: now) comes back in the reply's causality chain.
    """
    if trace is not None and not isinstance(trace, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidMessage(f"trace: expected an object (got {trace!r:.60})")
    message = _head(kind, correlation_id, source, trace) | {
        "ttl_ms": ttl_ms,
        "reply_to": reply_to,
        "trace": dict(trace or {}),
        "causality_chain": list(causality_chain),
        "payload": payload,
    }
    if created_at is not None:
        message["created_at"] = created_at.isoformat()
    if is_too_deep(message):
        raise InvalidMessage(_TOO_DEEP)
    try:
        return json.dumps(message, allow_nan=False).encode()
    except (ValueError, TypeError) as error:
        raise InvalidMessage(f"the message cannot be written as JSON: {error}") from error


def _head(
    kind: str, correlation_id: str, source: Mapping[str, str], trace: Mapping[str, Any] | None
) -> dict[str, Any]:
    return {
        "schema": "orion.envelope",
        "schema_version": "2.0.0",
        "id": str(uuid4()),
        "correlation_id": correlation_id,
        "kind": kind,
        "source": source,
        "created_at": datetime.now(UTC).isoformat(),
        "ttl_ms": None,
        "reply_to": None,
        "trace": trace or {},
        "causality_chain": [],
    }


def _uuid_of(entry: Entry) -> str:
    """A correlation id for a message without one: the same for every delivery of the entry."""
    return str(uuid5(NAMESPACE_URL, f"orion-recall:{entry.id}"))


def _has_options(data: Mapping[str, Any]) -> bool:
    payload = data.get("payload")
    return isinstance(payload, dict) and cast("dict[str, Any]", payload).get("options") not in (None, "")


def _links(data: Mapping[str, Any]) -> tuple[list[Mapping[str, Any]], int]:
    """The links of the causality chain that strict readers accept, unchanged, and how many others there are."""
    chain = data.get("causality_chain")
    steps = cast("list[Any]", chain) if isinstance(chain, list) else []
    links = [step for step in steps if is_link(step)]
    return links, len(steps) - len(links)


def _own_link(
    data: Mapping[str, Any], envelope: Envelope | None, correlation_id: str, kind: str, entry: Entry
) -> list[Mapping[str, Any]]:
    """The link for the message that is answered; none where strict readers would refuse it.

    Of an invalid envelope, the parts that can be read are used.
    """
    # The sender may have chosen the entry id: one in the far future is no time that a date can hold.
    came = datetime.fromtimestamp(min(entry.added_at, time.time()), UTC)
    if envelope is not None:
        told, source = envelope.kind, envelope.source.model_dump(exclude_none=True) if envelope.source else None
        created = envelope.created_at or came
    else:
        told, source = _first_text(data, ("kind", "event")), data.get("source", data.get("service"))
        source = {"name": source} if isinstance(source, str) else source
        created = came
    link: dict[str, Any] = {
        "correlation_id": correlation_id,
        "kind": told or kind,
        "source": source,
        "created_at": created.isoformat(),
    }
    return [link] if is_link(link) else []


def _json_object(entry: Entry, max_bytes: int) -> tuple[dict[str, Any], InvalidMessage | None]:
    """The JSON object in an entry, and why it is invalid where its sender can still be read from it."""
    raw = next((entry.fields[name] for name in _FIELDS if name in entry.fields), None)
    left_out = entry.fields.get(LEFT_OUT_BYTES, b"")[:20].decode("ascii", "replace")
    if raw is None and not left_out:
        raise InvalidMessage("the stream entry has no field `envelope` (or `data`)")
    if raw is None or len(raw) > max_bytes:
        size = left_out if raw is None else len(raw)
        raise InvalidMessage(
            f"the message has {size} bytes; at most {max_bytes} are read (ORION_MAX_MESSAGE_BYTES)"
        )
    odd: list[str] = []  # invalid numbers: read on, to learn the reply address

    def number(digits: str) -> float:
        value = float(digits)
        if math.isinf(value):  # it could not be written again either
            odd.append(f"the number {digits[:40]} is too large")
        return value

    try:
        data = json.loads(raw, parse_constant=lambda name: odd.append(f"{name} is not JSON"), parse_float=number)
    except ValueError as error:
        raise InvalidMessage(f"the message is not JSON: {error}") from error
    except RecursionError as error:
        raise InvalidMessage(_TOO_DEEP) from error
    if not isinstance(data, dict):
        raise InvalidMessage("the message is JSON but not an object")
    found = cast("dict[str, Any]", data)
    if odd:
        said = "the message is not JSON"
        return found, InvalidMessage(f"{said}: {odd[0]}", without_values=f"{said}: it holds an invalid number")
    return found, InvalidMessage(_TOO_DEEP) if is_too_deep(found) else None


def _reply_to(data: Mapping[str, Any]) -> str | None:
    payload = data.get("payload")
    within = _first_text(cast("Mapping[str, Any]", payload), ("reply_to",)) if isinstance(payload, dict) else None
    return storable(found) if (found := _first_text(data, ("reply_to",)) or within) else None


def is_too_deep(data: Mapping[str, Any], levels: int = _MOST_LEVELS) -> bool:
    """Whether the value is nested deeper than a message may be."""
    level: list[Mapping[str, Any] | list[Any]] = [data]
    for _ in range(levels):
        within = (inner for part in level for inner in (part.values() if isinstance(part, dict) else part))
        level = [inner for inner in within if isinstance(inner, dict | list)]
        if not level:
            return False
    return True


def _first_text(data: Mapping[str, Any], names: Iterable[str]) -> str | None:
    for name in names:
        value = data.get(name)
        if isinstance(value, str) and value:
            return value
    return None
