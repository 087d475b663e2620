"""Calls to the process of an index: in turn, together, and not sent where nobody waits any more."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from orion_recall.errors import SourceError
from orion_recall.serving.index_process.link import CallQueue
from orion_recall.serving.index_process.messages import Answer, Answers, Calls
from orion_recall.tasks import noticed


class Sent(list[Calls]):
    """The frames that were sent, and answers to them: what a call gives is its method's name."""

    def __init__(self) -> None:
        super().__init__()
        self.queue = CallQueue(self._send)

    def _send(self, told: object) -> None:
        assert isinstance(told, Calls)
        self.append(told)

    @property
    def methods(self) -> list[list[str]]:
        return [[call.method for call in frame.calls] for frame in self]

    def answer(self, place: int, error: Exception | None = None) -> None:
        frame = self[place]
        answers = [Answer(call.number, call.method, error) for call in frame.calls]
        self.queue.answered(Answers(answers, frame.are_reads, []))


@pytest.fixture
async def sent() -> Sent:
    return Sent()


def reads(sent: Sent, *methods: str) -> list[asyncio.Task[Any]]:
    return [asyncio.create_task(sent.queue.read(method)) for method in methods]


async def turns() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_reads_of_one_turn_go_together_four_at_most_and_two_frames_at_a_time(sent: Sent):
    tasks = reads(sent, *"abcdefghij")
    await turns()
    assert sent.methods == [list("abcd"), list("efgh")]
    sent.answer(1)
    await turns()
    assert sent.methods[2:] == [["i", "j"]]
    sent.answer(0)
    sent.answer(2)
    assert await asyncio.gather(*tasks) == list("abcdefghij")


async def test_what_takes_long_is_sent_at_once_beside_the_reads(sent: Sent):
    waiting = reads(sent, *"abcdefghij")
    await turns()
    writing = asyncio.create_task(sent.queue.call("build", "apply", 1))
    await turns()
    assert sent.methods[2] == ["apply"]
    assert (sent[2].calls[0].target, sent[2].calls[0].arguments, sent[2].are_reads) == ("build", (1,), False)
    sent.answer(2)
    assert await writing == "apply"
    assert len(sent) == 3, "a write makes no room for reads"
    sent.queue.fail(lambda: SourceError("gone"))
    await asyncio.gather(*waiting, return_exceptions=True)


async def test_a_read_that_nobody_waits_for_is_not_sent_and_is_excused_if_others_were_answered(sent: Sent):
    first = reads(sent, *"abcdefgh")
    await turns()
    late, waited = noticed(sent.queue.read("late"))
    early, not_waited = noticed(sent.queue.read("early"))
    await turns()
    early.cancel()
    await turns()
    sent.queue.answered(Answers([Answer(sent[0].calls[0].number, "a")], False, []))
    late.cancel()
    await turns()
    assert (waited.is_set, not_waited.is_set) == (True, False)
    sent.answer(1)
    await turns()
    assert len(sent) == 2
    sent.queue.fail(lambda: SourceError("gone"))
    await asyncio.gather(*first, return_exceptions=True)


async def test_an_answer_that_nobody_waits_for_is_dropped(sent: Sent):
    (task,) = reads(sent, "a")
    await turns()
    task.cancel()
    await turns()
    sent.answer(0)
    (other,) = reads(sent, "b")
    await turns()
    sent.answer(1)
    assert await other == "b"


async def test_an_error_is_raised_where_the_call_was_made(sent: Sent):
    (task,) = reads(sent, "a")
    await turns()
    sent.answer(0, SourceError("no"))
    with pytest.raises(SourceError, match="no"):
        await task


async def test_all_that_wait_fail_when_the_process_is_gone(sent: Sent):
    tasks = reads(sent, *"abcdefghij")
    await turns()
    sent.queue.fail(lambda: SourceError("gone"))
    errors = cast("list[Exception]", await asyncio.gather(*tasks, return_exceptions=True))
    assert {type(error) for error in errors} == {SourceError}
    assert len({id(error) for error in errors}) == 10, "each has its own traceback"
    (later,) = reads(sent, "later")
    await turns()
    assert sent.methods[-1] == ["later"]
    sent.answer(len(sent) - 1)
    assert await later == "later"
