"""Which queries the client answers by itself; that nothing is sent is in test_client.py."""

from __future__ import annotations

import pytest

from orion_recall.contracts import RecallQueryV1
from orion_recall.contracts.small_talk_reply import reply_without_asking


@pytest.mark.parametrize(
    ("text", "kind"),
    [("Good morning!", "greeting"), ("Thanks a lot, Ana", "thanks"), ("Tell me a joke", "small_talk")],
)
def test_what_asks_nothing_of_memory_gets_an_empty_bundle_with_the_reason(text: str, kind: str) -> None:
    reply = reply_without_asking(RecallQueryV1(fragment=text, profile="reflect.v1"))
    assert reply is not None
    stats = reply.bundle.stats
    assert (reply.bundle.rendered, reply.bundle.items, reply.error) == ("", [], None)
    assert (stats.outcome, stats.profile, stats.decision_id) == ("empty", "reflect.v1", None)
    assert stats.no_answer is not None
    assert stats.no_answer.reason == kind


@pytest.mark.parametrize(
    "query",
    [
        RecallQueryV1(fragment="Thanks, and when is the meeting?"),
        RecallQueryV1(fragment="Hello", intent="what she asked last time"),
        RecallQueryV1(fragment="What is the load limit of the crane?"),
        RecallQueryV1(fragment="Tell me a joke about my sister"),
    ],
)
def test_what_asks_something_is_to_be_sent(query: RecallQueryV1) -> None:
    assert reply_without_asking(query) is None
