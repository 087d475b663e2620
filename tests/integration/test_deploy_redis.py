"""The users of deploy/redis/users.acl, on a real Valkey."""

from __future__ import annotations

import subprocess
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from deploy_servers import BUS_USERS, DEPLOY, PREFIX, GuardedBus, bus_environment, guarded_bus, password
from executor import command, until
from redis.exceptions import ConnectionError, ResponseError

from orion_recall.bus.connect import BUS_AWAY, connect
from orion_recall.engines.valkey import find_binary

QUERY, STORE, DECISION, REPLY = (
    PREFIX + name for name in ("recall.query.v1", "memory.store.v1", "recall.decision.v1", "recall.reply.v1")
)
UPDATE, DELETE, FEEDBACK, TOMBSTONE = (
    PREFIX + name for name in ("memory.update.v1", "memory.delete.v1", "recall.feedback.v1", "memory.tombstone.v1")
)
MINE = f"{REPLY}:mine"
CHANNEL = f"{PREFIX}orion-exec:result:1"
QUERY_CHANNELS = [f"{PREFIX}{name}" for name in ("recall.query.v1", "orion:exec:request:RecallService")]
DECISION_CHANNELS = [f"{PREFIX}{name}" for name in ("recall.decision.v1", "orion:recall:telemetry")]
_REFUSED = r"invalid username-password pair|Authentication required"

