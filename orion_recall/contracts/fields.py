"""The envelope of every message, and the types of message fields: lenient in names, strict in types."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta, timezone
from difflib import get_close_matches
from functools import cache, partial
from reprlib import Repr
from typing import Annotated, Any, ClassVar, Literal, TypeVar, cast, get_args, get_origin
from uuid import UUID

from pydantic import (
    AfterValidator,
    AliasChoices,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    ValidationError,
    model_validator,
)
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails, PydanticUndefined

from orion_recall.errors import ErrorKind, InvalidMessage
from orion_recall.text.normal import storable
from orion_recall.text.zones import time_zone
from orion_recall.values import SOURCE_NAME

M = TypeVar("M", bound=BaseModel)

# An error goes into a reply, a decision, a dead letter and the log.
_MOST_PROBLEMS, _MOST_PATH, _MOST_SAID, _SHORT = 8, 200, 400, 60
# Python writes no longer number as digits.
_MOST_BITS = 4096


def read_message(model: type[M], data: object, where: str) -> M:
    """The validated message; else InvalidMessage that names every offending field under `where`."""
    try:
        return model.model_validate(data)
    except ValidationError as error:
        raise InvalidMessage(
            describe(error, where), without_values=describe(error, where, with_values=False)
        ) from error


def describe(error: ValidationError, where: str = "", *, with_values: bool = True) -> str:
    """A validation error as one line: `payload.verb: Input should be a valid string (got 7)`."""
    parts: list[str] = []
    for problem in error.errors(include_url=False)[:_MOST_PROBLEMS]:
        path = ".".join(_cut(str(step)) for step in (where, *problem["loc"]) if step != "")[:_MOST_PATH]
        shown = with_values and problem["type"] != "missing"
        given = f" (got {_cut(_SHORT_VALUES.repr(problem['input']))})" if shown else ""
        told = f"{message_of(problem)[:_MOST_SAID]}{given}"
        parts.append(f"{path}: {told}" if path else told)
    return "; ".join(parts)


def message_of(problem: ErrorDetails) -> str:
    """The message of a problem, in which a list is called one."""
    return problem["msg"].removeprefix("Value error, ").replace("valid tuple", "valid list")


class _Short(Repr):
    """Values as Python writes them, shortened; no more of a large one is written."""

    def __init__(self) -> None:
        super().__init__()
        self.maxstring = self.maxother = self.maxlong = _SHORT
        self.maxlevel = 3

    def repr_int(self, x: int, level: int) -> str:
        if x.bit_length() > _MOST_BITS:
            return f"a number of {x.bit_length()} bits"
        return super().repr_int(x, level)


_SHORT_VALUES = _Short()


def _cut(text: str) -> str:
    return text if len(text) <= _SHORT else f"{text[: _SHORT - 3]}..."


def count_unknown(model: type[BaseModel], data: Mapping[str, object]) -> int:
    """The number of fields of `data`, nested models included, that the contract does not know."""
    known = known_fields(model)
    unknown = 0
    for key, value in data.items():
        if key not in known:
            unknown += 1
        elif isinstance(value, dict) and (nested := known[key]) is not None:
            unknown += count_unknown(nested, cast("dict[str, object]", value))
    return unknown


def refuse_unknown(model: type[BaseModel], data: Mapping[str, object], where: str) -> None:
    """InvalidMessage for a field of `data`, at any depth, that the contract does not know. For messages we send."""
    known = known_fields(model)
    refuse_unknown_names(data, known, where)
    for name, value in data.items():
        nested = known[name]
        parts = cast("Sequence[object]", value) if isinstance(value, list | tuple) else (value,)
        for part in parts:
            if nested is not None and isinstance(part, Mapping):
                refuse_unknown(nested, cast("Mapping[str, object]", part), f"{where}.{name}")


def refuse_unknown_names(names: Iterable[object], known: Collection[str], where: str) -> None:
    """InvalidMessage for the first unknown name, with the nearest known one."""
    for name in names:
        if name not in known:
            raise InvalidMessage(f"{where}.{str(name)[:_SHORT]}: there is no such field; {nearest(name, known)}")


def nearest(name: object, known: Collection[str]) -> str:
    """Advice about an unknown name: `did you mean tenant?`, or all known names where none is near."""
    near = get_close_matches(str(name).lower(), known, 1)
    return f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"


@cache
def known_fields(model: type[BaseModel]) -> Mapping[str, type[BaseModel] | None]:
    """Every input name of a field, with the model nested in it."""
    return {
        alias: _nested_model(info)
        for name, info in model.model_fields.items()
        for alias in _input_names(name, info)
    }


def _input_names(name: str, info: FieldInfo) -> list[str]:
    if isinstance(info.validation_alias, AliasChoices):
        return [str(choice) for choice in info.validation_alias.choices]
    return [info.alias or name]


def _nested_model(info: FieldInfo) -> type[BaseModel] | None:
    stack: list[Any] = [info.annotation]
    while stack:
        annotation = stack.pop()
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            return annotation
        if get_origin(annotation) is not dict:  # a mapping's keys are data, not fields
            stack.extend(get_args(annotation))
    return None


_CLOCK_TIME = timedelta(milliseconds=1)


def zoned_moment(value: object, *, naive_is_utc: bool = False) -> datetime:
    """A time with a zone, as UTC. Epoch numbers from 1e11 on are read as milliseconds."""
    if isinstance(value, bool) or value is None:
        raise ValueError("expected a time: ISO 8601 or epoch seconds")
    if isinstance(value, int | float):
        try:
            return datetime.fromtimestamp(value / 1000 if abs(value) >= 1e11 else value, UTC)
        except (OverflowError, ValueError, OSError) as error:
            raise ValueError("the epoch time is out of range") from error
    moment = value
    if isinstance(moment, str):
        try:
            moment = datetime.fromisoformat(moment)
        except ValueError as error:
            raise ValueError("not an ISO 8601 time, such as 2026-03-01T09:30:00Z") from error
    if not isinstance(moment, datetime):
        raise ValueError("expected a time: ISO 8601 or epoch seconds")  # noqa: TRY004 (pydantic wants ValueError)
    if moment.tzinfo is None:
        if not naive_is_utc:
            raise ValueError("the time has no zone: append Z or an offset such as +02:00")
        moment = moment.replace(tzinfo=UTC)
    try:
        return moment.astimezone(UTC)
    except OverflowError as error:
        raise ValueError("the time is out of range") from error


def moment_of_memory(value: object) -> datetime:
    """A time with a zone, as UTC, that keeps whether it has a time of day.

    Midnight in UTC is stored for a date alone. So what a clock away from Greenwich showed at that moment
    (21:00-03:00) is stored a millisecond later, and shown on the day of that clock.
    """
    moment = zoned_moment(value)
    is_midnight = not (moment.hour or moment.minute or moment.second or moment.microsecond)
    return moment + _CLOCK_TIME if is_midnight and moment_as_told(value).utcoffset() else moment


def moment_as_told(value: object) -> datetime:
    """A time with a zone, at the offset it was given with: words like "yesterday" are relative to that."""
    moment = zoned_moment(value)
    try:
        told = datetime.fromisoformat(value) if isinstance(value, str) else value
        offset = told.utcoffset() if isinstance(told, datetime) else None
        return moment.astimezone(timezone(offset)) if offset else moment
    except (OverflowError, ValueError):
        return moment


def whole_ms(measured_ms: float) -> int:
    """Whole milliseconds, rounded half up and never negative."""
    return max(0, math.floor(measured_ms + 0.5))


def _whole_ms(value: object) -> object:
    return whole_ms(value) if isinstance(value, float) and math.isfinite(value) else value


def without_empty(data: object, *, required: str) -> object:
    """The fields without those that are "" or null: many senders write an absent field so.

    The `required` one is kept.
    """
    if not isinstance(data, dict):
        return data
    fields = cast("dict[str, object]", data)
    return {name: value for name, value in fields.items() if name == required or value not in ("", None)}


def _zone_name(value: object) -> object:
    if isinstance(value, str):
        time_zone(value)
    return value


def _identifier(value: object) -> object:
    """Names that differ only in characters that cannot be stored would be the same: one tenant's as another's."""
    if isinstance(value, str) and ("\ufffd" in value or storable(value) != value):
        raise ValueError(
            "a name may hold neither NUL, nor half of a surrogate pair, nor U+FFFD, which stands for them"
        )
    return value


def at_most(count: int, *, described_as: Any = PydanticUndefined) -> BeforeValidator:
    """Refuses a list of more elements before any of them is looked at, let alone described as wrong."""

    def check(value: object) -> object:
        if isinstance(value, list | tuple) and (length := len(cast("list[object]", value))) > count:
            raise ValueError(f"should have at most {count} items, not {length}")
        return cast("object", value)

    return BeforeValidator(check, json_schema_input_type=described_as)


_ZonedTime = Annotated[
    str | float,
    Field(description="ISO 8601 with a zone (2026-03-01T09:30:00Z), or epoch seconds (from 1e11 on: milliseconds)"),
]
_EnvelopeTime = Annotated[
    str | float, Field(description="ISO 8601 (without a zone: UTC), or epoch seconds (from 1e11 on: milliseconds)")
]
MomentAsTold = Annotated[datetime, BeforeValidator(moment_as_told, json_schema_input_type=_ZonedTime)]
WholeMs = Annotated[int, Field(ge=0), BeforeValidator(_whole_ms)]
ZoneName = Annotated[str, Field(min_length=1, max_length=64), BeforeValidator(_zone_name)]
Moment = Annotated[datetime, BeforeValidator(zoned_moment, json_schema_input_type=_ZonedTime)]
MemoryMoment = Annotated[datetime, BeforeValidator(moment_of_memory, json_schema_input_type=_ZonedTime)]
EnvelopeMoment = Annotated[
    datetime, BeforeValidator(partial(zoned_moment, naive_is_utc=True), json_schema_input_type=_EnvelopeTime)
]
Identifier = Annotated[
    str,
    Field(min_length=1, max_length=512, json_schema_extra={"pattern": "^[^\\u0000\\uFFFD]*$"}),
    BeforeValidator(_identifier),
]
OptionalIdentifier = Annotated[
    Identifier | None,
    BeforeValidator(
        lambda value: None if value == "" else value, json_schema_input_type=Identifier | Literal[""] | None
    ),
]
Strings = Annotated[
    tuple[Annotated[str, Field(max_length=512)], ...], Field(strict=False, max_length=256), at_most(256)
]
MEMORY_KINDS = ("world", "experience", "opinion", "observation", "procedure", "plan", "task")
# ORION_MEMORY_KINDS adds further ones: kinds are checked where a message is served.
MemoryKind = Annotated[
    str,
    Field(
        min_length=1,
        max_length=64,
        description=f"{', '.join(MEMORY_KINDS)}, or one of those that the worker adds (ORION_MEMORY_KINDS)",
    ),
]
Kinds = Annotated[tuple[MemoryKind, ...], Field(strict=False, max_length=256), at_most(256)]
SourceName = Annotated[
    str, Field(pattern=SOURCE_NAME, description="vector, lexical, rdf, sql_timeline, or one of another package")
]
ScopeName = Literal["session", "user", "global"]
BudgetName = Literal["low", "mid", "high"]


class Message(BaseModel):
    """The base of all messages: frozen, strict in types; unknown fields are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True, populate_by_name=True)


