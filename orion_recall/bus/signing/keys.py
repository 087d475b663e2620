"""Keys and signatures of messages: files of keys, the ring of the callers' keys, sign and verify."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import hmac
import logging
import os
import re
import stat
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC
from pathlib import Path
from typing import Annotated, Literal, TypeVar, get_args
from uuid import uuid4

from pydantic import AwareDatetime, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from orion_recall.contracts import describe
from orion_recall.errors import SettingsError

log = logging.getLogger("orion_recall.bus")
M = TypeVar("M", bound=BaseModel)


SIGNATURE_FIELD = b"signature"
# Within a message: the name of the member that holds the signature.
SIGNATURE_MEMBER = "orion_signature"
_CODE_LENGTH = 64
_ZEROS = "0" * _CODE_LENGTH
_TEXT = r"v1;key=([\w.-]{1,64});time=(\d{1,11});nonce=([\w.-]{16,64});mac=([0-9a-f]{64})"
_WHOLE = re.compile(_TEXT, re.ASCII)
# In a text of the payload the quotes would be escaped, and so not be found.
_WITHIN = re.compile(rf'"{SIGNATURE_MEMBER}"\s*:\s*"{_TEXT}"'.encode(), re.ASCII)


Right = Literal["recall", "write", "delete", "feedback"]
RIGHTS: tuple[Right, ...] = get_args(Right)
_ID = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_LEAST_SECRET_BYTES = 32


def _decoded(value: object) -> bytes:
    secret = value if isinstance(value, bytes) else b""
    with contextlib.suppress(ValueError):
        secret = base64.b64decode(value, altchars=b"-_", validate=True) if isinstance(value, str) else secret
    if len(secret) < _LEAST_SECRET_BYTES:
        raise ValueError(
            f"write {_LEAST_SECRET_BYTES} random bytes or more in base64 (`orion-recall keys new` makes them)"
        )
    return secret


class Key(BaseModel):
    """What a caller signs with: the id of its key, and the secret."""

    model_config = ConfigDict(frozen=True)

    id: str = Field(pattern=f"^{_ID.pattern}$")
    secret: Annotated[bytes, BeforeValidator(_decoded)] = Field(repr=False)


class Caller(Key):
    """Who a key makes its holder: the first of `tenants` is that of a message that names none; `*` is all."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    tenants: tuple[Annotated[str, Field(min_length=1)], ...] = Field(min_length=1)
    may: frozenset[Right] = Field(min_length=1)
    until: AwareDatetime | None = None

    def serves(self, tenant: str) -> bool:
        """Whether its messages may be about the tenant."""
        return "*" in self.tenants or tenant in self.tenants

    @property
    def default_tenant(self) -> str | None:
        """The tenant of a message that names none; None: the worker's."""
        return None if "*" in self.tenants else self.tenants[0]

    def is_over(self, now: float) -> bool:
        """Whether the key no longer counts, at that time in epoch seconds."""
        return self.until is not None and now >= self.until.timestamp()


class _Ring(BaseModel):
    model_config = ConfigDict(extra="forbid")

    keys: list[Caller] = Field(default_factory=list[Caller])


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """A signature as it was read: key id, epoch seconds, nonce, code, and the bytes that the code is made over."""

    key_id: str
    time: int
    nonce: str
    code: str
    signed: bytes

    def is_by(self, secret: bytes, *, stream: str) -> bool:
        """Whether that secret made it, for this stream."""
        made = _code(secret, _head(self.key_id, self.time, self.nonce), stream, self.signed)
        return hmac.compare_digest(made, self.code)


def sign(key: Key, message: bytes, *, stream: str, time: float) -> bytes:
    """The value of the field `signature` for the bytes of the field `envelope`. `stream` has its prefix."""
    head = _head(key.id, int(time), uuid4().hex)
    return f"{head};mac={_code(key.secret, head, stream, message)}".encode()


def read_signature(field: bytes | None, message: bytes) -> Signature | None:
    """The signature of a message: its `field`, else the one within it; None where there is none, or several."""
    if field is not None:
        found = _WHOLE.fullmatch(field[:512].decode("ascii", "replace"))
        return None if found is None else _signature(found.groups(), message)
    within = list(_WITHIN.finditer(message))
    if len(within) != 1:
        return None
    start, end = within[0].span(4)
    blank = b"".join((message[:start], _ZEROS.encode(), message[end:]))
    return _signature(tuple(part.decode() for part in within[0].groups()), blank)


def _signature(parts: tuple[str, ...], signed: bytes) -> Signature:
    key_id, time, nonce, code = parts
    return Signature(key_id=key_id, time=int(time), nonce=nonce, code=code, signed=signed)


