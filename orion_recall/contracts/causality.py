"""Causality chains: links that strict readers of the mesh accept."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any
from uuid import UUID

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from orion_recall.contracts.reading import read_message
from orion_recall.errors import InvalidMessage


def _utc(value: datetime) -> datetime:
    return value if value.tzinfo else value.replace(tzinfo=UTC)


_Name = Annotated[str, Field(min_length=1)]


class CausalitySource(BaseModel):
    """The sender of a link's message."""

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