class ClosedMessage(Message):
    """A message whose fields must all be known: an unknown one would widen what was meant to be narrow."""

    model_config = ConfigDict(extra="forbid")

    former: ClassVar[Mapping[str, str]] = {}
    """Fields that it once had, and what took their place."""

    @model_validator(mode="before")
    @classmethod
    def _all_known(cls, data: object) -> object:
        known = known_fields(cls)
        for name in cast("Mapping[object, object]", data) if isinstance(data, Mapping) else ():
            if name in cls.former:
                raise ValueError(f"`{name}` {cls.former[str(name)]}")
            if name not in known:
                raise ValueError(f"there is no field {str(name)[:60]!r}; {nearest(name, known)}")
        return cast("object", data)


def _source_object(value: object) -> object:
    return {"name": value} if isinstance(value, str) else value


class EnvelopeSource(Message):
    """The sender of a message."""

    name: str
    node: str | None = None
    version: str | None = None
    instance: str | None = None


class Envelope(Message):
    """The Titanium envelope. Short names (`corr_id`, `event`, `service`, `ts`) are accepted on input.

    An optional field that is "" or null is absent.
    """

    model_config = ConfigDict(
        frozen=True, extra="ignore", strict=True, populate_by_name=True, serialize_by_alias=True
    )

    schema_name: str = Field(default="orion.envelope", alias="schema")
    schema_version: str = "2.0.0"
    id: str | None = None
    correlation_id: str | None = Field(
        default=None,
        validation_alias=AliasChoices("correlation_id", "corr_id"),
        description="comes back as it was; strict readers want a UUID",
    )
    kind: str | None = Field(default=None, validation_alias=AliasChoices("kind", "event"))
    source: (
        Annotated[EnvelopeSource, BeforeValidator(_source_object, json_schema_input_type=EnvelopeSource | str)]
        | None
    ) = Field(default=None, validation_alias=AliasChoices("source", "service"))
    created_at: EnvelopeMoment | None = Field(default=None, validation_alias=AliasChoices("created_at", "ts"))
    ttl_ms: int | None = Field(default=None, ge=0, le=2**53, description="milliseconds from the stream entry's id")
    reply_to: str | None = None
    trace: dict[str, JsonValue] | None = Field(
        default=None, description="the sender's own; comes back whole, W3C traceparent and tracestate continued"
    )
    causality_chain: Annotated[tuple[JsonValue, ...], Field(strict=False)] = Field(
        default=(), description="objects of correlation_id (UUID), kind, source and created_at; others are left out"
    )
    payload: dict[str, JsonValue]

    @model_validator(mode="before")
    @classmethod
    def _without_empty(cls, data: object) -> object:
        return without_empty(data, required="payload")


