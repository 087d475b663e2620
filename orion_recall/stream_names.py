"""The names of all streams, channels and keys on the bus, with the prefix of one installation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from orion_recall.contracts import (
    DECISION_KIND,
    DELETE_KIND,
    FEEDBACK_KIND,
    QUERY_KIND,
    REPLY_KIND,
    STORE_KIND,
    UPDATE_KIND,
)


class StreamNames:
    """The names, as properties of `Settings`."""

    if TYPE_CHECKING:
        prefix: str
        query_channels: tuple[str, ...]
        decision_channels: tuple[str, ...]
        max_query_bytes: int
        max_message_bytes: int

    def max_bytes_of(self, kind: str) -> int:
        """The bytes that a message of the kind may have."""
        return self.max_query_bytes if kind == QUERY_KIND else self.max_message_bytes

    @property
    def query_stream(self) -> str:
        """The intake of queries."""
        return self.prefix + QUERY_KIND

    @property
    def published_on(self) -> Mapping[str, tuple[str, ...]]:
        """The pub/sub channels of queries and of decisions, with the prefix."""
        named = {"queries": self.query_channels, "decisions": self.decision_channels}
        return {what: tuple(self.prefix + name for name in names) for what, names in named.items()}

    @property
    def reply_stream(self) -> str:
        """The shared reply stream."""
        return self.prefix + REPLY_KIND

    @property
    def decision_stream(self) -> str:
        """The stream of decisions."""
        return self.prefix + DECISION_KIND

    @property
    def store_stream(self) -> str:
        """The intake of memories."""
        return self.prefix + STORE_KIND

    @property
    def update_stream(self) -> str:
        """The intake of changes of memories."""
        return self.prefix + UPDATE_KIND

    @property
    def delete_stream(self) -> str:
        """The intake of deletions."""
        return self.prefix + DELETE_KIND

    @property
    def feedback_stream(self) -> str:
        """The intake of feedback on recalls."""
        return self.prefix + FEEDBACK_KIND

    @property
    def intake_streams(self) -> Mapping[str, str]:
        """Every intake stream, by what it brings."""
        return {
            "queries": self.query_stream,
            "stores": self.store_stream,
            "updates": self.update_stream,
            "deletes": self.delete_stream,
            "feedback": self.feedback_stream,
        }

    @property
    def tombstone_stream(self) -> str:
        """The stream of tombstones, which tells every worker of memories changed or deleted a moment ago."""
        return f"{self.prefix}memory.tombstone.v1"

    @property
    def dead_stream(self) -> str:
        """Dead letters of queries: invalid or poison."""
        return f"{self.query_stream}:dead"

    def worker_key(self, instance: str) -> str:
        """The key of a worker's heartbeat on the bus."""
        return f"{self.query_stream}:worker:{instance}"

    def canary_key(self, trial_id: str) -> str:
        """The key of a canary trial on the bus, which all workers share."""
        return f"{self.query_stream}:canary:{trial_id}"

    @property
    def store_dead_stream(self) -> str:
        """Dead letters of store messages."""
        return f"{self.store_stream}:dead"
