"""What was stored is found by the very next call, whichever of two workers answers it.

ORION_TEST_PAIRS says how many pairs of a store and a question: 10000 takes half an hour on two cores.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Coroutine, Iterator
from itertools import count, islice
from typing import Any, NamedTuple
from uuid import uuid4

import pytest
from redis.asyncio import Redis

from orion_recall.bus.connect import connect
from orion_recall.client import RecallClient, SyncRecallClient
from tests.acceptance.program import Program
from tests.stand_ins.patient_profiles import patient_profiles

pytestmark = [pytest.mark.acceptance, pytest.mark.slow]

PAIRS = int(os.environ.get("ORION_TEST_PAIRS", "80"))
# A command is a process, and takes as long as fifty calls.
_BY_COMMAND, _AT_ONCE = max(2, PAIRS // 100), 4


class Pair(NamedTuple):
    """A memory, and a question that it answers."""

    id: str
    text: str
    question: str


def pairs() -> Iterator[Pair]:
    """Things that nobody has heard of, told in four ways."""
    for number in count():
        thing = f"{'bcdfgklmnprstvz'[number % 15]}o{uuid4().hex[:7]}"
        text, question = (
            (f"The code of locker {thing} is {number}.", f"What is the code of locker {thing}?"),
            (f"Ana keeps the {thing} in hall {number % 9}.", f"Where does Ana keep the {thing}?"),
            (f"We decided to replace {thing} by the end of June.", f"What did we decide about {thing}?"),
            (f"Deploying {thing} failed: the disk of node {number} was full.", f"Why did {thing} fail?"),
        )[number % 4]
        yield Pair(f"pair-{thing}", text, question)


class PlainRedis:
    """Calls with two commands of Redis, XADD and XREAD."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis

    async def call(self, kind: str, payload: dict[str, Any]) -> dict[str, Any]:
        """The payload of the answer."""
        reply_to = f"recall.reply.v1:{uuid4().hex}"
        envelope = {"kind": kind, "reply_to": reply_to, "payload": payload}
        await self._redis.xadd(kind, {"envelope": json.dumps(envelope)})
        answers: Any = await self._redis.xread({reply_to: "0"}, block=60_000)
        await self._redis.unlink(reply_to)
        return json.loads(answers[0][1][0][1][b"envelope"])["payload"]

    async def missed(self, pair: Pair) -> str | None:
        memory = {"id": pair.id, "text": pair.text}
        receipt = await self.call("memory.store.v1", {"memories": [memory], "wait_ms": 30_000})
        reply = await self.call("recall.query.v1", {"fragment": pair.question})
        return _missed(pair, receipt, reply)


def _missed(pair: Pair, receipt: dict[str, Any], reply: dict[str, Any]) -> str | None:
    if receipt["pending"] is False and pair.id in [item["id"] for item in reply["bundle"]["items"]]:
        return None
    return f"{pair}: {receipt} {reply}"


async def _by_client(client: RecallClient, pair: Pair) -> str | None:
    receipt = await client.store([{"id": pair.id, "text": pair.text}])
    reply = await client.recall(pair.question)
    return _missed(pair, receipt.model_dump(), reply.model_dump())


async def _by_update(client: RecallClient, pair: Pair) -> str | None:
    await client.store([{"id": pair.id, "text": "Nothing is known of it."}], wait_s=0)
    receipt = await client.update([{"id": pair.id, "text": pair.text}])
    reply = await client.recall(pair.question)
    return _missed(pair, receipt.model_dump(), reply.model_dump())


async def _in_lanes(
    some: Iterator[Pair], ways: list[Callable[[Pair], Coroutine[Any, Any, str | None]]]
) -> list[str | None]:
    """Every pair by the next way, some of them at once."""
    numbered = enumerate(some)

    async def lane() -> list[str | None]:
        return [await ways[number % len(ways)](pair) for number, pair in numbered]

    return [one for lane in await asyncio.gather(*(lane() for _ in range(_AT_ONCE))) for one in lane]


async def _over_the_bus(url: str, some: Iterator[Pair]) -> list[str | None]:
    async with connect(url) as redis, RecallClient.connect(url) as client:
        plain = PlainRedis(redis)

        async def by_client(pair: Pair) -> str | None:
            return await _by_client(client, pair)

        async def by_update(pair: Pair) -> str | None:
            return await _by_update(client, pair)

        return await _in_lanes(some, [by_client, plain.missed, by_client, plain.missed, by_update])


def _by_command(program: Program, pair: Pair) -> str | None:
    stored = program.run("memory", "store", pair.id, "--text", pair.text, "--json")
    asked = program.run("ask", pair.question, "--json")
    assert (stored.code, asked.code) == (0, 0), stored.err + asked.err
    return _missed(pair, stored.json, asked.json)


def test_what_was_stored_is_found_by_the_next_call_of_any_of_two_workers(program: Program) -> None:
    folder = program.folder
    patient = {"ORION_DEADLINE_MS": "60000", "ORION_PROFILES_DIR": str(patient_profiles(folder))}
    program = program.with_settings(**patient, ORION_ACKNOWLEDGE_MS="30000")
    made = pairs()
    with program.started("up", "--workers", "2", "--json") as running:
        url = running.ready()["bus_url"]
        found = [_by_command(program, pair) for pair in islice(made, _BY_COMMAND)]
        with SyncRecallClient.connect(url) as client:
            for pair in islice(made, _BY_COMMAND):
                receipt = client.store([{"id": pair.id, "text": pair.text}])
                found.append(_missed(pair, receipt.model_dump(), client.recall(pair.question).model_dump()))
        found += asyncio.run(_over_the_bus(url, islice(made, PAIRS - len(found))))
        answered = program.run("decisions", "sql", "SELECT DISTINCT worker FROM recall_decisions", "--json").json
    assert (len(found), [one for one in found if one is not None]) == (PAIRS, [])
    assert len(answered["rows"]) == 2, "both have answered"
