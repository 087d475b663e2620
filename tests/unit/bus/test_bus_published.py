from __future__ import annotations

import json
import logging

import pytest
from redis.asyncio import Redis

from orion_recall.bus.query_channels import PublishedQueries, _id_and_ttl  # pyright: ignore[reportPrivateUsage]

HASH_LENGTH = 32


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


def test_what_waits_is_bounded_in_bytes_as_well(queries: PublishedQueries) -> None:
    for number in range(70):
        queries.take(b"c", json.dumps({"id": f"m-{number}", "text": "x" * (1 << 20)}).encode(), since_ms=0)
    assert 60 <= queries.waiting <= 64
    assert queries.counts.dropped == 70 - queries.waiting


def test_of_a_message_that_is_too_large_nothing_waits_but_its_size(queries: PublishedQueries) -> None:
    for number in range(70):
        queries.take(b"c", f"{number}".encode() + b"x" * (3 << 20), since_ms=0)
    assert (queries.waiting, queries.counts.dropped) == (70, 0)


@pytest.mark.parametrize("message_id", ["m-1", "58455E0F-b539-435c-bcc9-f19c29c472b8", "a:b_c.d"])
def test_a_message_is_known_by_its_id_whatever_else_is_in_it(message_id: str) -> None:
    first, second = ({"id": message_id, "payload": {"fragment": text}} for text in ("one", "two"))
    assert _id_and_ttl(json.dumps(first).encode()) == _id_and_ttl(json.dumps(second).encode()) == (message_id, 30)


@pytest.mark.parametrize("message_id", ["", " ", None, 7, ["m"]])
def test_without_a_readable_id_a_message_is_known_by_its_bytes(message_id: object) -> None:
    first, second = (json.dumps({"id": message_id, "text": text}).encode() for text in ("one", "two"))
    assert _id_and_ttl(first) == _id_and_ttl(first) != _id_and_ttl(second)
    assert len(_id_and_ttl(first)[0]) == HASH_LENGTH


@pytest.mark.parametrize("message_id", ["x" * 65, "a b", "a\nb", "\ud800", "é", "x" * 100_000])
def test_no_id_makes_a_long_or_an_odd_key(message_id: str) -> None:
    first, second = (json.dumps({"id": message_id, "text": text}).encode() for text in ("one", "two"))
    assert _id_and_ttl(first) == _id_and_ttl(second)
    assert len(_id_and_ttl(first)[0]) == HASH_LENGTH


def test_a_large_message_is_not_parsed_and_is_known_by_its_bytes() -> None:
    first, second = (
        json.dumps({"id": "m-1", "ttl_ms": 500, "text": letter * (256 << 10)}).encode() for letter in "ab"
    )
    assert _id_and_ttl(first) == _id_and_ttl(first) != _id_and_ttl(second)
    assert (len(_id_and_ttl(first)[0]), _id_and_ttl(first)[1]) == (HASH_LENGTH, 30)


@pytest.mark.parametrize(("count", "size"), [(500, 0), (16, 1 << 20)])
def test_the_listener_waits_once_so_much_waits_already(queries: PublishedQueries, count: int, size: int) -> None:
    for number in range(count):
        assert not queries.is_full
        queries.take(b"c", b"%d" % number + b"x" * size, since_ms=0)
    assert queries.is_full


@pytest.mark.parametrize("data", [b"", b"\xff", b"[]", b"7", b"[" * 100_000, b"null", b'{"id": ' + b"9" * 5000])
def test_what_is_no_envelope_is_known_by_its_bytes(data: bytes) -> None:
    assert len(_id_and_ttl(data)[0]) == HASH_LENGTH


@pytest.mark.parametrize(
    ("ttl_ms", "tried_s"), [(500, 0.5), (0, 0), (None, 30), (-1, 30), ("5", 30), (10**9, 30), (1e400, 30)]
)
def test_a_message_is_tried_for_half_a_minute_or_as_long_as_its_sender_waits(
    ttl_ms: object, tried_s: float
) -> None:
    assert _id_and_ttl(json.dumps({"id": "m", "ttl_ms": ttl_ms}).encode()) == ("m", tried_s)
