from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orion_recall.bus.delivery import ReplyRules
from orion_recall.errors import RefusedMessage
from orion_recall.settings import Settings

RULES = ReplyRules.of(Settings(prefix="p:"))
ALLOWED = ("p:recall.reply.v1:", "p:orion-exec:result:", "p:orion:exec:result:", "p:orion:orch:result:")


@pytest.mark.parametrize(
    ("reply_to", "mode"),
    [
        ("p:recall.reply.v1", "shared"),
        ("p:recall.reply.v1:me", "own"),
        ("p:orion-exec:result:7", "channel"),
        ("p:orion:exec:result:7", "channel"),
        ("p:orion:orch:result:RecallService:7", "channel"),
    ],
)
def test_allowed_addresses_are_streams_or_channels(reply_to: str, mode: str) -> None:
    address = RULES.resolve(reply_to)
    assert (address.mode, address.name) == (mode, reply_to)


@given(st.text(st.characters(exclude_categories=()), min_size=1, max_size=40))
def test_whatever_else_is_asked_for_is_refused_and_answered_on_the_shared_stream(reply_to: str) -> None:
    address, refused = RULES.resolve_or_shared(reply_to)
    if reply_to != "p:recall.reply.v1" and not reply_to.startswith(ALLOWED):
        assert refused is not None
        assert address == RULES.shared


def test_no_rule_however_wide_opens_a_stream_or_a_channel_of_our_own() -> None:
    settings = Settings(prefix="p:", reply_streams=("*",), reply_channels=("*",), decision_channels=("told",))
    rules = ReplyRules.of(settings)
    assert rules.resolve("p:anything").mode == "own"
    ours = [
        settings.query_stream,
        settings.decision_stream,
        settings.dead_stream,
        settings.store_stream,
        settings.store_dead_stream,
        settings.update_stream,
        settings.delete_stream,
        f"{settings.delete_stream}:dead",
        settings.feedback_stream,
        settings.tombstone_stream,
        f"{settings.decision_stream}:dead",
        f"{settings.decision_stream}:trimmed",
        "p:orion:exec:request:RecallService",
        "p:told",
    ]
    for reply_to in ours:
        with pytest.raises(RefusedMessage, match="not an allowed address"):
            rules.resolve(reply_to)
