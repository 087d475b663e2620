"""`orion-recall doctor`: checks of the installation, of every server, and of external stores with a sample item.

Nothing is started and nothing is written. Each problem says what to do; what a login may not look at is no problem.
"""

from __future__ import annotations

import asyncio
import contextlib
import resource
import time
from collections.abc import AsyncGenerator, Awaitable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, cast

import typer
from redis.asyncio import Redis
from redis.exceptions import NoPermissionError

from orion_recall.bus.clock import BusClock
from orion_recall.bus.signing.keys import read_key, read_ring
from orion_recall.cli.connect.addresses import DataFolder, find, open_bus, open_postgres
from orion_recall.cli.doctor.installation import Check, check_installation
from orion_recall.cli.output import JsonFlag, print_json, say, visible
from orion_recall.errors import BusUnavailable, ModelError, OrionError, RecordError, SettingsError, SourceError
from orion_recall.external.mappings import Mappings, QdrantMapping, SparqlMapping, load_mappings
from orion_recall.external.opening import collection_of, graph_client, timeline_of
from orion_recall.external.qdrant import is_in_milliseconds, text_of, value_at
from orion_recall.external.sparql import MappedGraphSource
from orion_recall.interfaces import IdentifiedCopy, MemoryGraph, MemoryIndex, TokenIndex
from orion_recall.memory.record.record import Record
from orion_recall.models.embedder import Embedder
from orion_recall.models.opening import open_embedder
from orion_recall.models.sparse import SparseEncoder
from orion_recall.postgres.pool import Connection, borrow
from orion_recall.postgres.schema import shipped_migrations
from orion_recall.serving.backends import graph_of, identity_of, index_of, timeline_table
from orion_recall.settings import Settings
from orion_recall.sources.timeline import TimelineSource, unreadable_rows
from orion_recall.sources.timeline_table import OWN_VIEW

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
    clock = BusClock()
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


app = typer.Typer(add_completion=False, rich_markup_mode="markdown")
_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """The result of the check of one store. It is `ok` without problems; remarks are no problems."""

    store: str
    kind: str
    arms: Sequence[str] = ()
    problems: Sequence[str] = ()
    remarks: Sequence[str] = ()
    count: int | None = None
    sample: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @property
    def ok(self) -> bool:
        return not self.problems


@app.command()
def doctor(data: DataFolder = None, as_json: JsonFlag = False) -> int:
    """Check the installation, the servers, external stores with a sample item, and the query channels.

    Packages, engines, model, profiles, settings and data folder; of bus and Postgres version, schema, copies,
    clocks and limits; whether servers of index and graph are of this record, whether every mapping of
    ORION_MAPPINGS and ORION_TIMELINE_TABLE fits, and how many listen on each of ORION_QUERY_CHANNELS. It starts
    and writes nothing. Exit code 1 when something cannot be used.

    Example: `orion-recall doctor`, or with stores of your own `ORION_MAPPINGS=mappings.yaml orion-recall doctor`
    """
    settings = find(data)
    installation = check_installation(settings)
    findings = asyncio.run(_look(load_mappings(settings.mappings), settings))
    servers = asyncio.run(check_servers(settings))
    channels = asyncio.run(_channels(settings))
    checks = [*installation, *servers]
    healthy = all(check.problem is None for check in checks) and all(finding.ok for finding in findings)
    ok = healthy and channels["error"] is None
    if as_json:
        stores = [{**asdict(finding), "ok": finding.ok} for finding in findings]
        told = {"installation": installation, "servers": servers}
        print_json({"ok": ok, **told, "stores": stores, "channels": channels})
    else:
        for check in checks:
            say(check.name, check.found, check.problem)
        for finding in findings:
            _show(finding)
        if not findings:
            say("servers", "none: no server or external store is configured, all is embedded")
        _show_channels(channels)
    return 0 if ok else 1


async def _look(mappings: Mappings, settings: Settings) -> list[Finding]:
    async with contextlib.AsyncExitStack() as stack:
        embeds = bool(mappings.qdrant) or settings.qdrant_url is not None
        embedder = await stack.enter_async_context(open_embedder(settings)) if embeds else None
        looks: list[tuple[str, str, Awaitable[Finding]]] = [
            *((one.name, "qdrant", _qdrant(one, embedder)) for one in mappings.qdrant),
            *((one.name, "sparql", _sparql(one)) for one in mappings.sparql),
            *((one.name, "table", _timeline(one.name, timeline_of(one, settings))) for one in mappings.tables),
        ]
        if settings.timeline_table != OWN_VIEW:
            looks.insert(0, ("its own timeline", "table", _own_timeline(settings)))
        if settings.sparql_url:
            looks.insert(0, ("its own graph", "sparql", _own(graph_of(settings), settings, "sparql", ["rdf"])))
        if settings.qdrant_url and embedder is not None:
            index = index_of(settings, embedder, SparseEncoder(settings.keyword_weights))
            looks.insert(0, ("its own index", "qdrant", _own(index, settings, "qdrant", ["vector", "lexical"])))
        return list(await asyncio.gather(*(_in_time(name, kind, look) for name, kind, look in looks)))


async def _in_time(name: str, kind: str, look: Awaitable[Finding]) -> Finding:
    try:
        async with asyncio.timeout(_TIMEOUT_S):
            return await look
    except (SourceError, SettingsError, ModelError) as error:
        return Finding(store=name, kind=kind, problems=[str(error)])
    except TimeoutError:
        return Finding(store=name, kind=kind, problems=[f"no answer within {_TIMEOUT_S:.0f} s"])