ALLOWED = {
    "worker": [
        f"XADD {REPLY}:anybody * envelope x",
        f"XTRIM {DECISION} MAXLEN 9",
        f"XINFO CONSUMERS {STORE} orion-recall",
        f"XGROUP DELCONSUMER {DECISION} orion-recall-decisions me",
        f"INCRBY {DECISION}:trimmed 1",
        f"XADD {QUERY}:dead * reason x",
        f"XADD {DECISION}:dead * reason x",
        f"XCLAIM {STORE} orion-recall me 0 1-1 RETRYCOUNT 1 JUSTID",
        # The heartbeat that a worker keeps there while it lives.
        f"HSET {QUERY}:worker:me a b",
        f"EXPIRE {QUERY}:worker:me 10",
        f"DEL {QUERY}:worker:me",
        f"PUBLISH {CHANNEL} x",
        f"PUBLISH {PREFIX}orion:exec:result:1 x",
        f"XREADGROUP GROUP orion-recall me STREAMS {DELETE} >",
        f"XADD {DELETE}:dead * reason x",
        *(f"SUBSCRIBE {channel}" for channel in QUERY_CHANNELS),
        f"SET {QUERY}:seen:1 1 NX PX 9",
        f"GET {QUERY}:seen:nonce:key:1",
        f"DEL {QUERY}:seen:1",
        *(f"PUBLISH {channel} x" for channel in DECISION_CHANNELS),
        f"XADD {TOMBSTONE} MAXLEN ~ 9 * positions x",
        f"XREAD STREAMS {TOMBSTONE} 0",
        # To make a stream anew; a worker may trim all of it anyway.
        *(f"DEL {stream}" for stream in (QUERY, f"{STORE}:dead", DECISION, REPLY, TOMBSTONE)),
    ],
    "client": [
        f"XADD {QUERY} * envelope x",
        f"XADD {STORE} * envelope x",
        *(f"XADD {stream} * envelope x" for stream in (UPDATE, DELETE, FEEDBACK)),
        f"XREAD BLOCK 1 STREAMS {MINE} 0",
        f"XDEL {MINE} 1-1",
        f"DEL {MINE}",
        f"UNLINK {MINE}",
        f"SUBSCRIBE {CHANNEL}",
        *(f"PUBLISH {channel} x" for channel in QUERY_CHANNELS),
    ],
    "operator": [
        "INFO",
        "TIME",
        f"XINFO GROUPS {QUERY}",
        f"WATCH {QUERY}:dead",
        "UNWATCH",
        f"XLEN {STORE}:dead",
        f"HGETALL {QUERY}:worker:me",
        f"GET {DECISION}:trimmed",
        f"XREVRANGE {QUERY}:dead + -",
        f"XDEL {QUERY}:dead 1-1",
        f"XADD {QUERY} * envelope x",
        f"XREVRANGE {UPDATE}:dead + -",
        f"XDEL {FEEDBACK}:dead 1-1",
        f"XADD {DELETE} * envelope x",
        f"PUBSUB NUMSUB {QUERY_CHANNELS[0]}",
        f"XREAD STREAMS {DECISION} 0",
    ],
    "analyst": [
        *(f"SUBSCRIBE {channel}" for channel in DECISION_CHANNELS),
        f"XRANGE {DECISION} - +",
        f"XREVRANGE {DECISION}:dead + -",
        f"XLEN {DECISION}",
        f"XREAD STREAMS {DECISION} 0",
        f"GET {DECISION}:trimmed",
    ],
    "health": ["PING"],
}
# Nobody may do these, whatever else.
_NEVER = [
    "FLUSHALL",
    "FLUSHDB",
    "CONFIG GET *",
    "KEYS *",
    "SCAN 0",
    "ACL LIST",
    "SHUTDOWN",
    "DEBUG SLEEP 0",
    "SAVE",
    "MONITOR",
    "CLIENT LIST",
    "SCRIPT FLUSH",
    "EVAL return 0",
    "REPLICAOF NO ONE",
    f"GET {PREFIX}somebody-elses",
    f"XADD {DECISION}:more * a b",
    f"XADD other:{QUERY} * envelope x",
    "XADD recall.query.v1 * envelope x",
]
DENIED = {
    "worker": [f"DEL {REPLY}:anybody", f"XGROUP DESTROY {QUERY} orion-recall", f"XGROUP SETID {QUERY} g 0",
               f"SET {DECISION}:trimmed 0", f"PUBLISH {PREFIX}other x", f"SUBSCRIBE {PREFIX}other",
               f"SUBSCRIBE {CHANNEL}", f"PSUBSCRIBE {PREFIX}*", f"PUBLISH {QUERY_CHANNELS[0]} x",
               f"SET {QUERY}:other 1", f"GET {QUERY}:seen:1", "PUBSUB CHANNELS"],
    "client": [f"DEL {QUERY}", f"DEL {STORE}:dead",
               f"XADD {TOMBSTONE} * positions x", f"XREAD STREAMS {TOMBSTONE} 0", f"XREAD STREAMS {DELETE} 0",
               f"HGETALL {QUERY}:worker:me",
               f"XREAD STREAMS {QUERY} 0", f"XRANGE {QUERY} - +", f"XDEL {QUERY} 1-1", f"XTRIM {QUERY} MAXLEN 0",
               f"XREAD STREAMS {DECISION} 0", f"XREAD STREAMS {REPLY} 0", f"XADD {DECISION} * envelope x",
               f"XADD {MINE} * envelope x", f"XADD {REPLY} * envelope x", f"PUBLISH {CHANNEL} x",
               f"SUBSCRIBE {PREFIX}other", f"SUBSCRIBE {QUERY_CHANNELS[0]}", f"SUBSCRIBE {DECISION_CHANNELS[0]}",
               f"PUBLISH {DECISION_CHANNELS[0]} x", f"SET {QUERY}:seen:1 1", f"XINFO GROUPS {QUERY}",
               f"EXPIRE {MINE} 9",
               f"XREADGROUP GROUP orion-recall me STREAMS {QUERY} >"],
    "operator": [f"XREAD STREAMS {QUERY} 0",
                 f"XDEL {QUERY} 1-1", f"XADD {DECISION} * envelope x", f"XDEL {DECISION} 1-1", f"DEL {QUERY}:dead",
                 f"DEL {QUERY}",
                 f"SET {DECISION}:trimmed 0", f"XACK {QUERY} orion-recall 1-1",
                 f"SUBSCRIBE {QUERY_CHANNELS[0]}", "PUBSUB CHANNELS"],
    "analyst": [f"XADD {DECISION} * envelope x", f"XDEL {DECISION} 1-1", f"XTRIM {DECISION} MAXLEN 0",
                f"SET {DECISION}:trimmed 0", f"XREAD STREAMS {QUERY} 0", f"XREAD STREAMS {REPLY} 0",
                f"XLEN {STORE}", f"DEL {DECISION}", f"SUBSCRIBE {QUERY_CHANNELS[0]}",
                f"PUBLISH {DECISION_CHANNELS[0]} x"],
    "health": [f"XLEN {QUERY}", "INFO"],
}  # fmt: skip


@pytest.fixture(scope="module")
async def bus() -> AsyncGenerator[GuardedBus]:
    async with guarded_bus() as started:
        yield started


async def test_every_user_needs_its_own_password(bus: GuardedBus) -> None:
    for user in BUS_USERS:
        async with connect(bus.url(user)) as redis:
            assert await command(redis, "PING")
        for wrong in ("wrong", password("somebody")):
            async with connect(bus.url(user, wrong)) as redis:
                with pytest.raises(ConnectionError, match=_REFUSED):
                    await command(redis, "PING")


