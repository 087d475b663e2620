"""Handling of record errors: a message waits, is retried, or fails with advice."""

from __future__ import annotations

from orion_recall.errors import FailedMessage, RecordError
from orion_recall.postgres.pool import is_connection_lost, sqlstate

# Codes and classes of SQLSTATE. 40: rolled back in favour of another transaction (serialization, deadlock).
# 55: another holds a lock. 0A000: a plan was made before the schema changed. 57014: a statement took too long; its
# class is that of a server that shuts down, but the same message may take too long every time.
_MAY_PASS = ("40", "55", "0A000", "57014")
_TOOK_TOO_LONG = "57014"
_AGAIN = "then send it again, or put it back with `orion-recall dead requeue`"
_ADVICE = (
    (
        ("42501",),
        f"give the worker's role its rights (`orion-recall migrate` as the schema's owner does), {_AGAIN}",
    ),
    (("3D", "28"), f"see whether ORION_POSTGRES_DSN names the right user, password and database, {_AGAIN}"),
    (
        ("3F", "42"),
        (
            "the schema is not the one of this version, or the worker's role may not use it: run `orion-recall "
            f"migrate`, or GRANT USAGE ON SCHEMA (that of ORION_POSTGRES_SCHEMA) to the role, {_AGAIN}"
        ),
    ),
    (("22", "23", "54"), "change what the message holds, and send it again"),
    (_MAY_PASS, "Postgres is busy: send it again later, in smaller parts if it is large"),
)


def is_away(error: RecordError) -> bool:
    """Whether Postgres is away, starting, full or read-only: a message waits for as long as that takes."""
    return is_connection_lost(error) and _state(error) != _TOOK_TOO_LONG


def may_pass(error: RecordError) -> bool:
    """Whether the same message may be served in a moment: somebody else was in its way."""
    return _state(error).startswith(_MAY_PASS)


def failed(error: RecordError) -> FailedMessage:
    """The message cannot be served: what is wrong, without values or secrets, and what to do."""
    state = _state(error)
    otherwise = f"the log of Postgres says more: put it right, {_AGAIN}"
    advice = next((advice for states, advice in _ADVICE if state.startswith(states)), otherwise)
    return FailedMessage(f"{error}; {advice}")


def _state(error: RecordError) -> str:
    if error.__cause__ is None:
        return ""
    if isinstance(error.__cause__, ValueError):  # the driver's own: it cannot encode the value
        return "22000"
    return sqlstate(error.__cause__) or ""
