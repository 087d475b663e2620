"""Errors of Postgres: translated into RecordError, and classified."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

import asyncpg  # pyright: ignore[reportMissingTypeStubs]

from orion_recall.errors import RecordError, SettingsError

# 53: out of connections, memory or disk; 08: connection; 57: shut down, starting, cancelled; 58: system.
_AWAY_CLASSES = ("08", "53", "57", "58")
_READ_ONLY = "25006"
# Data that Postgres refuses: values (22), constraints (23), limits such as an index row's size (54).
_REFUSED_CLASSES = ("22", "23", "54")

POSTGRES_ERRORS: tuple[type[Exception], ...] = (
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    OSError,
)


@contextmanager
def translate(doing: str = "using Postgres") -> Generator[None]:
    """Errors of asyncpg, sockets and time-outs come out as RecordError, without values or secrets."""
    try:
        yield
    except asyncpg.exceptions.ClientConfigurationError as error:
        raise SettingsError(f"ORION_POSTGRES_DSN cannot be used: {first_line(error)}") from None
    except POSTGRES_ERRORS as error:
        raise RecordError(f"{doing}: {reason(error)}") from error


def reason(error: BaseException) -> str:
    """Why Postgres failed, in one short line that holds no values of rows and no secrets."""
    state = sqlstate(error)
    if isinstance(error, asyncpg.exceptions.DataError | asyncpg.InterfaceError) and isinstance(error, ValueError):
        return f"Postgres refused a value ({type(error).__name__})"
    if state is not None and state[:2] in ("22", "23", "P0"):
        # The text of a data error may quote the value, and so may a trigger's: the kind of error has to do.
        return f"Postgres refused a value ({type(error).__name__}, {state})"
    if state == _READ_ONLY:
        return f"Postgres is read-only: it is a replica, or its disk is short ({state})"
    if state is not None:
        return f"Postgres: {first_line(error)} ({state})"
    if isinstance(error, TimeoutError):
        return "Postgres did not answer in time"
    if isinstance(error, OSError):
        return f"Postgres cannot be reached: {error.strerror or type(error).__name__}"
    return f"Postgres: {first_line(error)}"


def sqlstate(error: BaseException) -> str | None:
    """The five-character SQLSTATE, when the server gave one."""
    state = getattr(error, "sqlstate", None)
    return state if isinstance(state, str) else None


def is_refusal(error: BaseException) -> bool:
    """Whether the data is to blame: the server says so, or the driver cannot encode it."""
    state = sqlstate(error)
    return isinstance(error, ValueError) if state is None else state[:2] in _REFUSED_CLASSES


def is_connection_lost(error: BaseException) -> bool:
    """Whether the server is away, full, starting or read-only, so that the same statement may do later.

    Looks through a RecordError at its cause.
    """
    if isinstance(error, RecordError):
        return error.__cause__ is not None and is_connection_lost(error.__cause__)
    state = sqlstate(error)
    if state is not None:
        return state[:2] in _AWAY_CLASSES or state == _READ_ONLY
    if isinstance(error, ValueError):  # asyncpg's own: a bad address, or a value that it cannot encode
        return False
    return isinstance(error, OSError | asyncpg.InterfaceError | asyncpg.InternalClientError)


def first_line(error: BaseException) -> str:
    """The first line of what the server or the driver says, cut to 200 characters."""
    text = str(error).strip() or type(error).__name__
    return text.splitlines()[0][:200]
