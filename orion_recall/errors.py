"""The errors of orion-recall, as a tree; the class of an error says how it is handled.

OrionError
├── MessageError        a message cannot be served: reply, decide, and (for `InvalidMessage`) dead-letter
│   ├── InvalidMessage      malformed or wrong type in a known field     -> outcome "invalid"
│   ├── ExpiredMessage      its ttl has run out                          -> outcome "expired"
│   ├── RefusedMessage      not allowed: tenant or reply address         -> outcome "refused"
│   │   ├── Overloaded          no time for it now, with when to ask again   -> outcome "refused"
│   │   └── LateSignature       rightly signed, and read too late            -> outcome "refused"
│   └── FailedMessage       the record refuses it for good               -> outcome "failed"
├── ProfileError        a broken profile: refuse to start, or keep the last good one
├── SettingsError       a broken setting: refuse to start, with what to do
├── SourceError         a source could not answer: record it and go on without its hits
│   ├── TransientSourceError    worth another try inside the deadline
│   │   └── DiskShort               a copy is not written: its disk is nearly full
│   ├── QueryNotTaken           it refuses what this query asks for: the query's fault, the source is well
│   │   └── ScopeNotKept            it cannot keep to this query's scope
│   ├── AnotherRecordsCopy      index or graph of another record: neither read nor written until that is put right
│   └── PartialSourceError      of several stores one or all did not answer; the hits of the others are there
├── EngineError         an embedded engine could not start or is held by another process
├── WorkersFailed       one of several workers does not start, or dies again and again: the command ends
├── ModelError          weights are missing or are not what they should be
├── RecordError         the record (Postgres) is away: stop reading, lose nothing; or it refuses (the cause says so)
├── GraphQueryError     a query of the graph cannot be understood or is not allowed: place and reason
├── ImportFileError     a line of an import file cannot be read: file, line and reason
├── BackupError         a backup that cannot be made or brought back: file and reason
├── EvaluationError     a file of an evaluation cannot be used, or two runs cannot be compared
└── ClientError         what a caller of `RecallClient` sees
    ├── ReplyTimeout        no reply in time
    └── BusUnavailable      the bus cannot be reached
        └── BusRefused          it is reached and says no: memory full, no permission, a disk that cannot be written
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

ErrorKind = Literal["invalid", "expired", "refused", "failed"]


class OrionError(Exception):
    """The base of all errors raised on purpose. `str()` is a sentence for the person who reads it."""


class MessageError(OrionError):
    """A message that cannot be served. `outcome` is the decision's outcome."""

    outcome: ClassVar[ErrorKind] = "failed"


class InvalidMessage(MessageError):
    """Malformed, or a wrong type in a known field; the text names the field.

    `without_values` says the same and quotes nothing of the message.
    """

    outcome = "invalid"

    def __init__(self, message: str, *, without_values: str | None = None) -> None:
        super().__init__(message)
        self.without_values = message if without_values is None else without_values


class ExpiredMessage(MessageError):
    """The time to live ran out before the search began."""

    outcome = "expired"


class RefusedMessage(MessageError):
    """Well-formed but not allowed here."""

    outcome = "refused"


class Overloaded(RefusedMessage):
    """Well-formed, but there is no time for it: it cannot be answered before its caller stops waiting.

    `retry_after_ms`: after so long, what was before it will have been answered.
    """

    def __init__(self, message: str, *, retry_after_ms: int) -> None:
        super().__init__(message)
        self.retry_after_ms = retry_after_ms


class LateSignature(RefusedMessage):
    """Rightly signed, but too long before it was read. A message about memories becomes a dead letter."""


