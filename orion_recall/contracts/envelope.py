"""The envelope of every message with its causality chain, and the error of a reply."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any
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

from orion_recall.contracts.fields import EnvelopeMoment, Message, read_message, without_empty
from orion_recall.errors import ErrorKind, InvalidMessage


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
    retry_after_ms: int | None = Field(default=None, description="when to ask again, if `refused` for time")


def _utc(value: datetime) -> datetime:
    return value if value.tzinfo else value.replace(tzinfo=UTC)


_Name = Annotated[str, Field(min_length=1)]


class CausalitySource(BaseModel):
    """The sender of a link's message; strict readers forbid further fields."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: _Name
    node: str | None = None
    version: str | None = None
    instance: str | None = None


class CausalityLink(BaseModel):
    """One message of the causality chain that led to this one."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    correlation_id: UUID
    kind: _Name
    source: CausalitySource
    created_at: Annotated[datetime, AfterValidator(_utc)]


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
