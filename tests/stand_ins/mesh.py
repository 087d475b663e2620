"""An executor of the mesh that orion-recall is made for: its strict envelope, its contracts, and how it calls.

Written from what the mesh accepts, and free of anything of ours: what these models refuse, an executor refuses.
There are two states of the mesh: `FOUNDING` and `LATER`, with other channels and more fields in a query.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal, cast
from uuid import UUID, uuid4

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, field_validator
from redis.asyncio import Redis


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", populate_by_name=True)


class MeshSource(_Strict):
    """Who sent a message."""

    name: str
    node: str | None = None
    version: str | None = None
    instance: str | None = None


class MeshLink(_Strict):
    """One step of a causality chain."""

    correlation_id: UUID
    kind: str
    source: MeshSource
    created_at: datetime


class MeshEnvelope(BaseModel):
    """The envelope as the mesh reads it: unknown fields are forbidden, `trace` is an object and never null."""

    model_config = ConfigDict(extra="forbid", str_strip_whitespace=True, populate_by_name=True)

    schema_id: Literal["orion.envelope"] = Field(default="orion.envelope", alias="schema")
    schema_version: str = "2.0.0"
    id: UUID = Field(default_factory=uuid4)
    correlation_id: UUID = Field(default_factory=uuid4, validation_alias=AliasChoices("correlation_id", "corr_id"))
    kind: str = Field(validation_alias=AliasChoices("kind", "event"))
    causality_chain: list[MeshLink] = Field(default_factory=list[MeshLink])
    source: MeshSource = Field(validation_alias=AliasChoices("source", "service"))
    created_at: datetime = Field(
        default_factory=lambda: datetime.now(UTC), validation_alias=AliasChoices("created_at", "ts")
    )
    ttl_ms: int | None = None
    trace: dict[str, Any] = Field(default_factory=dict[str, Any])
    reply_to: str | None = None
    payload: dict[str, Any] = Field(default_factory=dict[str, Any])

    @field_validator("created_at")
    @classmethod
    def _utc(cls, value: datetime) -> datetime:
        return value if value.tzinfo else value.replace(tzinfo=UTC)


class MeshItem(_Strict):
    """One memory of a bundle."""

    id: str
    source: str
    source_ref: str | None = None
    uri: str | None = None
    score: float = Field(default=0.0, ge=0, le=1)
    ts: float | None = None
    title: str | None = None
    snippet: str = ""
    tags: list[str] = Field(default_factory=list[str])


class MeshStats(_Strict):
    """What a recall cost; whole milliseconds."""

    backend_counts: dict[str, int] = Field(default_factory=dict[str, int])
    latency_ms: int = 0
    profile: str | None = None


class MeshBundle(_Strict):
    """The memories, and the text for a prompt."""

    rendered: str = ""
    items: list[MeshItem] = Field(default_factory=list[MeshItem])
    stats: MeshStats = Field(default_factory=MeshStats)


class MeshReply(_Strict):
    """The payload of a reply: nothing may stand beside the bundle but the correlation id."""

    bundle: MeshBundle
    correlation_id: str | None = None


class MeshDecision(_Strict):
    """The payload of a published decision."""

    id: str
    corr_id: str
    session_id: str | None = None
    node_id: str | None = None
    verb: str | None = None
    profile: str | None = None
    query: str
    selected_ids: list[str] = Field(default_factory=list[str])
    dropped: dict[str, int] = Field(default_factory=dict[str, int])
    backend_counts: dict[str, int] = Field(default_factory=dict[str, int])
    latency_ms: int = 0
    created_at: datetime


def decoded(data: bytes | str) -> MeshEnvelope:
    """The message as the mesh's codec reads it; pydantic's ValidationError for what it would refuse."""
    return MeshEnvelope.model_validate(json.loads(data))


@dataclass(frozen=True, slots=True, kw_only=True)
class MeshState:
    """One state of the mesh: where it asks, where it wants the answer, and what a query holds by default."""

    request_channel: str
    reply_prefix: str
    decision_channel: str
    fields: Mapping[str, Any]


FOUNDING = MeshState(
    request_channel="recall.query.v1",
    reply_prefix="orion-exec:result:RecallService",
    decision_channel="recall.decision.v1",
    fields={"verb": "reflect", "intent": None, "session_id": None, "node_id": None, "profile": "reflect.v1"},
)
LATER = MeshState(
    request_channel="orion:exec:request:RecallService",
    reply_prefix="orion:exec:result:RecallService",
    decision_channel="orion:recall:telemetry",
    fields={
        "verb": "chat_general",
        "intent": None,
        "session_id": "",
        "node_id": "",
        "profile": "reflect.v1",
        "lane": "chat",
        "profile_explicit": False,
        "exclude": {"active_turn_ids": [], "active_turn_text": "", "active_turn_ts": None},
        "recall_phase": "pre",
        "retrieval_intent": None,
        "task_hints": [],
        "seed_crystallization_id": None,
        "active_packet_digest_budget": None,
        "concept_region_digest_budget": None,
    },
)


class MeshExecutor:
    """Calls as the mesh's executors do. `prefix` stands before every channel and stream, for tests alone."""

    def __init__(self, redis: Redis, state: MeshState = FOUNDING, *, prefix: str = "") -> None:
        self.redis, self.state, self.prefix = redis, state, prefix
        self.source = MeshSource(name="cortex-exec", node="athena", version="0.2.0")

    def message(self, fragment: str, *, reply_to: str, **changes: Any) -> MeshEnvelope:
        """A query; `changes` are the envelope's fields by name, all others the payload's."""
        envelope = {name: changes.pop(name) for name in MeshEnvelope.model_fields if name in changes}
        payload = {"fragment": fragment, **self.state.fields, "reply_to": reply_to, **changes}
        fields: dict[str, Any] = {
            "kind": "recall.query.v1",
            "source": self.source,
            "reply_to": reply_to,
            "payload": payload,
        }
        return MeshEnvelope.model_validate(fields | envelope)

    async def rpc(
        self, fragment: str, *, timeout_s: float = 60.0, **changes: Any
    ) -> tuple[MeshEnvelope, MeshReply]:
        """Subscribe, publish, and wait for the one message with our correlation id: reply envelope and payload.

        A reply that the codec or the contracts refuse raises pydantic's ValidationError, as it does in the mesh.
        """
        reply_to = f"{self.prefix}{self.state.reply_prefix}:{uuid4()}"
        asked = self.message(fragment, reply_to=reply_to, **changes)
        redis = cast("Any", self.redis)  # redis-py leaves the types of its channels open
        async with redis.pubsub() as answers:
            await answers.subscribe(reply_to)
            await redis.publish(self.prefix + self.state.request_channel, asked.model_dump_json(by_alias=True))
            async with asyncio.timeout(timeout_s):
                while True:
                    got = await answers.get_message(ignore_subscribe_messages=True, timeout=1.0)
                    if got is None:
                        continue
                    reply = decoded(got["data"])
                    if reply.correlation_id == asked.correlation_id:
                        return reply, MeshReply.model_validate(reply.payload)

    async def enqueue(self, asked: MeshEnvelope, *, stream: str = "recall.query.v1") -> str:
        """XADD as the mesh's work queues do; the entry's id."""
        fields: dict[Any, Any] = {
            "schema_version": "work_queue.entry.v1",
            "envelope": asked.model_dump_json(by_alias=True),
            "enqueued_at_ms": str(int(datetime.now(UTC).timestamp() * 1000)),
            "kind": asked.kind,
            "correlation_id": str(asked.correlation_id),
            "reply_to": asked.reply_to or "",
            "source": asked.source.model_dump_json(),
        }
        added: Any = await self.redis.xadd(self.prefix + stream, fields)
        return added.decode()
