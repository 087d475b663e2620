"""What the client sends, and what it refuses to send."""

from __future__ import annotations

import json
import math
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from typing import Any, cast
from uuid import UUID

import pytest

from orion_recall.bus.calls import Calls
from orion_recall.client import RecallClient
from orion_recall.contracts import RecallQueryV1
from orion_recall.errors import InvalidMessage

LINK: Mapping[str, Any] = {
    "correlation_id": "0b0e5b4e-6f5b-4d0a-8f0a-2b1f0e9d7c11",
    "kind": "exec.plan.v1",
    "source": {"name": "planner", "node": "athena"},
    "created_at": "2026-03-01T09:30:00Z",
}
CREATED = datetime(2026, 3, 1, 9, 30, tzinfo=UTC)


Calling = Callable[[Any], Awaitable[object]]


class Sent(Exception):
    """Ends a call that got as far as the bus."""


class Bus:
    """Keeps the one envelope that is sent."""

    envelope: Mapping[str, Any] | None = None

    async def xadd(self, _stream: str, fields: Mapping[str, bytes]) -> None:
        self.envelope = json.loads(fields["envelope"])
        raise Sent


def client_of(bus: Bus, max_message_bytes: int = 8192) -> RecallClient:
    redis = cast(Any, bus)
    return RecallClient(Calls(redis, redis, service="test", max_message_bytes=max_message_bytes))


async def envelope_of(call: Callable[[RecallClient], Awaitable[object]]) -> Mapping[str, Any]:
    bus = Bus()
    with pytest.raises(Sent):
        await call(client_of(bus))
    assert bus.envelope is not None
    return bus.envelope


async def refused(call: Callable[[RecallClient], Awaitable[object]]) -> str:
    bus = Bus()
    with pytest.raises(InvalidMessage) as caught:
        await call(client_of(bus, max_message_bytes=1024))
    assert bus.envelope is None, "nothing is sent"
    return str(caught.value)


async def test_a_request_is_what_strict_readers_take():
    envelope = await envelope_of(lambda client: client.recall("What?"))
    assert str(UUID(envelope["correlation_id"])) == envelope["correlation_id"]
    assert (envelope["trace"], envelope["causality_chain"]) == ({}, [])
    assert envelope["payload"] == {"fragment": "What?", "options": {}}, "options make room for an error"
    assert envelope["source"] == {"name": "test"}


async def test_the_callers_own_correlation_id_trace_and_causality_are_sent():
    name = UUID(LINK["correlation_id"])
    trace = {"trace_id": "t-1", "baggage": {"work": [1, None]}}
    chain = [LINK, {**LINK, "correlation_id": name, "created_at": CREATED}]
    calls: list[Calling] = [
        lambda client: client.recall("What?", correlation_id=name, trace=trace, causality_chain=chain),
        lambda client: client.store([], correlation_id=str(name), trace=trace, causality_chain=chain),
        lambda client: client.update(
            [{"id": "m", "text": "x"}], correlation_id=name, trace=trace, causality_chain=chain
        ),
        lambda client: client.delete(["m"], correlation_id=name, trace=trace, causality_chain=chain),
    ]
    for call in calls:
        envelope = await envelope_of(call)
        assert envelope["correlation_id"] == str(name)
        assert envelope["trace"] == trace
        assert envelope["causality_chain"] == [LINK, LINK]


UNFIT: list[tuple[Calling, str]] = [
    (lambda c: c.recall("x", options={"zzz": 1}), "zzz: there is no such field; there are tenant, scope"),
    (lambda c: c.store(5), "memories: expected a list of memories (got 5)"),
    (lambda c: c.update(5), "memories: expected a list of memories (got 5)"),
    (lambda c: c.store(["no mapping"]), "memories.0: expected a mapping of a memory's fields"),
    (lambda c: c.recall("x", options="k=5"), "query.options: "),
    (lambda c: c.recall("x", options={"k": 0}), "query.options.k: "),
    (lambda c: c.recall(RecallQueryV1(fragment="x", reply_to="me")), "query.reply_to: "),
    (lambda c: c.recall("x", correlation_id=""), "correlation_id: expected a UUID, or text that is not empty"),
    (lambda c: c.recall("x", correlation_id=5), "expected a UUID, or text that is not empty (got 5)"),
    (lambda c: c.recall("x", trace="00-x"), "trace: expected an object"),
    (lambda c: c.recall("x", trace={"at": CREATED}), "cannot be written as JSON"),
    (lambda c: c.store([{"id": "m", "text": "x" * 2000}]), "workers read 1024 at most: send less"),
    (lambda c: c.store([{"id": "m", "text": "x", "confidence": float("nan")}]), "cannot be written as JSON"),
    (lambda c: c.store([{"id": "m", "text": "x", "metadata": {"a": {1}}}]), "cannot be written as JSON"),
]


@pytest.mark.parametrize(("wait_s", "told"), [(None, None), (0, 0), (0.25, 250), (30, 30_000)])
async def test_how_long_a_receipt_waits_is_sent_where_it_is_given(wait_s: float | None, told: int | None):
    calls: list[Calling] = [
        lambda client: client.store([], wait_s=wait_s),
        lambda client: client.update([{"id": "m", "text": "x"}], wait_s=wait_s),
        lambda client: client.delete(["m"], wait_s=wait_s),
    ]
    for call in calls:
        assert (await envelope_of(call))["payload"].get("wait_ms") == told


@pytest.mark.parametrize("wait_s", [-0.001, 30.5, math.nan, math.inf, "2", [2]])
async def test_a_wait_that_no_worker_would_take_is_not_sent(wait_s: Any):
    calls: list[Calling] = [
        lambda client: client.store([], wait_s=wait_s),
        lambda client: client.update([{"id": "m", "text": "x"}], wait_s=wait_s),
        lambda client: client.delete(["m"], wait_s=wait_s),
    ]
    for call in calls:
        assert "wait_s: expected 0 to 30 seconds" in await refused(call)


@pytest.mark.parametrize(("call", "why"), UNFIT)
async def test_what_no_worker_could_use_is_not_sent(call: Calling, why: str):
    assert why in await refused(call)


@pytest.mark.parametrize("timeout_s", [math.nan, math.inf, -math.inf, 1e300, 10**20, "5", None, True])
async def test_a_time_out_that_is_no_time_is_not_sent(timeout_s: Any):
    calls: list[Calling] = [
        lambda c: c.recall("x", timeout_s=timeout_s),
        lambda c: c.store([], timeout_s=timeout_s),
        lambda c: c.feedback(decision_id="d", used=["m"], timeout_s=timeout_s),
    ]
    for call in calls:
        assert "timeout_s: expected a number of seconds, at most 9007199254740" in await refused(call)
