"""Who may do what in the console: tokens with a tenant and rights, sessions, and the tokens of forms.

A file of tokens holds their SHA-256 alone. Of sessions nothing is kept: a cookie holds the key of the visitor's
access and a time, signed with a key of this process.
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
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, cast, get_args

from orion_recall.errors import SettingsError

log = logging.getLogger("orion_recall.console")

ConsoleRight = Literal["recall", "feedback", "delete", "operate"]
CONSOLE_RIGHTS: tuple[ConsoleRight, ...] = get_args(ConsoleRight)
ALL_TENANTS = "*"
_KNOWN = {"name", "sha256", "tenant", "may"}
_HEX_DIGITS = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """What one visitor may see and do: the decisions and memories of `tenant` (`*`: of all), and the `rights`.

    A session is of the `key`, so that it ends when the token is taken out of the file, or replaced.
    """

    name: str
    key: str
    tenant: str
    rights: frozenset[ConsoleRight]

    def may(self, right: ConsoleRight) -> bool:
        """Whether the visitor has the right."""
        return right in self.rights

    def sees(self, tenant: str | None) -> bool:
        """Whether the visitor may see what is the tenant's."""
        return self.tenant in (ALL_TENANTS, tenant)

    @property
    def only_tenant(self) -> str | None:
        """The one tenant that the visitor sees; None where it is all of them."""
        return None if self.tenant == ALL_TENANTS else self.tenant


LOCAL = Access(name="local", key="local", tenant=ALL_TENANTS, rights=frozenset(CONSOLE_RIGHTS))
"""Whoever reaches a loopback address without tokens."""


class TokenFile:
    """The tokens of a file, read again when it changes. One that can be read no more lets nobody in."""

    def __init__(self, path: Path) -> None:
        """SettingsError when the file cannot be used."""
        self._path = path
        self._signature = _signature(path)  # before it is read: a change meanwhile is noticed
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
        signature = _signature(self._path)
        if signature != self._signature:
            try:
                self._tokens = read_tokens(self._path)
            except SettingsError as error:
                self._tokens = {}
                log.warning("nobody is let in to the console: %s", error)
            self._signature = signature
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
    listed: object = found.get("tokens", [])
    if not isinstance(listed, list) or not listed or set(found) != {"tokens"}:
        raise SettingsError(f"{path}: the console's tokens are a list of [[tokens]], and nothing else")
    tokens: dict[str, Access] = {}
    for number, entry in enumerate(cast("list[object]", listed), start=1):
        digest, access = _token(entry, f"{path}: token {number}")
        if digest in tokens or access.name in {one.name for one in tokens.values()}:
            raise SettingsError(f"{path}: token {number}: its name or its sha256 is there already")
        tokens[digest] = access
    return tokens


def new_token() -> str:
    """A token that nobody can guess."""
    return secrets.token_urlsafe(32)


def token_hash(token: str) -> str:
    """The SHA-256 of a token: tokens are random, so that a slow hash would protect nothing."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def _token(entry: object, where: str) -> tuple[str, Access]:
    fields = cast("dict[str, object]", entry) if isinstance(entry, dict) else dict[str, object]()
    if set(fields) != _KNOWN:
        raise SettingsError(f"{where}: give {', '.join(sorted(_KNOWN))}, and nothing else")
    name, digest, tenant, may = (fields[one] for one in ("name", "sha256", "tenant", "may"))
    if not isinstance(name, str) or not name or not isinstance(tenant, str) or not tenant:
        raise SettingsError(f"{where}: name and tenant are text; the tenant * is all of them")
    if not isinstance(digest, str) or len(digest) != _HEX_DIGITS or set(digest) - set("0123456789abcdef"):
        raise SettingsError(f"{where}: sha256 is {_HEX_DIGITS} hex digits: `orion-recall console --new-token NAME`")
    rights = frozenset(cast("list[object]", may)) if isinstance(may, list) else frozenset(("?",))
    if not rights <= set(CONSOLE_RIGHTS):
        gone = "; write is gone: `orion-recall memory update` changes memories" if "write" in rights else ""
        raise SettingsError(f"{where}: may is a list of {', '.join(CONSOLE_RIGHTS)}; it may be empty{gone}")
    given = cast("frozenset[ConsoleRight]", rights)
    return digest, Access(name=name, key=digest, tenant=tenant, rights=given)


def _signature(path: Path) -> tuple[int, ...] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ctime_ns, found.st_mode, found.st_size, found.st_ino


LIFETIME_S = 12 * 3600


class Sessions:
    """Makes and reads the cookies of one running console."""

    def __init__(self) -> None:
        self._key = secrets.token_bytes(32)

    def cookie(self, key: str) -> str:
        """The cookie of a visitor who has just come in."""
        told = f"{key.encode().hex()}.{int(time.time())}"
        return f"{told}.{self._signed('session', told)}"

    def key_of(self, cookie: str) -> str | None:
        """The key in a cookie; None where we did not make it, or too long ago."""
        told, _, signature = cookie.rpartition(".")
        if not hmac.compare_digest(signature.encode(), self._signed("session", told).encode()):
            return None
        key, _, began = told.partition(".")
        if time.time() - int(began) > LIFETIME_S:
            return None
        return bytes.fromhex(key).decode()

    def form_token(self, key: str) -> str:
        """What every form of this visitor carries: another site cannot read it, and so cannot send it."""
        return self._signed("form", key)

    def is_form_token(self, key: str, given: str) -> bool:
        """Whether a form was made by this console, for this visitor."""
        return hmac.compare_digest(given.encode("utf-8", "replace"), self.form_token(key).encode())

    def _signed(self, what: str, text: str) -> str:
        return hmac.new(self._key, f"{what}\0{text}".encode(), hashlib.sha256).hexdigest()
