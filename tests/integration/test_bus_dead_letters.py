"""Dead letters: looked at, found by either id, put back as they were."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from executor import Executor, rows
from redis.asyncio import Redis

from orion_recall.bus.dead_letters import DeadLetter, DeadLetters
from orion_recall.contracts import QUERY_KIND, RecallQueryV1
from orion_recall.errors import BusRefused


@pytest.fixture
def letters(bus: Redis, prefix: str) -> DeadLetters:
    return DeadLetters(bus, f"{prefix}recall.query.v1")


async def bury(redis: Redis, prefix: str, number: int) -> str:
    fields: dict[Any, Any] = {
        "entry_id": f"{number}-1",
        "reason": f"invalid: {number}",
        "correlation_id": f"c-{number}",
        "field:envelope": f"e-{number}",
        "field:reason": "of the entry itself",
    }
    added: Any = await redis.xadd(f"{prefix}recall.query.v1:dead", fields)
    return added.decode()


async def test_a_letter_is_found_by_its_own_id_and_by_the_entrys_also_among_many(
    bus: Redis, prefix: str, letters: DeadLetters
) -> None:
    ids = [await bury(bus, prefix, number) for number in range(250)]
    by_own, by_entry = await letters.get(ids[230]), await letters.get("230-1")
    assert by_own is not None
    assert by_own == by_entry
    assert (by_own.id, by_own.entry_id) == (ids[230], "230-1")
    assert await letters.get("999-1") is None
    assert await letters.get("no id at all") is None


async def test_a_letter_that_is_put_back_is_an_entry_again_and_no_longer_a_letter(
    bus: Redis, prefix: str, letters: DeadLetters
) -> None:
    await bury(bus, prefix, 1)
    kept = await bury(bus, prefix, 2)
    letter = await letters.get("1-1")
    assert letter is not None
    entry_id = await letters.requeue(letter)
    assert await rows(bus, f"{prefix}recall.query.v1") == [
        (entry_id, {b"envelope": b"e-1", b"reason": b"of the entry itself"})
    ]
    assert [left.id for left in await letters.latest()] == [kept]


async def test_of_many_who_put_one_letter_back_one_does(bus: Redis, prefix: str, letters: DeadLetters) -> None:
    await bury(bus, prefix, 1)
    letter = await letters.get("1-1")
    assert letter is not None

    async def bury_others() -> None:
        for number in range(2, 12):
            await bury(bus, prefix, number)

    *added, _ = await asyncio.gather(*(letters.requeue(letter) for _ in range(8)), bury_others())
    (entry_id,) = [one for one in added if one is not None]
    assert [one for one, _ in await rows(bus, f"{prefix}recall.query.v1")] == [entry_id]
    assert len(await letters.latest()) == 10
    assert await letters.requeue(letter) is None


@pytest.mark.parametrize(
    ("envelope", "said"),
    [
        (json.dumps({"payload": {"fragment": "crane"}}), None),
        (json.dumps({"kind": "recall.query.request", "payload": {"fragment": "", "session_id": ""}}), None),
        ("{", "not JSON"),
        (json.dumps({"payload": {"fragment": 7}}), "payload.fragment: Input should be a valid string"),
        (json.dumps({"kind": "memory.store.v1", "payload": {"fragment": "a"}}), "envelope.kind: expected recall"),
    ],
)
def test_whether_a_letter_would_die_again_is_known_before(envelope: str, said: str | None) -> None:
    letter = DeadLetter(
        id="1-1", entry_id="1-0", reason="", correlation_id="", fields={b"envelope": envelope.encode()}
    )
    problem = DeadLetters.problem(letter, kind=QUERY_KIND, payload=RecallQueryV1, max_bytes=10_000)
    assert problem is None if said is None else said in str(problem)


async def test_a_message_that_was_invalid_for_a_while_is_answered_when_it_is_put_back(executor: Executor) -> None:
    buried = await executor.ended(await executor.add({"envelope": "{", "data": json.dumps({"spare": True})}))
    assert buried.decision["outcome"] == "invalid"
    letters = DeadLetters(executor.redis, executor.queries)
    letter = await letters.get(buried.decision["entry_id"])
    assert letter is not None
    again = await executor.ended(await letters.requeue(letter) or "")
    assert again.decision["outcome"] == "invalid"
    assert again.decision["id"] != buried.decision["id"]
    assert again.letters[0][b"field:envelope"] == b"{"


async def test_a_letter_whose_stream_is_of_another_type_is_kept(
    bus: Redis, prefix: str, letters: DeadLetters
) -> None:
    letter = await letters.get(await bury(bus, prefix, 1))
    assert letter is not None
    await bus.set(f"{prefix}recall.query.v1", "no stream")
    with pytest.raises(BusRefused, match="another type"):
        await letters.requeue(letter)
    assert await letters.get(letter.id) == letter
    await bus.unlink(f"{prefix}recall.query.v1")
    assert await letters.requeue(letter) is not None
    await bus.unlink(f"{prefix}recall.query.v1")
