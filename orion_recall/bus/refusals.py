"""Errors for callers: the Redis driver's errors as BusRefused or BusUnavailable."""

from __future__ import annotations

import contextlib
from collections.abc import Generator

from redis.exceptions import (
    AuthenticationError,
    AuthorizationError,
    NoPermissionError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisError,
    ResponseError,
)

from orion_recall.errors import BusRefused, BusUnavailable

_ADVICE: tuple[tuple[type[RedisError], str], ...] = (
    (
        OutOfMemoryError,
        "the server's memory is full: raise its maxmemory, or find what fills it; an embedded bus says so "
        "when its disk is short, too",
    ),
    (NoPermissionError, "give the user of this address the rights of `client` in deploy/redis/users.acl"),
    (AuthenticationError, "check user and password of the address"),
)


@contextlib.contextmanager
def as_caller_errors(what: str) -> Generator[None]:
    """Raise BusRefused or BusUnavailable for errors of the driver. `what` names the request."""
    try:
        yield
    except (RedisError, OSError) as error:
        raise caller_error(error, what) from error


def caller_error(error: Exception, what: str) -> BusUnavailable:
    """The error for a caller: BusRefused when a server answers with a refusal, else BusUnavailable."""
    if not is_refusal(error):
        return BusUnavailable(f"the bus is away: {error}")
    advice = next((f" ({advice})" for kind, advice in _ADVICE if isinstance(error, kind)), "")
    if str(error).startswith("MISCONF"):
        advice = " (it cannot write to its disk, which may be full: make room there)"
    return BusRefused(f"the bus refuses {what}: {error}{advice}")


def is_refusal(error: Exception) -> bool:
    """Whether the server refuses, and would refuse again. A replica's refusal does not count: masters change."""
    if isinstance(error, ReadOnlyError):
        return False
    # The driver raises a ConnectionError whose cause is the refusal of a new connection.
    kinds = ResponseError | AuthenticationError | AuthorizationError
    return isinstance(error, kinds) or isinstance(error.__cause__, kinds)
