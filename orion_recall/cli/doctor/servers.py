"""Checks of bus and Postgres, for `orion-recall doctor`: versions, schema, drift of copies, clocks, limits, keys.

Nothing is written. Each problem says what to do. What the login may not look at is told, and is no problem.
"""

from __future__ import annotations

import resource
import time
from collections.abc import AsyncGenerator, Mapping
from typing import Any, cast

from redis.asyncio import Redis
from redis.exceptions import NoPermissionError

from orion_recall.bus.clock import BusClock
from orion_recall.bus.signing.keys import read_key, read_ring
from orion_recall.cli.connect.addresses import open_bus, open_postgres
from orion_recall.cli.doctor.installation import Check
from orion_recall.errors import BusUnavailable, OrionError, RecordError
from orion_recall.memory.record.record import Record
from orion_recall.postgres.pool import Connection, borrow
from orion_recall.postgres.schema import shipped_migrations
from orion_recall.settings import Settings

_FULL = 0.9
# A worker holds up to 16 connections to each server, and files of index and graph.
_FEWEST_DESCRIPTORS = 1024
# Connections to Postgres that one worker may hold.
_CONNECTIONS_OF_A_WORKER = 16
# A copy takes that much in a second or two.
_FAR_BEHIND = 10_000


async def check_servers(settings: Settings) -> list[Check]:
    """What can be asked of the servers that are known, and of this process."""
    found = [_descriptors(), *_keys(settings)]
    if settings.redis_url is not None:
        found += [one async for one in _bus(settings)]
    if settings.dsn is not None:
        found += [one async for one in _postgres(settings)]
    return found


def _descriptors() -> Check:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    told = f"{soft} files and connections may be open"
    if soft != resource.RLIM_INFINITY and soft < _FEWEST_DESCRIPTORS:
        what = f"{told}: raise it, as by `ulimit -n {min(hard, 65_536) if hard > 0 else 65_536}`"
        return Check(name="descriptors", problem=what)
    return Check(name="descriptors", found=told)


def _keys(settings: Settings) -> list[Check]:
    """Key ring and key, where they are set."""
    checks: list[Check] = []
    try:
        if settings.keys_file is not None:
            callers, now = read_ring(settings.keys_file), time.time()
            over = [name for name, caller in callers.items() if caller.is_over(now)]
            told = f"{len(callers)} keys in {settings.keys_file}"
            checks.append(
                Check(name="keys", found=f"{told}; take out what is over: {', '.join(over)}" if over else told)
            )
        if settings.key is not None:
            checks.append(Check(name="own key", found=read_key(settings.key).id))
    except OrionError as error:
        checks.append(Check(name="keys", problem=str(error)))
    return checks


async def _bus(settings: Settings) -> AsyncGenerator[Check]:
    try:
        async with open_bus(settings) as redis:
            yield await _bus_server(redis)
            yield await _bus_clock(redis, settings)
    except BusUnavailable as error:
        yield Check(name="bus", problem=f"{error}: start it, or put ORION_REDIS_URL right")


async def _bus_server(redis: Redis) -> Check:
    try:
        info = cast("Mapping[str, Any]", await redis.info())  # pyright: ignore[reportUnknownMemberType]
    except NoPermissionError:
        return Check(name="bus", found="reached; this login may not ask for version and memory (INFO)")
    return bus_check(info)


def bus_check(info: Mapping[str, Any]) -> Check:
    """What INFO says of version, memory and connections."""
    name = "Valkey" if "valkey_version" in info else "Redis"
    version = info.get("valkey_version") or info.get("redis_version", "?")
    used, most = int(info.get("used_memory", 0)), int(info.get("maxmemory", 0))
    clients, most_clients = int(info.get("connected_clients", 0)), int(info.get("maxclients", 0))
    memory = f"{used / 1e6:.0f} of {most / 1e6:.0f} MB" if most else f"{used / 1e6:.0f} MB, no limit"
    told = f"{name} {version}, {memory}, {clients} of {most_clients} connections"
    problem: str | None = None
    policy = info.get("maxmemory_policy", "noeviction")
    if most and used > _FULL * most:
        problem = "its memory is nearly full: raise maxmemory, or see in `orion-recall status` which stream is long"
    elif most and policy != "noeviction":
        problem = f"it throws keys away when it is full ({policy}): set maxmemory-policy noeviction"
    elif most_clients and clients > _FULL * most_clients:
        problem = "its connections are nearly used up: raise maxclients"
    elif info.get("role") == "slave":
        problem = "it is a replica, which takes no writes: set the master's address, or that of the Sentinels"
    return Check(name="bus", found=told, problem=problem)


