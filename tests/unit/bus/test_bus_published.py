from __future__ import annotations

import json
import logging

import pytest
from redis.asyncio import Redis

from orion_recall.bus.query_channels import PublishedQueries, _id_and_ttl  # pyright: ignore[reportPrivateUsage]


@pytest.fixture
def queries() -> PublishedQueries:
    """Nothing is sent: nobody runs it."""
    return PublishedQueries(Redis(), stream="queries", max_bytes=2 << 20)


def test_a_thousand_messages_may_wait_and_of_more_the_oldest_are_dropped_counted_and_said_once(
    queries: PublishedQueries, caplog: pytest.LogCaptureFixture
) -> None:
    for number in range(1003):
        queries.take(b"c", json.dumps({"id": f"m-{number}"}).encode(), since_ms=0)
    assert (queries.waiting, queries.counts.received, queries.counts.dropped) == (1000, 1003, 3)
    assert queries._waiting[0].seen_id == "m-3"  # pyright: ignore[reportPrivateUsage]
    assert [record.levelno for record in caplog.records] == [logging.ERROR]


@pytest.mark.parametrize("message_id", ["m-1", "58455E0F-b539-435c-bcc9-f19c29c472b8", "a:b_c.d"])
def test_a_message_is_known_by_its_id_whatever_else_is_in_it(message_id: str) -> None:
    first, second = ({"id": message_id, "payload": {"fragment": text}} for text in ("one", "two"))
    assert _id_and_ttl(json.dumps(first).encode()) == _id_and_ttl(json.dumps(second).encode()) == (message_id, 30)


@pytest.mark.parametrize(("count", "size"), [(500, 0), (16, 1 << 20)])
def test_the_listener_waits_once_so_much_waits_already(queries: PublishedQueries, count: int, size: int) -> None:
    for number in range(count):
        assert not queries.is_full
        queries.take(b"c", b"%d" % number + b"x" * size, since_ms=0)
    assert queries.is_full


@pytest.mark.parametrize(
    ("ttl_ms", "tried_s"), [(500, 0.5), (0, 0), (None, 30), (-1, 30), ("5", 30), (10**9, 30), (1e400, 30)]
)
def test_a_message_is_tried_for_half_a_minute_or_as_long_as_its_sender_waits(
    ttl_ms: object, tried_s: float
) -> None:
    assert _id_and_ttl(json.dumps({"id": "m", "ttl_ms": ttl_ms}).encode()) == ("m", tried_s)