async def test_nobody_comes_in_without_a_name(bus: GuardedBus) -> None:
    async with connect(f"unix://{bus.socket}") as redis:
        with pytest.raises(ConnectionError, match=_REFUSED):
            await command(redis, "PING")


@pytest.mark.parametrize("user", ALLOWED)
async def test_a_user_may(bus: GuardedBus, user: str) -> None:
    assert await _allowed(bus, user, ALLOWED[user]) == ALLOWED[user]


@pytest.mark.parametrize("user", DENIED)
async def test_a_user_may_not(bus: GuardedBus, user: str) -> None:
    assert await _allowed(bus, user, _NEVER + DENIED[user]) == []


async def _allowed(bus: GuardedBus, user: str, lines: list[str]) -> list[str]:
    """Those of the commands that the user may send."""
    async with connect(bus.url("admin", "-")) as admin:
        return [line for line in lines if await command(admin, "ACL", "DRYRUN", user, *line.split()) == b"OK"]


async def test_a_script_can_do_no_more_than_its_user(bus: GuardedBus) -> None:
    async with connect(bus.url("worker")) as worker:
        sha = (await command(worker, "SCRIPT", "LOAD", "return redis.call(unpack(ARGV))")).decode()
        await command(worker, "EVALSHA", sha, 0, "XADD", QUERY, "*", "envelope", "x")
        for line in ("FLUSHALL", "GET secret", f"DEL {REPLY}:anybody"):
            with pytest.raises(ResponseError, match=r"has no permissions|ACL failure"):
                await command(worker, "EVALSHA", sha, 0, *line.split())
    async with connect(bus.url("admin", "-")) as admin:
        await command(admin, "DEL", QUERY)


async def test_the_file_as_it_is_lets_nobody_in_but_the_health_check(folder: Path) -> None:
    """Forgetting the passwords leaves the bus closed."""
    socket = folder / "bus.sock"
    server = subprocess.Popen(
        [find_binary(), "--port", "0", "--unixsocket", socket, "--dir", folder, "--save", "",
         "--aclfile", DEPLOY / "redis/users.acl"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    bare = GuardedBus(socket=socket)

    async def is_up() -> bool:
        async with connect(bare.url("health", "none")) as redis:
            try:
                return bool(await command(redis, "PING"))
            except BUS_AWAY:
                return False

    try:
        await until(is_up, "a bus with the file as it is")
        for user in (*BUS_USERS, "default"):
            async with connect(bare.url(user, "")) as redis:
                with pytest.raises(ConnectionError, match=_REFUSED):
                    await command(redis, "PING")
    finally:
        server.terminate()
        server.wait(60)


def _start(folder: Path, **changes: str) -> subprocess.CompletedProcess[str]:
    """start.sh up to the moment at which the server would start."""
    return subprocess.run(
        ["sh", DEPLOY / "redis/start.sh"],
        env=bus_environment(folder, VALKEY_SERVER="true", **changes),
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


@pytest.mark.parametrize("prefix", ["", "mesh:", "{mesh}:a."])
def test_the_prefix_is_put_before_every_key_and_channel(folder: Path, prefix: str) -> None:
    assert _start(folder, ORION_PREFIX=prefix).returncode == 0
    users = (folder / "users.acl").read_text("utf-8")
    plain = (DEPLOY / "redis/users.acl").read_text("utf-8")
    patterns = [word for word in plain.replace("(", " ").replace(")", " ").split() if "~" in word or word[0] == "&"]
    assert len(patterns) > 25
    for pattern in set(patterns):
        sign = pattern[: pattern.index("~") + 1] if "~" in pattern else "&"
        assert users.count(sign + prefix + pattern[len(sign) :]) >= patterns.count(pattern)
    assert users.count(" #") == len(BUS_USERS)


@pytest.mark.parametrize("prefix", ["*", "a b", "x/", "a&b", "~", "a\nuser evil on nopass +@all"])
def test_a_prefix_that_would_say_something_else_is_refused(folder: Path, prefix: str) -> None:
    done = _start(folder, ORION_PREFIX=prefix)
    assert done.returncode == 2
    assert "ORION_PREFIX" in done.stderr
    assert not (folder / "users.acl").exists()


@pytest.mark.parametrize("user", BUS_USERS)
@pytest.mark.parametrize("given", ["", "short"])
def test_a_password_that_is_missing_or_short_is_refused(folder: Path, user: str, given: str) -> None:
    done = _start(folder, **{f"REDIS_{user.upper()}_PASSWORD": given})
    assert done.returncode == 2
    assert f"REDIS_{user.upper()}_PASSWORD: at least 16 characters" in done.stderr
    assert not (folder / "users.acl").exists()