async def _bus_clock(redis: Redis, settings: Settings) -> Check:
    clock = BusClock(bound_s=settings.clock_bound_ms / 1000)
    try:
        for _ in range(3):
            asked_at = clock.began()
            seconds, micros = await redis.time()  # pyright: ignore[reportUnknownMemberType]
            clock.told(seconds + micros / 1e6, asked_at=asked_at)
    except NoPermissionError:
        return Check(name="clock", found="this login may not ask the bus for its time (TIME)")
    return clock_check(clock.ahead_s, settings.clock_bound_ms / 1000)


def clock_check(ahead_s: float, bound_s: float) -> Check:
    """What the difference of the clocks means."""
    if abs(ahead_s) <= bound_s:
        return Check(name="clock", found=f"within {max(abs(ahead_s), 0.001):.3f} s of that of the bus")
    told = f"{abs(ahead_s):.1f} s {'ahead of' if ahead_s > 0 else 'behind'} that of the bus"
    return Check(name="clock", found=told, problem="set the clock of the machine that is wrong (NTP)")


async def _postgres(settings: Settings) -> AsyncGenerator[Check]:
    try:
        async with open_postgres(settings, name="doctor") as pool:
            async with borrow(pool, "looking at Postgres") as connection:
                yield await _postgres_server(connection)
                if not await connection.fetchval("SELECT to_regclass('orion_migrations') IS NOT NULL"):
                    # Before the first worker that is as it should be.
                    yield Check(name="schema", found="not there yet: a worker makes it, or `orion-recall migrate`")
                    return
                schema = await _schema(connection)
                yield schema
            if schema.problem is None:
                record = Record(pool)
                head = await record.head()
                for one in await record.copies():
                    if not one.is_gone:
                        yield copy_check(f"{one.kind} of {one.copy}", head - one.position)
    except RecordError as error:
        yield Check(name="Postgres", problem=f"{error}: start it, or put ORION_POSTGRES_DSN right")


async def _postgres_server(connection: Connection) -> Check:
    row = await connection.fetchrow(
        "SELECT current_setting('server_version') AS version, current_setting('max_connections')::int AS most, "
        "(SELECT count(*) FROM pg_stat_activity) AS used, pg_is_in_recovery() AS replica, "
        "pg_database_size(current_database()) AS size"
    )
    assert row is not None
    told = f"Postgres {row['version']}, {row['size'] / 1e6:.0f} MB, {row['used']} of {row['most']} connections"
    problem: str | None = None
    if row["replica"]:
        problem = "it is a replica, which takes no writes: set the primary's address"
    elif row["most"] - row["used"] < _CONNECTIONS_OF_A_WORKER:
        problem = f"no room for another worker, which takes up to {_CONNECTIONS_OF_A_WORKER}: raise max_connections"
    return Check(name="Postgres", found=told, problem=problem)


async def _schema(connection: Connection) -> Check:
    applied = {row["name"] for row in await connection.fetch("SELECT name FROM orion_migrations")}
    return schema_check(applied, {one.name for one in shipped_migrations()})


def schema_check(applied: set[str], shipped: set[str]) -> Check:
    """What the applied files mean for this version of the program."""
    told = f"{len(applied)} files applied"
    if later := sorted(applied - shipped):
        what = f"{', '.join(later)} of another version: start that version; tables from before 0.1.0 are not read"
        return Check(name="schema", found=told, problem=what)
    if missing := sorted(shipped - applied):
        what = f"{', '.join(missing)} not applied yet: start a worker of this version, or `orion-recall migrate`"
        return Check(name="schema", found=told, problem=what)
    return Check(name="schema", found=f"{told}, that is this version's")


def copy_check(name: str, behind: int) -> Check:
    """What the distance of a copy from the record means."""
    if behind > _FAR_BEHIND:
        why = "see `orion-recall status`; if it does not catch up, `orion-recall memory check`"
        return Check(name="copy", found=f"{name}: {behind} behind the record", problem=why)
    return Check(name="copy", found=f"{name}: {'up to date' if behind <= 0 else f'{behind} behind the record'}")