def _head(key_id: str, time: int, nonce: str) -> str:
    return f"v1;key={key_id};time={time};nonce={nonce}"


def _code(secret: bytes, head: str, stream: str, message: bytes) -> str:
    made = hmac.new(secret, f"{head}\n{stream}\n".encode("utf-8", "surrogatepass"), hashlib.sha256)
    made.update(message)
    return made.hexdigest()


def read_key(path: Path) -> Key:
    """The key that a caller signs with; SettingsError when the file cannot be used."""
    return _read(path, Key)


def read_ring(path: Path) -> dict[str, Caller]:
    """The keys of a ring by their ids; SettingsError, which quotes no secret, when the file cannot be used."""
    ring: dict[str, Caller] = {}
    for one in _read(path, _Ring).keys:
        if one.id in ring:
            raise SettingsError(f"{path}: two keys have the id {one.id!r}: give each its own")
        ring[one.id] = one
    return ring


def check_id(key_id: str) -> str:
    if not _ID.fullmatch(key_id):
        raise SettingsError(f"{key_id!r}: write up to 64 letters, digits, dots, dashes and underscores")
    return key_id


def state_of(path: Path) -> tuple[int, ...] | None:
    """What changes when the file does; None when it cannot be looked at."""
    with contextlib.suppress(OSError):
        found = path.stat()
        return (found.st_ino, found.st_mtime_ns, found.st_ctime_ns, found.st_mode, found.st_size)
    return None


def written_key(key: Key) -> str:
    return f'id = "{key.id}"\nsecret = "{base64.urlsafe_b64encode(key.secret).decode()}"\n'


def written_caller(caller: Caller) -> str:
    tenants = ", ".join(_quoted(tenant) for tenant in caller.tenants)
    may = ", ".join(f'"{right}"' for right in RIGHTS if right in caller.may)
    until = "" if caller.until is None else f"until = {caller.until.astimezone(UTC).isoformat()}\n"
    return f"\n[[keys]]\n{written_key(caller)}tenants = [{tenants}]\nmay = [{may}]\n{until}"


def new_caller(**fields: object) -> Caller:
    """The caller; SettingsError for one with whom nobody could read its ring any more."""
    try:
        caller = Caller.model_validate(fields)
        _Ring.model_validate(tomllib.loads(written_caller(caller)))
        return caller
    except (tomllib.TOMLDecodeError, UnicodeError) as error:
        raise SettingsError(f"the key {fields['id']}: its tenants hold what no key ring can") from error
    except ValidationError as error:
        raise SettingsError(f"the new key: {describe(error, with_values=False)}") from error


def _read(path: Path, kind: type[M]) -> M:
    try:
        with path.open("rb") as file:
            _refuse_readable(path, os.fstat(file.fileno()))
            return kind.model_validate(tomllib.load(file))
    except OSError as error:
        raise SettingsError(f"{path} cannot be read: {error.strerror or error}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        # Without the error's own text: it may quote a line.
        raise SettingsError(
            f"{path} is not TOML: write id, secret and so on as `orion-recall keys new` does"
        ) from error
    except ValidationError as error:
        raise SettingsError(f"{path}: {describe(error, with_values=False)}") from None  # it quotes a secret


def _refuse_readable(path: Path, status: os.stat_result) -> None:
    """SettingsError when others than its owner can read it.

    The group may where the file is another's, as root's in a mounted secret: else its reader could not.
    """
    mine = status.st_uid == os.geteuid()
    open_to = stat.S_IRWXO | (stat.S_IRWXG if mine else stat.S_IWGRP)
    if stat.S_IMODE(status.st_mode) & open_to:
        raise SettingsError(f"{path} holds secrets, and others can read it: chmod 600 {path}")


def _quoted(text: str) -> str:
    escaped = "".join(char if char.isprintable() and char not in '"\\' else f"\\U{ord(char):08x}" for char in text)
    return f'"{escaped}"'


class KeyRing:
    """The keys of a file. SettingsError at the start when it cannot be used.

    Later a file that cannot be used is told in the log, and the last good keys count until it is put right: a slip
    of the pen must not shut every caller out.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._state = state_of(path)
        self._callers: Mapping[str, Caller] = read_ring(path)

    def caller(self, key_id: str) -> Caller | None:
        """The holder of the key; None for one that is not in the file now."""
        if (state := state_of(self._path)) != self._state:
            self._state, before = state, self._callers
            try:
                self._callers = read_ring(self._path)
                now = self._callers.keys()
                counts = (len(now), len(now - before.keys()), len(before.keys() - now))
                log.info("%d keys are read again: %d are new, %d are gone", *counts)
            except SettingsError as error:
                log.error("the keys of before count, %d of them: %s", len(before), error)  # noqa: TRY400 (it says all)
        return self._callers.get(key_id)