class ErrorInfo(Message):
    """The error of a reply; `type` is the decision's outcome."""

    type: ErrorKind
    message: str
    retry_after_ms: int | None = Field(
        default=None, description="of `refused` for want of time: when to ask again, in milliseconds from now"
    )


_Name = Annotated[str, Field(min_length=1)]


class CausalitySource(EnvelopeSource):
    """The sender of a link's message; strict readers forbid further fields."""

    model_config = ConfigDict(extra="forbid")

    name: _Name


class CausalityLink(BaseModel):
    """One message of the causality chain that led to this one."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    correlation_id: UUID
    kind: _Name
    source: CausalitySource
    created_at: Annotated[
        datetime, AfterValidator(lambda value: value if value.tzinfo else value.replace(tzinfo=UTC))
    ]


def is_link(value: object) -> bool:
    """Whether strict readers accept the value as a link."""
    try:
        CausalityLink.model_validate(value)
    except ValidationError:
        return False
    return True


def causality_links(chain: Sequence[object]) -> list[dict[str, Any]]:
    """The chain as JSON, oldest first; InvalidMessage for a link that strict readers would refuse."""
    if not isinstance(chain, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidMessage(f"causality_chain: expected a list of links (got {chain!r:.60})")
    return [
        read_message(CausalityLink, link, f"causality_chain.{place}").model_dump(mode="json", exclude_none=True)
        for place, link in enumerate(chain)
    ]
