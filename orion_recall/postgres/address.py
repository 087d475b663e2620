"""Parses Postgres addresses and quotes names, without loading a driver.

An address may hold two parameters that are for us and not for the server: `statement_cache_size` (0: there is a
PgBouncer in between) and `orion_schema`, the schema of our tables, which `Settings.dsn` adds.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from orion_recall.errors import SettingsError

DEFAULT_SCHEMA = "orion_recall"

_SCHEMA, _CACHE_SIZE = "orion_schema", "statement_cache_size"
_FILES_OF_TLS = ("sslrootcert", "sslcert", "sslkey", "sslcrl")
_IDENTIFIER = re.compile(r"[^\W\d][\w$]*", re.UNICODE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """A parsed address: the driver's DSN, our schema, and the size of the statement cache (None: not set)."""

    dsn: str
    schema: str
    cache_size: int | None


def read_address(dsn: str) -> Address:
    """The address taken apart. SettingsError: it cannot be one, or a certificate that it names is not there."""
    if not dsn.startswith(("postgresql://", "postgres://")):
        # A pool without connections would find out only when it is used.
        raise SettingsError("ORION_POSTGRES_DSN: write postgresql://user:password@host:5432/database")
    parts = urlsplit(dsn)
    query = dict(parse_qsl(parts.query))
    for name, value in query.items():
        # The driver would find out at every connection, as if the server were away.
        if name in _FILES_OF_TLS and not Path(value).is_file():
            raise SettingsError(f"ORION_POSTGRES_DSN: {name} is not a file that can be read: {value}")
    schema, cache_size = query.pop(_SCHEMA, DEFAULT_SCHEMA), query.pop(_CACHE_SIZE, None)
    if cache_size is not None and not cache_size.isdecimal():
        raise SettingsError("ORION_POSTGRES_DSN: statement_cache_size must be a number, such as 0")
    if f"{_SCHEMA}=" in parts.query or f"{_CACHE_SIZE}=" in parts.query:
        dsn = urlunsplit(parts._replace(query=urlencode(query)))
    return Address(dsn=dsn, schema=schema, cache_size=None if cache_size is None else int(cache_size))


def shown(dsn: str) -> str:
    """Server and database of an address, without user, password and parameters."""
    parts = urlsplit(dsn)
    host = parts.netloc.rpartition("@")[2] or dict(parse_qsl(parts.query)).get("host", "")
    return f"{host}{parts.path}"


def with_schema(dsn: str, schema: str) -> str:
    """The DSN which also says in which schema our tables are, where that is not the usual one."""
    if schema == DEFAULT_SCHEMA:
        return dsn
    parts = urlsplit(dsn)
    return urlunsplit(parts._replace(query=f"{parts.query}&{_SCHEMA}={schema}".lstrip("&")))


def quote_identifier(name: str) -> str:
    """The name in double quotes, as it is written: letters, digits, `_` and `$`, at most 63 bytes."""
    if not _IDENTIFIER.fullmatch(name) or len(name.encode("utf-8", "replace")) > 63:
        raise SettingsError(
            f"{name[:80]!r} cannot be a name in Postgres: use letters, digits, _ and $, begin with a letter "
            "or _, and stay within 63 bytes"
        )
    return f'"{name}"'


def quote_qualified(name: str) -> str:
    """A table or view, as `table` or `schema.table`, with each part quoted."""
    parts = name.split(".")
    if len(parts) > 2:
        raise SettingsError(f"{name[:80]!r} has too many parts: write table or schema.table")
    return ".".join(quote_identifier(part) for part in parts)
