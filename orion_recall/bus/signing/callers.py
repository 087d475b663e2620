"""Checks who sent a message: the signature, its age, that it was not sent before, and what the key allows.

The nonce of a signature is kept on the bus for as long as the signature counts, so all workers together take it
once. Beside it is the entry that brought it: one that is delivered again, since its worker died, is taken again.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from redis.asyncio import Redis
from redis.exceptions import RedisError

from orion_recall.bus.bounded import ON_LOOP_BYTES, read_apart
from orion_recall.bus.connect import BUS_AWAY
from orion_recall.bus.envelope import Received, raw_of, size_of
from orion_recall.bus.group_reader import Entry
from orion_recall.bus.signing.keys import SIGNATURE_FIELD, Caller, KeyRing, Right, Signature, read_signature
from orion_recall.contracts import DELETE_KIND, FEEDBACK_KIND, QUERY_KIND, STORE_KIND, UPDATE_KIND
from orion_recall.errors import LateSignature, MessageError, RefusedMessage
from orion_recall.settings import Settings
from orion_recall.tasks import BUS_S, Backoff

log = logging.getLogger("orion_recall.bus")

_NEEDS: Mapping[str, Right] = {
    QUERY_KIND: "recall",
    STORE_KIND: "write",
    UPDATE_KIND: "write",
    DELETE_KIND: "delete",
    FEEDBACK_KIND: "feedback",
}
# One text for all that is no signature of ours: who tries is not told how near it was.
_NOT_SIGNED = "this worker takes signed messages only (ORION_KEYS_FILE), and this one has no valid signature"


class Callers:
    """The callers of the intake stream of a kind, by the keys of the ring. `now` is the time of the bus."""

    def __init__(
        self, ring: KeyRing, redis: Redis, settings: Settings, kind: str, *, now: Callable[[], float]
    ) -> None:
        self._ring, self._redis, self._now = ring, redis, now
        self._nonces, self._within_s = f"{settings.query_stream}:seen:nonce:", settings.signed_within_s
        self._stream, self._needs = settings.prefix + kind, _NEEDS[kind]

    async def checked(self, received: Received) -> Received:
        """The message with its caller. Of one that is refused nothing is kept but whom to answer."""
        entry = received.entry
        try:
            found = await read_apart(size_of(entry), partial(self._signed, entry))
            if found is None:
                raise RefusedMessage(_NOT_SIGNED)
            caller, signature = found
            await self._refuse(entry, caller, signature)
        except MessageError as error:
            return replace(received, payload={}, error=error)
        return replace(received, caller=caller)

    def caller_of(self, entry: Entry) -> Caller | None:
        """Who signed it, as far as that is found out quickly; whether it may be served is not asked here."""
        if size_of(entry) > ON_LOOP_BYTES:
            return None
        found = self._signed(entry)
        return None if found is None else found[0]

    def _signed(self, entry: Entry) -> tuple[Caller, Signature] | None:
        raw = raw_of(entry)
        signature = None if raw is None else read_signature(entry.fields.get(SIGNATURE_FIELD), raw)
        caller = None if signature is None else self._ring.caller(signature.key_id)
        if signature is None or caller is None or not signature.is_by(caller.secret, stream=self._stream):
            return None
        return caller, signature

    async def _refuse(self, entry: Entry, caller: Caller, signature: Signature) -> None:
        now, name = self._now(), caller.id
        if caller.is_over(now):
            raise RefusedMessage(f"the key {name!r} counted until {caller.until}: sign with its successor")
        if self._needs not in caller.may:
            raise RefusedMessage(f"the key {name!r} may {', '.join(sorted(caller.may))}, and not {self._needs}")
        place, key = f"{self._stream} {entry.id}".encode(), f"{self._nonces}{name}:{signature.nonce}"
        # Not by the entry's id at first: a caller can choose one of the past. What was delivered before was checked
        # then, and may have waited long for a record that is away.
        age_s = (now if entry.deliveries <= 1 else min(now, entry.added_at)) - signature.time
        if abs(age_s) > self._within_s:
            if await _when_possible(partial(self._redis.get, key)) == place:
                return
            when = f"{age_s:.0f} s before" if age_s > 0 else f"{-age_s:.0f} s after"
            raise LateSignature(
                f"it was signed {when} it was read, by the clock of the bus, and {self._within_s} s either way are "
                "taken (ORION_SIGNED_WITHIN_S): sign it anew"
            )
        keep_ms = (2 * self._within_s + 1) * 1000
        # With `get` the server says in the same step whose the nonce was before: nobody's, or that entry's.
        first = await _when_possible(partial(self._redis.set, key, place, nx=True, get=True, px=keep_ms))
        if first not in (None, place):
            raise RefusedMessage("a message with this signature has come before: sign each message anew")


async def _when_possible(ask: Callable[[], Awaitable[Any]]) -> bytes | None:
    backoff = Backoff(*BUS_S)
    while True:
        try:
            return await ask()
        except (*BUS_AWAY, RedisError) as error:
            if backoff.is_first:
                log.error("signed messages wait: the bus keeps no nonces: %s", error)  # noqa: TRY400 (it says all)
            await backoff.wait()


def tenant_of(named: str | None, caller: Caller | None, default: str) -> str:
    """The tenant of a message that names this one, or none; RefusedMessage where the caller's key is for others."""
    name = named or (caller.default_tenant if caller is not None else None) or default
    if caller is not None and not caller.serves(name):
        raise RefusedMessage(f"the key {caller.id!r} is not for tenant {name!r}")
    return name