async def _own(part: MemoryIndex | MemoryGraph, settings: Settings, kind: str, sources: Sequence[str]) -> Finding:
    without: str | None = None
    try:
        mark = await identity_of(settings)
        if isinstance(part, IdentifiedCopy):
            if mark is not None:
                part.expect(mark)
            await part.open()
            await part.check()
        else:
            await part.open()
        if isinstance(part, TokenIndex):
            without = await part.without_tokens()
    finally:
        await part.close()
    whose = "of the record" if settings.dsn is not None else "whose it is was not asked, without Postgres"
    remarks = [f"at position {part.position}, {whose}"]
    if without is not None:
        remarks.append(f"no late interaction (ranking.late): {without}")
    return Finding(store=f"its own {part.kind}", kind=kind, arms=sources, remarks=remarks)


async def _qdrant(mapping: QdrantMapping, embedder: Embedder | None) -> Finding:
    assert embedder is not None
    collection = collection_of(mapping)
    try:
        dense, sparse = await collection.vectors()
        count, payload = await collection.sample()
    finally:
        await collection.close()
    problems: list[str] = []
    remarks: list[str] = []
    if mapping.vector not in dense:
        known = ", ".join(repr(name) for name in dense) or "none"
        problems.append(f"there is no dense vector {mapping.vector!r}; there is {known}: set `vector`")
    else:
        size, distance = dense[mapping.vector]
        if size != embedder.dimension:
            problems.append(
                f"vectors of {size} floats; {embedder.name} makes {embedder.dimension}: another model's"
            )
        if distance != "Cosine":
            remarks.append(f"the distance is {distance}: scores are no cosines, and are fused as they are")
    if mapping.sparse is None:
        remarks.append("no sparse vector is mapped: the lexical source does not search it")
    elif mapping.sparse not in sparse:
        known = ", ".join(repr(name) for name in sparse) or "none"
        problems.append(
            f"there is no sparse vector {mapping.sparse!r}; there is {known}: set `sparse`, or leave it out"
        )
    roles = {role: key for role, key in mapping.payload.model_dump(exclude={"time_format"}).items() if key}
    shown = {role: value_at(payload or {}, key) for role, key in roles.items()}
    if payload is None:
        remarks.append("the collection is empty")
    elif text_of(payload, mapping.payload.text) is None:
        problems.append(f"the sample has no text under {mapping.payload.text!r}; it has {', '.join(payload)}")
    else:
        missing = [f"{role} ({key})" for role, key in roles.items() if shown[role] is None]
        remarks.extend([f"the sample has no {', '.join(missing)}"] if missing else [])
        if mapping.payload.time_format == "epoch" and is_in_milliseconds(shown.get("time")):
            problems.append("the sample's time is in milliseconds: set `time_format: epoch_ms`")
    sources = ["vector", *(["lexical"] if mapping.sparse else [])]
    return Finding(
        store=mapping.name,
        kind="qdrant",
        arms=sources,
        problems=problems,
        remarks=remarks,
        count=count,
        sample=shown,
    )


async def _sparql(mapping: SparqlMapping) -> Finding:
    client = graph_client(mapping)
    try:
        sample = await MappedGraphSource(client, mapping).sample()
    finally:
        await client.close()
    problems = (
        [] if sample else [f"nothing has both {mapping.label} and {mapping.text}: check graph, label and text"]
    )
    return Finding(store=mapping.name, kind="sparql", arms=["rdf"], problems=problems, sample=dict(sample or {}))


async def _own_timeline(settings: Settings) -> Finding:
    if settings.dsn is None:
        raise SettingsError("ORION_TIMELINE_TABLE is in the service's own Postgres: set ORION_POSTGRES_DSN")
    return await _timeline(settings.timeline_table, TimelineSource(settings.dsn, timeline_table(settings)))


async def _timeline(store: str, timeline: TimelineSource) -> Finding:
    try:
        sample = await timeline.sample()
        total, lacking = await timeline.lacking()
        nobodys = (await timeline.shape()).without_tenant
    finally:
        await timeline.close()
    problems = [nobodys] if nobodys else []
    remarks: list[str] = []
    if not total:
        remarks.append("the table is empty")
    elif lacking:
        (problems if total in lacking.values() else remarks).append(unreadable_rows(total, lacking))
    return Finding(
        store=store, kind="table", arms=["sql_timeline"], problems=problems, remarks=remarks, sample=sample
    )


async def _channels(settings: Settings) -> dict[str, Any]:
    names = settings.published_on["queries"]
    found: dict[str, Any] = {"listeners": {}, "error": None}
    if settings.redis_url is None or not names:
        return found
    try:
        async with open_bus(settings) as redis:
            counted: Any = await redis.pubsub_numsub(*names)  # pyright: ignore[reportUnknownMemberType]
    except BusUnavailable as error:
        return found | {"error": str(error)}
    return found | {"listeners": {name.decode(): count for name, count in counted}}


def _show_channels(channels: Mapping[str, Any]) -> None:
    if channels["error"] is not None:
        say("channels", "cannot be looked at", channels["error"])
    nobody = "nobody listens: what is published here now is lost. Start a worker with it in ORION_QUERY_CHANNELS"
    for name, count in channels["listeners"].items():
        say("channel", f"{name}  {f'{count} listening' if count else nobody}")


def _show(finding: Finding) -> None:
    count = f", {finding.count:,} points" if finding.count is not None else ""
    what = f"{finding.kind}: {', '.join(finding.arms)}{count}" if finding.arms else finding.kind
    say(finding.store, f"ok  {what}" if finding.ok else what, None if finding.ok else "cannot be used")
    for problem in finding.problems:
        say("  problem", "", problem)
    for remark in finding.remarks:
        say("  remark", remark)
    for role, value in finding.sample.items():
        if value is not None:
            say(f"  {role}", visible(value)[:200])
