"""Who may do what in the console: tokens with a tenant and rights, sessions, and the tokens of forms.

A file of tokens holds their SHA-256 alone. Of sessions only those are kept that were ended: a cookie holds the key
of the visitor's access, a time and a number of its own, signed with a key of this process.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import secrets
import stat
import time
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from orion_recall.bus.signing.keys import state_of
from orion_recall.contracts import describe
from orion_recall.errors import SettingsError

log = logging.getLogger("orion_recall.console")

ConsoleRight = Literal["recall", "feedback", "delete", "operate"]
CONSOLE_RIGHTS: tuple[ConsoleRight, ...] = get_args(ConsoleRight)
ALL_TENANTS = "*"


class Access(BaseModel):
    """What one visitor may see and do: the decisions and memories of `tenant` (`*`: of all), and the `rights`.

    A session is of the `key`, so that it ends when the token is taken out of the file, or replaced.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    name: str = Field(min_length=1)
    key: str = Field(alias="sha256", pattern=r"^[0-9a-f]{64}$")
    tenant: str = Field(min_length=1)
    rights: frozenset[ConsoleRight] = Field(alias="may", strict=False)

    def may(self, right: ConsoleRight) -> bool:
        return right in self.rights

    @property
    def only_tenant(self) -> str | None:
        """The one tenant that the visitor sees; None where it is all of them."""
        return None if self.tenant == ALL_TENANTS else self.tenant


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    tokens: list[Access] = Field(min_length=1)


LOCAL = Access(name="local", sha256="0" * 64, tenant=ALL_TENANTS, may=frozenset(CONSOLE_RIGHTS))
"""Whoever reaches a loopback address without tokens."""


class TokenFile:
    """The tokens of a file, read again when it changes. One that can be read no more lets nobody in."""

    def __init__(self, path: Path) -> None:
        """SettingsError when the file cannot be used."""
        self._path = path
        self._state = state_of(path)  # before it is read: a change meanwhile is noticed
        self._tokens = read_tokens(path)

    def holder(self, token: str) -> Access | None:
        """The access that a token gives; None for an unknown one."""
        given = token_hash(token)
        found = [access for known, access in self._current().items() if hmac.compare_digest(known, given)]
        return found[0] if found else None

    def of_key(self, key: str) -> Access | None:
        """The access that a session was begun with, None where its token is not in the file any more."""
        return self._current().get(key)

    def _current(self) -> Mapping[str, Access]:
        if (state := state_of(self._path)) != self._state:
            try:
                self._tokens = read_tokens(self._path)
            except SettingsError as error:
                self._tokens = {}
                log.warning("nobody is let in to the console: %s", error)
            self._state = state
        return self._tokens


def read_tokens(path: Path) -> dict[str, Access]:
    """The access of every token by its SHA-256; SettingsError when the file cannot be used."""
    try:
        mode = path.stat().st_mode
        found = tomllib.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise SettingsError(f"{path}: the console's tokens cannot be read: {error}") from error
    if mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise SettingsError(f"{path}: others can write this file: `chmod go-w {path}`")
    try:
        listed = _File.model_validate(found).tokens
    except ValidationError as error:
        gone = "; write is gone: `orion-recall memory update` changes memories" if "'write'" in str(error) else ""
        raise SettingsError(
            f"{path}: {describe(error, with_values=False)}{gone}; the file is a list of [[tokens]], each as "
            "`orion-recall console --new-token NAME` prints it"
        ) from error
    for values in ([one.key for one in listed], [one.name for one in listed]):
        if twice := [place for place, value in enumerate(values, start=1) if value in values[: place - 1]]:
            raise SettingsError(f"{path}: token {twice[0]}: its name or its sha256 is there already")
    return {one.key: one for one in listed}


def new_token() -> str:
    return secrets.token_urlsafe(32)


def token_hash(token: str) -> str:
    """The SHA-256 of a token: tokens are random, so that a slow hash would protect nothing."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


LIFETIME_S = 12 * 3600
# Of those that were ended longer ago nobody has a cookie, or somebody ends thousands on purpose.
_MOST_ENDED = 10_000


class Sessions:
    """Makes and reads the cookies of one running console."""

    def __init__(self) -> None:
        self._key = secrets.token_bytes(32)
        self._ended: dict[str, None] = {}

    def cookie(self, key: str) -> str:
        """The cookie of a visitor who has just come in."""
        told = f"{key.encode().hex()}.{int(time.time())}.{secrets.token_hex(16)}"
        return f"{told}.{self._signed('session', told)}"

    def end(self, cookie: str) -> None:
        """From now on the cookie says nothing."""
        self._ended[cookie] = None
        if len(self._ended) > _MOST_ENDED:
            del self._ended[next(iter(self._ended))]

    def key_of(self, cookie: str) -> str | None:
        """The key in a cookie; None where we did not make it, or too long ago, or it was ended."""
        told, _, signature = cookie.rpartition(".")
        if not hmac.compare_digest(signature.encode(), self._signed("session", told).encode()):
            return None
        if cookie in self._ended:
            return None
        key, began, _ = told.split(".")
        if time.time() - int(began) > LIFETIME_S:
            return None
        return bytes.fromhex(key).decode()

    def form_token(self, cookie: str) -> str:
        """What every form of this session carries: another site cannot read it, and so cannot send it."""
        return self._signed("form", cookie)

    def is_form_token(self, cookie: str, given: str) -> bool:
        """Whether a form was made by this console, for this session."""
        return hmac.compare_digest(given.encode("utf-8", "replace"), self.form_token(cookie).encode())

    def _signed(self, what: str, text: str) -> str:
        return hmac.new(self._key, f"{what}\0{text}".encode(), hashlib.sha256).hexdigest()
