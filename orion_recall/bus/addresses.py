"""Reply address rules: where a reply may go. Without them a caller could write to any key of the bus."""

from __future__ import annotations

from collections.abc import Iterable

from orion_recall.bus.commit import ReplyAddress
from orion_recall.errors import RefusedMessage
from orion_recall.settings import Settings

_LONGEST = 512


class ReplyRules:
    """The allowed reply addresses: exact names, or prefixes that end in `*`.

    Replies without an address, or with a refused one, go to `shared`. `reserved` are our own streams and channels,
    which no rule may open.
    """

    def __init__(
        self, *, shared: str, streams: Iterable[str], channels: Iterable[str], reserved: Iterable[str]
    ) -> None:
        self.shared = ReplyAddress(mode="shared", name=shared)
        self._streams, self._channels = tuple(streams), tuple(channels)
        self._reserved = frozenset(reserved)

    @classmethod
    def of(cls, settings: Settings) -> ReplyRules:
        """The rules of the settings, under their prefix."""
        return cls(
            shared=settings.reply_stream,
            streams=[settings.prefix + pattern for pattern in settings.reply_streams],
            channels=[settings.prefix + pattern for pattern in settings.reply_channels],
            reserved=(
                settings.decision_stream,
                f"{settings.decision_stream}:dead",
                f"{settings.decision_stream}:trimmed",
                settings.tombstone_stream,
                *(channel for channels in settings.published_on.values() for channel in channels),
                *(name for stream in settings.intake_streams.values() for name in (stream, f"{stream}:dead")),
            ),
        )

    def resolve_or_shared(self, reply_to: str | None) -> tuple[ReplyAddress, RefusedMessage | None]:
        """The address to reply to; with the reason where the requested one is refused."""
        try:
            return self.resolve(reply_to), None
        except RefusedMessage as refused:
            return self.shared, refused

    def resolve(self, reply_to: str | None) -> ReplyAddress:
        """The address to reply to; RefusedMessage when it is not an allowed one."""
        if reply_to is None or reply_to == self.shared.name:
            return self.shared
        if len(reply_to) <= _LONGEST and reply_to not in self._reserved:
            if any(_matches(reply_to, pattern) for pattern in self._streams):
                return ReplyAddress(mode="own", name=reply_to)
            if any(_matches(reply_to, pattern) for pattern in self._channels):
                return ReplyAddress(mode="channel", name=reply_to)
        allowed = ", ".join((*self._streams, *self._channels))
        shown = reply_to if len(reply_to) <= 80 else f"{reply_to[:77]}..."
        raise RefusedMessage(
            f"reply_to {shown!r} is not an allowed address (allowed: {allowed}; "
            "set by ORION_REPLY_STREAMS and ORION_REPLY_CHANNELS)"
        )


def _matches(name: str, pattern: str) -> bool:
    if pattern.endswith("*"):
        return name.startswith(pattern[:-1]) and len(name) >= len(pattern)
    return name == pattern
