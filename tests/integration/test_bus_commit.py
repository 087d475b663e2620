"""The fenced commit on a real server: all of it or nothing of it, once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from executor import Executor, command, pending, rows, until
from redis.asyncio import Redis
from redis.exceptions import ResponseError

from orion_recall.bus.commit import Commit, Committer, MessageHead, ReplyAddress, commit_when_possible
from orion_recall.bus.connect import connect
from orion_recall.bus.dead_letters import DeadLetters
from orion_recall.engines.embedded import EmbeddedEngines
from orion_recall.errors import InvalidMessage
from orion_recall.settings import DECISIONS_GROUP, Settings

GROUP = "orion-recall"
A_MEGABYTE: dict[str, Any] = {
    "reply_maxlen": 1000,
    "reply_bytes": 1 << 20,
    "decisions_bytes": 1 << 20,
    "dead_letters_bytes": 1 << 20,
}


class Intake:
    """The streams of one intake, with entries that two workers hold."""

    def __init__(self, redis: Redis, prefix: str) -> None:
        self.redis, self.prefix = redis, prefix
        self.stream = f"{prefix}recall.query.v1"
        self.decisions = f"{prefix}recall.decision.v1"
        self.dead = f"{prefix}recall.query.v1:dead"
        self.own = ReplyAddress(mode="own", name=f"{prefix}recall.reply.v1:me")
        self.shared = ReplyAddress(mode="shared", name=f"{prefix}recall.reply.v1")

    def committer(self, redis: Redis | None = None, **changes: Any) -> Committer:
        limits: dict[str, Any] = {
            "reply_maxlen": 100,
            "reply_ttl_s": 60,
            "decisions_cap": 1000,
            "decision_channels": (),
        }
        return Committer(redis or self.redis, Settings(prefix=self.prefix, **{**limits, **changes}), self.stream)

    async def take(self, count: int = 1) -> list[str]:
        """Entries that are pending now."""
        if not await self.redis.exists(self.stream):
            await self.redis.xgroup_create(self.stream, GROUP, id="0", mkstream=True)
        pipeline = self.redis.pipeline()
        for number in range(count):
            pipeline.xadd(self.stream, {"envelope": f"e-{number}", "note": "\x00 kept"})
        ids = [entry_id.decode() for entry_id in await pipeline.execute()]
        await self.redis.xreadgroup(GROUP, "w-1", {self.stream: ">"}, count=count)
        return ids

    def commit(self, entry_id: str, **changes: object) -> Commit:
        fields = {"entry_id": entry_id, "address": self.own, "reply": b"{}", "decision": b'{"d": 1}'} | changes
        return Commit(**fields)  # pyright: ignore[reportArgumentType]

    async def pending(self) -> int:
        return len(await pending(self.redis, self.stream))

    async def counts(self) -> tuple[int, int, int]:
        """Replies, decisions, dead letters."""
        own, shared = await rows(self.redis, self.own.name), await rows(self.redis, self.shared.name)
        decisions, dead = await rows(self.redis, self.decisions), await rows(self.redis, self.dead)
        return len(own) + len(shared), len(decisions), len(dead)

    async def clear(self) -> None:
        await self.redis.unlink(self.own.name)


@pytest.fixture
async def intake(bus: Redis, prefix: str) -> AsyncGenerator[Intake]:
    made = Intake(bus, prefix)
    yield made
    await made.clear()


async def test_of_two_workers_that_commit_one_entry_one_is_fenced_and_nothing_is_written_twice(
    intake: Intake, bus_alone: EmbeddedEngines
) -> None:
    (entry_id,) = await intake.take()
    async with connect(bus_alone.redis_url) as other:
        first, second = intake.committer(), intake.committer(other)
        results = await asyncio.gather(
            first.commit(intake.commit(entry_id)), second.commit(intake.commit(entry_id, dead_reason="poison"))
        )
    assert sorted(results) == ["committed", "fenced"]
    replies, decisions, dead = await intake.counts()
    assert (replies, decisions) == (1, 1)
    assert dead == (results[1] == "committed")
    assert first.fenced + second.fenced == 1
    assert await intake.pending() == 0
    assert await rows(intake.redis, intake.stream) == []


async def test_a_hundred_commits_travel_together_and_each_hears_its_own_result(intake: Intake) -> None:
    ids = await intake.take(100)
    commits = [intake.commit(entry_id, reply=entry_id.encode()) for entry_id in ids]
    committer = intake.committer()
    again = [commits[7], commits[50]]
    results = await asyncio.gather(*(committer.commit(commit) for commit in (*commits, *again)))
    assert results == ["committed"] * 100 + ["fenced"] * 2
    said = [fields[b"envelope"].decode() for _, fields in await rows(intake.redis, intake.own.name)]
    assert said == ids


async def test_a_commit_whose_caller_has_gone_does_not_hold_up_the_others(intake: Intake) -> None:
    first, second = await intake.take(2)
    committer = intake.committer()
    gone = asyncio.create_task(committer.commit(intake.commit(first)))
    stays = asyncio.create_task(committer.commit(intake.commit(second)))
    await asyncio.sleep(0)
    gone.cancel()
    assert await stays == "committed"
    assert await committer.commit(intake.commit(first)) in ("committed", "fenced")


@pytest.mark.parametrize("which", ["decisions", "dead"])
async def test_nothing_is_written_while_a_stream_of_our_own_has_another_type(which: str, intake: Intake) -> None:
    (entry_id,) = await intake.take()
    broken = getattr(intake, which)
    await intake.redis.set(broken, "no stream", ex=60)
    commit = intake.commit(entry_id, dead_reason="invalid")
    assert await intake.committer().commit(commit) == "stream_not_writable"
    assert await intake.pending() == 1
    assert await intake.counts() == (0, 0, 0)
    assert len(await rows(intake.redis, intake.stream)) == 1
    # It is held, and goes through as soon as the stream may be written to.
    waiting = asyncio.create_task(commit_when_possible(intake.committer(), commit))
    await intake.redis.unlink(broken)
    assert await waiting == "committed"
    assert await intake.counts() == (1, 1, 1)


async def test_the_shared_stream_is_waited_for_and_a_callers_own_is_not(intake: Intake) -> None:
    (entry_id,) = await intake.take()
    for address in (intake.own, intake.shared):
        await intake.redis.set(address.name, "no stream", ex=60)
    committer = intake.committer()
    assert await commit_when_possible(committer, intake.commit(entry_id)) == "reply_not_writable"
    waiting = asyncio.create_task(commit_when_possible(committer, intake.commit(entry_id, address=intake.shared)))
    await intake.redis.unlink(intake.shared.name)
    assert await waiting == "committed"


async def test_a_channel_that_an_access_list_closes_leaves_the_entry_pending(
    intake: Intake, bus_alone: EmbeddedEngines
) -> None:
    (entry_id,) = await intake.take()
    await command(intake.redis, "ACL", "SETUSER", "shut", "on", ">word", "+@all", "~*", "resetchannels")
    url = bus_alone.redis_url.replace("unix://", "unix://shut:word@")
    async with connect(url) as shut:
        closed = ReplyAddress(mode="channel", name="orion-exec:result:x")
        assert await intake.committer(shut).commit(intake.commit(entry_id, address=closed)) == "reply_not_writable"
    assert (await intake.pending(), await intake.counts()) == (1, (0, 0, 0))
    await command(intake.redis, "ACL", "DELUSER", "shut")
    assert await intake.committer().commit(intake.commit(entry_id)) == "committed"


async def test_a_server_that_refuses_is_told_to_everybody_who_waits_and_the_next_commit_goes_through(
    intake: Intake, bus_alone: EmbeddedEngines
) -> None:
    ids = await intake.take(2)
    await command(intake.redis, "SCRIPT", "FLUSH")
    await command(intake.redis, "ACL", "SETUSER", "mute", "on", ">word", "+@all", "-script", "~*", "&*")
    url = bus_alone.redis_url.replace("unix://", "unix://mute:word@")
    async with connect(url) as mute:
        committer = intake.committer(mute)
        refused = await asyncio.gather(
            *(committer.commit(intake.commit(entry_id)) for entry_id in ids), return_exceptions=True
        )
        assert [isinstance(error, ResponseError) for error in refused] == [True, True]
        waiting = asyncio.create_task(commit_when_possible(committer, intake.commit(ids[0])))
        await command(intake.redis, "ACL", "SETUSER", "mute", "+script")
        assert await waiting == "committed"
        assert await committer.commit(intake.commit(ids[1])) == "committed"
    await command(intake.redis, "ACL", "DELUSER", "mute")


@pytest.mark.parametrize("script", ["loaded", "forgotten"])
async def test_of_those_that_travel_together_one_that_is_refused_does_not_hold_up_the_others(
    script: str, intake: Intake, bus_alone: EmbeddedEngines
) -> None:
    known, *ids = await intake.take(6)
    assert await intake.committer().commit(intake.commit(known)) == "committed"
    if script == "forgotten":
        await command(intake.redis, "SCRIPT", "FLUSH")
    closed = ReplyAddress(mode="own", name=f"closed:{intake.own.name}")
    rules = ("on", ">word", "+@all", "~*recall.query*", "~*recall.decision*", f"~{intake.own.name}", "&*")
    await command(intake.redis, "ACL", "SETUSER", "narrow", "reset", *rules)
    url = bus_alone.redis_url.replace("unix://", "unix://narrow:word@")
    commits = [intake.commit(entry_id) for entry_id in ids]
    commits[2] = intake.commit(ids[2], address=closed)
    async with connect(url) as narrow:
        committer = intake.committer(narrow)
        found = await asyncio.gather(*map(committer.commit, commits), return_exceptions=True)
        assert [result if isinstance(result, str) else type(result).__name__ for result in found] == [
            "committed",
            "committed",
            "NoPermissionError",
            "committed",
            "committed",
        ]
        assert await committer.commit(commits[0]) == "fenced"
        assert await committer.commit(intake.commit(ids[2])) == "committed"
    await command(intake.redis, "ACL", "DELUSER", "narrow")
    assert await intake.counts() == (6, 6, 0) and await intake.pending() == 0


async def test_a_reply_stream_that_an_access_list_closes_does_not_hold_its_entry_for_ever(
    intake: Intake, bus_alone: EmbeddedEngines
) -> None:
    (entry_id,) = await intake.take()
    rules = ("on", ">word", "+@all", "~*recall.query*", "~*recall.decision*", "&*")
    await command(intake.redis, "ACL", "SETUSER", "narrower", "reset", *rules)
    async with connect(bus_alone.redis_url.replace("unix://", "unix://narrower:word@")) as narrower:
        committer = intake.committer(narrower)
        assert await commit_when_possible(committer, intake.commit(entry_id)) == "reply_not_writable"
        nowhere = ReplyAddress(mode="none", name="")
        assert await commit_when_possible(committer, intake.commit(entry_id, address=nowhere)) == "committed"
    await command(intake.redis, "ACL", "DELUSER", "narrower")
    assert (await intake.counts(), await intake.pending()) == ((0, 1, 0), 0)


async def test_a_commit_that_the_server_ends_the_connection_for_does_not_hold_up_the_others(intake: Intake) -> None:
    """As one that is larger than the server takes at once."""
    large, *others = await intake.take(4)
    await command(intake.redis, "CONFIG", "SET", "proto-max-bulk-len", "1mb")
    try:
        committer = intake.committer()
        waits = asyncio.create_task(committer.commit(intake.commit(large, reply=b"x" * (1100 * 1024))))
        async with asyncio.timeout(60):
            found = await asyncio.gather(*(committer.commit(intake.commit(one)) for one in others))
        assert found == ["committed"] * 3
        assert not waits.done()
    finally:
        await command(intake.redis, "CONFIG", "SET", "proto-max-bulk-len", str(512 << 20))
    assert await waits == "committed"


@pytest.mark.parametrize("gone", ["group", "stream"])
async def test_a_commit_to_a_vanished_group_or_stream_is_fenced(gone: str, intake: Intake) -> None:
    (entry_id,) = await intake.take()
    if gone == "group":
        await intake.redis.xgroup_destroy(intake.stream, GROUP)
    else:
        await intake.redis.unlink(intake.stream)
    assert await intake.committer().commit(intake.commit(entry_id)) == "fenced"
    assert await intake.counts() == (0, 0, 0)


@pytest.mark.parametrize("read", [0, 1, 140, 349])
async def test_decisions_that_a_sink_has_read_are_not_counted_as_lost(intake: Intake, read: int) -> None:
    """Some are read, and then the sink is away: what goes beyond the cap unread is counted, exactly."""
    ids = await intake.take(700)
    committer = intake.committer(decisions_cap=350)
    await intake.redis.xgroup_create(intake.decisions, DECISIONS_GROUP, id="0", mkstream=True)
    committed = 0
    for target in (349, 700):
        await asyncio.gather(
            *(committer.commit(intake.commit(one, decision=b"{}")) for one in ids[committed:target])
        )
        committed = target
        if target == 349 and read:
            await intake.redis.xreadgroup(DECISIONS_GROUP, "sink", {intake.decisions: ">"}, count=read, noack=True)
    gone = 700 - len(await rows(intake.redis, intake.decisions))
    assert gone >= 200
    trimmed = await command(intake.redis, "GET", f"{intake.decisions}:trimmed")
    assert int(trimmed or 0) == max(0, gone - read)


async def test_own_reply_streams_are_trimmed_and_the_shared_one_forgets_what_is_old(intake: Intake) -> None:
    await intake.redis.xadd(intake.shared.name, {"envelope": "old"}, id="1-1")
    for number in range(150):  # whole nodes of a hundred are trimmed
        await intake.redis.xadd(intake.shared.name, {"envelope": f"old {number}"}, id=f"{number + 2}-1")
    ids = await intake.take(301)
    committer = intake.committer()
    await asyncio.gather(*(committer.commit(intake.commit(entry_id)) for entry_id in ids[:-1]))
    await committer.commit(intake.commit(ids[-1], address=intake.shared))
    assert await intake.redis.xlen(intake.own.name) <= 200
    assert await intake.redis.xlen(intake.shared.name) <= 100
    assert 0 < await intake.redis.ttl(intake.own.name) <= 60


async def test_while_a_server_is_away_the_sender_does_not_spin(
    intake: Intake, bus_alone: EmbeddedEngines, caplog: pytest.LogCaptureFixture
) -> None:
    (entry_id,) = await intake.take()
    committer = intake.committer()
    await bus_alone.valkey.stop()
    waiting, clock = asyncio.create_task(committer.commit(intake.commit(entry_id))), asyncio.get_running_loop().time
    began = clock()

    async def tried_three_times() -> bool:
        return len(caplog.records) >= 3

    try:
        await until(tried_three_times, "three tries")
    finally:
        await bus_alone.valkey.start()
    assert await waiting == "committed"
    assert len(caplog.records) < 10 + clock() - began, "six pauses of less than a second, and then longer ones"


async def test_a_decision_channel_that_is_closed_to_the_worker_costs_nothing_but_a_line_in_the_log(
    intake: Intake, bus_alone: EmbeddedEngines, prefix: str, caplog: pytest.LogCaptureFixture
) -> None:
    channels = (f"{prefix}closed", f"{prefix}open")
    await command(intake.redis, "ACL", "SETUSER", "shy", "on", "nopass", "~*", "+@all", f"&{prefix}open")
    ids = await intake.take(3)
    try:
        async with connect(bus_alone.redis_url.replace("unix://", "unix://shy:x@")) as shy:
            committer = intake.committer(shy, decision_channels=("closed", "open"))
            async with Executor(intake.redis, prefix).listening(channels[1]) as heard:
                for entry_id in ids:
                    assert await committer.commit(intake.commit(entry_id, published=b"{}")) == "committed"

                async def told() -> bool:
                    return len(heard) == 3

                await until(told, "the decisions on the other channel")
    finally:
        await command(intake.redis, "ACL", "DELUSER", "shy")
    assert await intake.counts() == (3, 3, 0)
    assert await intake.pending() == 0
    assert committer.unpublished == 3
    assert [record.levelname for record in caplog.records if "ORION_DECISION_CHANNELS" in record.message] == [
        "ERROR"
    ]


async def bytes_of(redis: Redis, stream: str) -> int:
    """The memory of a stream, as the server counts it."""
    return await command(redis, "MEMORY", "USAGE", stream, "SAMPLES", 0)


async def test_of_a_message_that_is_too_large_to_keep_the_letter_has_its_head(intake: Intake) -> None:
    (entry_id,) = await intake.take()
    head = MessageHead(head=b"the first bytes", size=60_000_000, sha256="0f" * 32)
    commit = intake.commit(entry_id, dead_reason="invalid: no", correlation_id="c-1", head=head)
    assert await intake.committer().commit(commit) == "committed"
    ((letter_id, fields),) = await rows(intake.redis, intake.dead)
    assert fields == {
        b"entry_id": entry_id.encode(),
        b"reason": b"invalid: no",
        b"correlation_id": b"c-1",
        b"message_bytes": b"60000000",
        b"message_sha256": b"0f" * 32,
        b"message_head": b"the first bytes",
    }
    letters = DeadLetters(intake.redis, intake.stream)
    letter = await letters.get(letter_id)
    assert letter is not None
    assert (letter.size, letter.head, letter.fields) == (60_000_000, b"the first bytes", {})
    with pytest.raises(InvalidMessage, match="head of a message of 60000000 bytes"):
        await letters.requeue(letter)


async def test_dead_letters_are_kept_up_to_a_number_of_bytes_and_the_newest_always(intake: Intake) -> None:
    most = 1 << 20
    committer = intake.committer(**A_MEGABYTE)
    for number in range(30):
        (entry_id,) = await intake.take()
        added: Any = await intake.redis.xadd(intake.stream, {"envelope": b"%d" % number + b"x" * 100_000})
        await intake.redis.xreadgroup(GROUP, "w-1", {intake.stream: ">"})
        commit = intake.commit(added.decode(), dead_reason="invalid")
        assert await committer.commit(commit) == "committed"
        assert await committer.commit(intake.commit(entry_id)) == "committed"
        assert await bytes_of(intake.redis, intake.dead) <= most
    kept = [fields[b"field:envelope"][:2] for _, fields in await rows(intake.redis, intake.dead)]
    assert 5 <= len(kept) <= 10
    assert kept == [b"%d" % number for number in range(30 - len(kept), 30)]


@pytest.mark.parametrize("address", ["own", "shared"])
async def test_replies_that_nobody_reads_are_kept_up_to_a_number_of_bytes(intake: Intake, address: str) -> None:
    committer = intake.committer(**A_MEGABYTE)
    to = intake.own if address == "own" else intake.shared
    for entry_id in await intake.take(48):
        commit = intake.commit(entry_id, address=to, reply=b"x" * 50_000)
        assert await committer.commit(commit) == "committed"
    assert await bytes_of(intake.redis, to.name) <= (1 << 20) + 16 * 50_000
    await intake.redis.unlink(to.name)


async def test_decisions_that_no_sink_reads_are_kept_up_to_a_number_of_bytes_and_the_lost_are_counted(
    intake: Intake,
) -> None:
    committer = intake.committer(**A_MEGABYTE)
    await intake.redis.xgroup_create(intake.decisions, DECISIONS_GROUP, id="0", mkstream=True)
    for entry_id in await intake.take(128):
        assert await committer.commit(intake.commit(entry_id, decision=b"x" * 20_000)) == "committed"
    kept = await intake.redis.xlen(intake.decisions)
    assert await bytes_of(intake.redis, intake.decisions) <= (1 << 20) + 64 * 20_000
    assert int(await intake.redis.get(f"{intake.decisions}:trimmed") or 0) == 128 - kept > 0
    await intake.redis.unlink(f"{intake.decisions}:trimmed")
