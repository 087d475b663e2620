"""The files of an evaluation, in JSON lines: queries, memories, and runs. Every error names its file and line."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, Self, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from orion_recall.contracts import MemoryV1, describe, read_message
from orion_recall.contracts.fields import Identifier, ScopeName
from orion_recall.errors import EvaluationError, InvalidMessage
from orion_recall.memory.record.compose import compose
from orion_recall.memory.transfer.importer import ImportMapping, LineProblem, check_file, read_batches, read_mapping
from orion_recall.values import Memory

# A conversation is a tenant of its own: no search leaves it. Naive times are UTC.
_MEMORY_FIELDS = "id=memory_id,tenant=conversation_id,occurred_at=turn_datetime"
_CONVERSATION = "default"
"""That of memories and queries that name none, as an import has a default tenant."""
_HEAD_BYTES = 4096
_SHOWN_PROBLEMS = 5


def _moment(value: object) -> object:
    """A time of a line in epoch seconds; without a zone it is UTC."""
    if not isinstance(value, str):
        return value
    try:
        return datetime.fromisoformat(_in_utc(value)).timestamp()
    except (ValueError, OverflowError) as error:
        raise ValueError(f"{value[:60]!r} is not an ISO 8601 time") from error


class _Line(BaseModel):
    # Other fields (the answer, a note) are allowed and ignored.
    model_config = ConfigDict(frozen=True, extra="ignore", coerce_numbers_to_str=True, populate_by_name=True)

    line: int = 0


class JudgedQuery(_Line):
    """A question with its evidence: the ids of the memories that answer it.

    `asked_at` is the query's own current time in epoch seconds, None when the file has none. `scope` (None: the
    profile's), `session_id`, `user_id` and `intent` are those of the recall.

    The rest are the conditions of an everyday set (see `everyday`): what has to stand `first`, what is `stale`,
    what else is `allowed`, whether nothing answers it (`none`), whether hardly anything else may be handed over.
    """

    id: str = Field(min_length=1, validation_alias="query_id")
    conversation: str = Field(default=_CONVERSATION, min_length=1, validation_alias="conversation_id")
    text: str = Field(min_length=1, validation_alias="query")
    category: Annotated[str, BeforeValidator(lambda value: value or "none")] = "none"
    evidence: frozenset[str] = frozenset()
    asked_at: Annotated[float | None, BeforeValidator(_moment)] = Field(default=None, validation_alias="query_date")
    scored: bool = True
    scope: ScopeName | None = None
    session_id: Identifier | None = None
    user_id: Identifier | None = None
    intent: str | None = None
    first: frozenset[str] = frozenset()
    stale: frozenset[str] = frozenset()
    allowed: frozenset[str] = frozenset()
    none: bool = False
    outside: bool = False

    @model_validator(mode="after")
    def _goes_together(self) -> Self:
        for scope, name in (("session", self.session_id), ("user", self.user_id)):
            if self.scope == scope and name is None:
                raise ValueError(f"scope {scope} needs {scope}_id")
        return self


class RunLine(_Line):
    """The result of one query: ids as ranked, before caps and budget, and those in the bundle (None: unknown).

    `unsure`: nothing clearly answers, and the nearest were handed over.
    """

    ranked: tuple[str, ...]
    selected: tuple[str, ...] | None = None
    unsure: bool = False


class _RunFileLine(RunLine):
    id: str = Field(min_length=1, validation_alias="query_id")


L = TypeVar("L", JudgedQuery, _RunFileLine)


def read_queries(path: Path, *, limit: int | None = None) -> list[JudgedQuery]:
    """The queries in the file's order, the first `limit` of them. EvaluationError when there is none."""
    queries = list(islice(_each_once(JudgedQuery, path), limit))
    if not queries:
        raise EvaluationError(f"{path}: there is no query in it")
    return queries


def read_run(path: Path) -> Mapping[str, RunLine]:
    """The result of each query by its id, in the file's order. EvaluationError when there is none."""
    run = {found.id: found for found in _each_once(_RunFileLine, path)}
    if not run:
        raise EvaluationError(f"{path}: there is no line in it")
    return run