class FailedMessage(MessageError):
    """Well-formed, but the record will not take it, however often it is tried; the text says what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileProblem:
    """One problem of a profile file: its place, the mistake, and what to write instead.

    `line` and `column` count from 1 and are None when the file could not be read at all.
    `key` is dotted ("fusion.k") and empty when the problem is no key's.
    """

    file: str
    line: int | None = None
    column: int | None = None
    key: str = ""
    message: str
    hint: str = ""
    source_line: str = ""

    def __str__(self) -> str:
        """`file:line:column: key: what; hint`, then the source line with a caret under the place."""
        place = ":".join(str(part) for part in (self.file, self.line, self.column) if part is not None)
        key = f"`{self.key}`: " if self.key else ""
        head = f"{place}: {key}{self.message}" + (f"; {self.hint}" if self.hint else "")
        if self.line is None or self.column is None or not self.source_line:
            return head
        shown, caret = _pointed(self.source_line, self.column)
        return f"{head}\n{self.line:>5} | {shown}\n      | {caret}"


class ProfileError(OrionError):
    """A profile file that cannot be used; the text carries file, line, key and suggestion."""

    def __init__(self, message: str, problems: tuple[ProfileProblem, ...] = ()) -> None:
        super().__init__(message)
        self.problems = problems


class SettingsError(OrionError):
    """A setting that cannot be used; the text names the variable and what to put there."""


class SourceError(OrionError):
    """A source could not answer. The query goes on without its hits."""


class TransientSourceError(SourceError):
    """A source could not answer now, and may in a moment."""


class DiskShort(TransientSourceError):
    """A copy is not written, since its disk is nearly full; it is searched, and written once there is room."""


class QueryNotTaken(SourceError):
    """A source refuses what this query asks for, such as the value of a filter; others may be answered."""


class ScopeNotKept(QueryNotTaken):
    """A source cannot keep to the scope of this query."""


class AnotherRecordsCopy(SourceError):
    """A copy belongs to another record than this one; the text says what to do."""


class PartialSourceError(SourceError):
    """Some or all stores behind a source did not answer; `hits` are those of the others."""

    def __init__(self, message: str, hits: Sequence[Any]) -> None:
        super().__init__(message)
        self.hits = hits


class EngineError(OrionError):
    """An embedded engine could not start, or its folder belongs to another process."""


class WorkersFailed(OrionError):
    """One of several workers does not start, or dies again and again: all were stopped; the text says which."""


class ModelError(OrionError):
    """A model could not be loaded, or its weights are not the expected ones."""


class RecordError(OrionError):
    """The record is not reachable now, and queued messages stay queued; or it refuses the request."""


class GraphQueryError(OrionError):
    """A query of the graph that cannot be understood, or that is not allowed.

    `line` and `column` count from 1. Where they are known, the text shows the line with a caret under the place.
    """

    def __init__(self, message: str, *, text: str = "", line: int | None = None, column: int | None = None) -> None:
        self.line, self.column = line, column
        if line is not None and column is not None:
            lines = text.split("\n")
            shown, caret = _pointed(lines[line - 1] if 0 < line <= len(lines) else "", column)
            message = f"line {line}, column {column}: {message}\n  {shown}\n  {caret}"
        super().__init__(message)


class ImportFileError(OrionError):
    """A line of an import file that cannot be used; the text carries file, line and reason."""


class BackupError(OrionError):
    """A backup that cannot be made, or cannot be brought back; the text names the file and says what to do."""


class EvaluationError(OrionError):
    """A file of an evaluation that cannot be used: file, line and reason; or runs that cannot be compared."""


class ClientError(OrionError):
    """The base of the client's errors, raised when there is no reply."""


class ReplyTimeout(ClientError):
    """No reply came in time."""


class BusUnavailable(ClientError):
    """The bus cannot be reached."""


class BusRefused(BusUnavailable):
    """The bus is reached and refuses the command; the text has its reason. A retry does not help."""


def install_hint(extra: str) -> str:
    """How to install an extra of pyproject.toml; the package is on no index, so from a clone."""
    return f"install the extra `{extra}` (from a clone: pip install '.[{extra}]')"


def _pointed(line: str, column: int) -> tuple[str, str]:
    """A line and, to stand under it, a caret at the column (from 1 on); a long line is shown around the place."""
    start = max(0, column - 61)
    shown = "".join(char if char.isprintable() else " " for char in line[start : start + 100])
    return shown, f"{' ' * (column - 1 - start)}^"