def _each_once(model: type[L], path: Path) -> Iterator[L]:
    """Every line; EvaluationError for one that cannot be read, and for a query_id that came before."""
    seen: dict[str, int] = {}
    for number, line in _lines(path):
        try:
            found = model.model_validate_json(line)
        except ValidationError as error:
            # A line that is no JSON would be shown whole.
            no_json = any(problem["type"] == "json_invalid" for problem in error.errors())
            raise EvaluationError(f"{path}:{number}: {describe(error, with_values=not no_json)}") from error
        if (first := seen.setdefault(found.id, number)) != number:
            raise EvaluationError(f"{path}:{number}: query_id {found.id!r} is in line {first} already")
        yield found.model_copy(update={"line": number})


def read_memories(path: Path) -> list[Memory]:
    """The memories in the file's order, composed as an import composes them; their tenant is the conversation.

    Any file that `import` takes can be read, too. EvaluationError names the lines that cannot be used: with
    memories missing the figures would be wrong.
    """
    memories: list[Memory] = []
    seen: dict[tuple[str, str], int] = {}
    problems: list[LineProblem] = []
    for batch in read_batches(path, _mapping_of(path)):
        problems += batch.problems
        for number, fields in zip(batch.lines, batch.memories, strict=True):
            try:
                memory = _memory(fields)
                first = seen.setdefault((memory.tenant, memory.id), number)
                if first != number:
                    raise InvalidMessage(f"memory_id {memory.id!r} is in line {first} already")
            except InvalidMessage as error:
                problems.append(LineProblem(file=str(path), line=number, reason=str(error)))
            else:
                memories.append(memory)
    if problems:
        shown = "\n".join(str(problem) for problem in problems[:_SHOWN_PROBLEMS])
        more = len(problems) - _SHOWN_PROBLEMS
        raise EvaluationError(f"{shown}\n… and {more} more" if more > 0 else shown)
    if not memories:
        raise EvaluationError(f"{path}: there is no memory in it")
    return memories


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """The ids of every conversation's memories, and the time of each conversation's newest memory (epoch seconds).

    A conversation without any date is not in `newest`.
    """

    ids: Mapping[str, Sequence[str]]
    newest: Mapping[str, float]

    @classmethod
    def of(cls, memories: Sequence[Memory]) -> Contents:
        ids: dict[str, list[str]] = {}
        newest: dict[str, float] = {}
        for memory in memories:
            ids.setdefault(memory.tenant, []).append(memory.id)
            if (moment := memory.ts) is not None:
                newest[memory.tenant] = max(moment, newest.get(memory.tenant, moment))
        return cls(ids=ids, newest=newest)


def _mapping_of(path: Path) -> ImportMapping:
    """Chosen by the beginning: memories of an evaluation have `memory_id`, others are read as by an import."""
    check_file(path)  # refuses a pipe, which cannot be read twice
    line = next((line for _, line in _lines(path)), b"")
    try:
        first: object = json.loads(line)
    except ValueError:
        first = None  # CSV, an array over several lines, or a line that is refused with its number when it is read
    is_own = "memory_id" in first if isinstance(first, dict) else b"memory_id" in line[:_HEAD_BYTES]
    return read_mapping(_MEMORY_FIELDS if is_own else None, timezone="UTC", tenant=_CONVERSATION)


def _memory(fields: Mapping[str, Any]) -> Memory:
    dated = dict(fields)
    # A turn without a time of its own happened when its session did.
    session = fields.get("metadata", {}).get("session_datetime")
    if "occurred_at" not in dated and isinstance(session, str):
        dated["occurred_at"] = _in_utc(session)
    return compose(read_message(MemoryV1, dated, ""), default_tenant=fields["tenant"])


def _in_utc(text: str) -> str:
    """The time with a zone; other text is left as it is for the contract to refuse."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return text
    return text if moment.tzinfo is not None else moment.replace(tzinfo=UTC).isoformat()


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, 1):
                bare = line.removeprefix(b"\xef\xbb\xbf").strip() if number == 1 else line.strip()
                if bare:
                    yield number, bare
    except OSError as error:
        raise EvaluationError(f"{path}: {error.strerror or type(error).__name__}") from error
