"""`orion-recall doctor`: checks of the installation, of every server, and of external stores with a sample item.

Nothing is started and nothing is written. Each problem says what to do; what a login may not look at is no problem.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import platform
import resource
import shutil
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, cast

from redis.exceptions import NoPermissionError, ResponseError
from rich.text import Text

from orion_recall.bus.group_reader import BusClock, decoded
from orion_recall.bus.signing.keys import read_ring
from orion_recall.cli.addresses import DataFolder, find, open_bus, open_postgres
from orion_recall.cli.output import show, visible
from orion_recall.cli.serving.status import problems_of, read_workers
from orion_recall.engines.lock import held_by
from orion_recall.engines.postgres_folder import find_binaries
from orion_recall.engines.valkey import find_binary
from orion_recall.errors import BusUnavailable, ModelError, OrionError, RecordError, SettingsError, SourceError
from orion_recall.external.mappings import QdrantMapping, SparqlMapping, load_mappings
from orion_recall.external.opening import collection_of, graph_client, timeline_of
from orion_recall.external.qdrant import is_in_milliseconds, text_of, value_at
from orion_recall.external.sparql import MappedGraphSource
from orion_recall.interfaces import MemoryGraph, MemoryIndex
from orion_recall.memory.extraction.extractors import FURTHER_EXTRACTORS
from orion_recall.models.embedder import Embedder, OnnxEmbedder
from orion_recall.models.opening import check_models, open_embedder
from orion_recall.models.sparse import SparseEncoder
from orion_recall.packages import KINDS
from orion_recall.postgres.pool import Connection, borrow
from orion_recall.postgres.schema import shipped_migrations
from orion_recall.profile.watch import profiles_with_default
from orion_recall.renderers import FURTHER_RENDERERS
from orion_recall.schemas import unknown_variables
from orion_recall.scoring.parts import FURTHER_PARTS
from orion_recall.serving.backends import graph_of, identity_of, index_of, timeline_table
from orion_recall.settings import RECALL_GROUP, Settings
from orion_recall.source_specs import FURTHER_SOURCES, SourceSpec, further_sources
from orion_recall.sources.further import open_one
from orion_recall.sources.timeline import OWN_VIEW, TimelineSource, unreadable_rows

_FULL = 0.9
# A worker holds up to 16 connections to each server, and files of index and graph.
_FEWEST_DESCRIPTORS = 1024
_CONNECTIONS_OF_A_WORKER = 16
# An empty data folder takes about 120 MB, nearly all of it Postgres; below this an engine soon stops.
_LEAST_FREE_BYTES = 1_000_000_000
_TIMEOUT_S = 10.0
# The versions that a report of a fault should name.
_PACKAGES = "orion-recall redis asyncpg qdrant-client qdrant-edge-py pyoxigraph onnxruntime pydantic".split()


_NOBODY = "nobody listens: what is published here now is lost. Start a worker with it in ORION_QUERY_CHANNELS"


@dataclass(frozen=True, slots=True)
class Check:
    """The result of one check: the state that was found, or the `problem` with its remedy."""

    name: str
    found: str = ""
    problem: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """The result of the check of one store. Remarks are no problems."""

    store: str = ""
    kind: str = ""
    arms: Sequence[str] = ()
    problems: Sequence[str] = ()
    remarks: Sequence[str] = ()
    count: int | None = None
    sample: Mapping[str, Any] = field(default_factory=dict[str, Any])


def doctor(data: DataFolder = None) -> int:
    """Check the installation, the servers, external stores with a sample item, and the query channels.

    Packages, engines, model, profiles, settings and data folder; of bus and Postgres version, schema, clocks and
    limits; whether servers of index and graph are of this record, whether every mapping of ORION_MAPPINGS and
    ORION_TIMELINE_TABLE fits, what other packages add, and how many listen on each of ORION_QUERY_CHANNELS. It
    starts and writes nothing.
    Exit code 1 when something cannot be used.

    Example: `orion-recall doctor`, or with stores of your own `ORION_MAPPINGS=mappings.yaml orion-recall doctor`
    """
    settings = find(data)
    installation = check_installation(settings)
    findings = asyncio.run(_stores(settings))
    servers = asyncio.run(check_servers(settings))
    channels = asyncio.run(_channels(settings))
    stores = [{**asdict(finding), "ok": not finding.problems} for finding in findings]
    is_bad = any(check.problem for check in (*installation, *servers)) or not all(one["ok"] for one in stores)
    ok = not is_bad and channels["error"] is None
    show(
        {"ok": ok, "installation": installation, "servers": servers, "stores": stores, "channels": channels},
        *(_line(check.name, check.found, check.problem) for check in (*installation, *servers)),
        *(line for finding in findings for line in _lines(finding)),
        *([] if channels["error"] is None else [_line("channels", "cannot be looked at", channels["error"])]),
        *(
            _line("channel", f"{name}  {f'{count} listening' if count else _NOBODY}")
            for name, count in channels["listeners"].items()
        ),
    )
    return 0 if ok else 1


def _line(what: str, value: str, error: str | None = None) -> Text:
    line = Text(f"{what:12} {visible(value)}")
    return line.append(f"  {visible(error)}", style="red") if error else line


def _lines(finding: Finding) -> Iterator[Text]:
    count = f", {finding.count:,} points" if finding.count is not None else ""
    what = f"{finding.kind}: {', '.join(finding.arms)}{count}" if finding.arms else finding.kind
    yield _line(finding.store, what, "cannot be used") if finding.problems else _line(finding.store, f"ok  {what}")
    yield from (_line("  problem", "", problem) for problem in finding.problems)
    yield from (_line("  remark", remark) for remark in finding.remarks)
    given = {role: value for role, value in finding.sample.items() if value is not None}
    yield from (_line(f"  {role}", visible(value)[:200]) for role, value in given.items())


# The installation


def check_installation(settings: Settings) -> list[Check]:
    """Every check that these settings need, in the order in which a start would come to them."""
    looks: list[tuple[str, Callable[[], str]]] = [
        ("program", _program),
        ("settings", _settings),
        ("profiles", lambda: f"{', '.join(profiles_with_default(settings))} (default {settings.default_profile})"),
        ("model", lambda: asyncio.run(_model(settings))),
    ]
    if settings.redis_url is None:
        looks.append(("bus", lambda: f"embedded: {find_binary()}"))
    if settings.postgres_dsn is None:
        looks.append(("Postgres", lambda: f"embedded: {find_binaries().bin_dir}"))
    looks.append(("data folder", lambda: _data_folder(settings.data_dir)))
    return [*(_checked(name, look) for name, look in looks), *_packages()]


def _packages() -> Iterator[Check]:
    """What other packages add by their entry points; nothing where there are none."""
    each = (FURTHER_SOURCES, FURTHER_PARTS, FURTHER_RENDERERS, FURTHER_EXTRACTORS)
    added = [f"the {KINDS[one.group]} {own.name} of {own.package}" for one in each for own in one.used]
    refused = [problem for one in each for problem in one.refused]
    if added or refused:
        yield Check("packages", "; ".join(added), "; ".join(map(str, refused)) or None)


def _checked(name: str, look: Callable[[], str]) -> Check:
    try:
        return Check(name, look())
    except OrionError as error:
        return Check(name, problem=str(error))


def _program() -> str:
    told: list[str] = []
    for name in _PACKAGES:
        with contextlib.suppress(PackageNotFoundError):
            told.append(f"{name} {version(name)}")
    return f"{', '.join(told)}, Python {platform.python_version()} on {platform.system()} {platform.machine()}"


def _settings() -> str:
    if unknown := unknown_variables(os.environ):
        return f"nothing reads {', '.join(unknown)}: `orion-recall settings` lists every name"
    return "every ORION_ variable is known"


async def _model(settings: Settings) -> str:
    """The model that embeds; the one that is on this machine is loaded and, where it is int8, tried."""
    await check_models(settings)
    if settings.embedder != "onnx":
        return settings.embedder
    async with open_embedder(settings.changed(token_vectors=False)) as embedder:
        note = embedder.form_note if isinstance(embedder, OnnxEmbedder) else None
        return "; ".join(filter(None, (f"{embedder.name}, its weights are here and known", note)))


def _data_folder(folder: Path) -> str:
    """OrionError when nobody could write there, or when the disk is nearly full."""
    whole = folder.absolute()
    there = next(path for path in (whole, *whole.parents) if path.exists())
    if not os.access(there, os.W_OK | os.X_OK):
        raise OrionError(f"{there} cannot be written to: set ORION_DATA_DIR to a folder that can")
    free = shutil.disk_usage(there).free
    if free < _LEAST_FREE_BYTES:
        raise OrionError(f"{folder} has {free / 1e6:.0f} MB left on its disk: make room, or set ORION_DATA_DIR")
    holders = {pid for engine in ("valkey", "postgres", ".") if (pid := held_by(folder / engine)) is not None}
    use = f", in use by process {', '.join(map(str, sorted(holders)))}" if holders else ""
    state = "" if there == whole else ", to be made at the first start"
    return f"{folder}, {free / 1e9:.0f} GB free{use}{state}"


# The servers


async def check_servers(settings: Settings) -> list[Check]:
    """What can be asked of the servers that are known, and of this process."""
    found: list[Check] = []
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    told = f"{soft} files and connections may be open"
    is_low = soft != resource.RLIM_INFINITY and soft < _FEWEST_DESCRIPTORS
    raised = f"{told}: raise it, as by `ulimit -n {min(hard, 65_536) if hard > 0 else 65_536}`"
    found.append(Check("descriptors", told, raised if is_low else None))
    if (ring := settings.keys_file) is not None:
        found.append(_checked("keys", lambda: f"{len(read_ring(ring))} keys in {ring}"))
    if settings.redis_url is not None:
        found += [one async for one in _bus(settings)]
    if settings.dsn is not None:
        found += [one async for one in _postgres(settings)]
    return found


async def _bus(settings: Settings) -> AsyncGenerator[Check]:
    try:
        async with open_bus(settings) as redis:
            try:
                info = cast("Mapping[str, Any]", await redis.info())  # pyright: ignore[reportUnknownMemberType]
                yield bus_check(info)
            except NoPermissionError:
                yield Check("bus", "reached; this login may not ask for version and memory (INFO)")
            with contextlib.suppress(ResponseError):  # no worker was ever here, or this login may not look
                consumers = await redis.xinfo_consumers(settings.query_stream, RECALL_GROUP)
                workers = await read_workers(redis, settings, [decoded(one["name"]) for one in consumers])
                # What a worker last saw of a store says less than to try it, which is done below.
                found = [problem for worker in workers for problem in problems_of(worker | {"stores": ()})]
                problems = [f"{what}: {why}" for what, why in found]
                yield Check("workers", f"{len(workers)} with a heartbeat", "; ".join(problems) or None)
            clock = BusClock()
            try:
                for _ in range(3):
                    asked_at = clock.began()
                    seconds, micros = await redis.time()  # pyright: ignore[reportUnknownMemberType]
                    clock.told(seconds + micros / 1e6, asked_at=asked_at)
            except NoPermissionError:
                yield Check("clock", "this login may not ask the bus for its time (TIME)")
                return
            told = f"{abs(clock.ahead_s):.3f} s {'ahead' if clock.ahead_s > 0 else 'behind'} of that of the bus"
            is_off = abs(clock.ahead_s) > settings.clock_bound_ms / 1000
            yield Check("clock", told, "set the clock of the machine that is wrong (NTP)" if is_off else None)
    except BusUnavailable as error:
        yield Check("bus", problem=f"{error}: start it, or put ORION_REDIS_URL right")


def bus_check(info: Mapping[str, Any]) -> Check:
    """What INFO says of version, memory and connections."""
    name = "Valkey" if "valkey_version" in info else "Redis"
    edition = info.get("valkey_version") or info.get("redis_version", "?")
    used, most = int(info.get("used_memory", 0)), int(info.get("maxmemory", 0))
    clients, most_clients = int(info.get("connected_clients", 0)), int(info.get("maxclients", 0))
    memory = f"{used / 1e6:.0f} of {most / 1e6:.0f} MB" if most else f"{used / 1e6:.0f} MB, no limit"
    told = f"{name} {edition}, {memory}, {clients} of {most_clients} connections"
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
    return Check("bus", told, problem)


async def _postgres(settings: Settings) -> AsyncGenerator[Check]:
    try:
        async with open_postgres(settings, name="doctor") as pool, borrow(pool, "looking at Postgres") as asked:
            yield await _postgres_server(asked)
            if not await asked.fetchval("SELECT to_regclass('orion_migrations') IS NOT NULL"):
                # Before the first worker that is as it should be.
                yield Check("schema", "not there yet: a worker makes it, or `orion-recall migrate`")
                return
            applied = {row["name"] for row in await asked.fetch("SELECT name FROM orion_migrations")}
            yield schema_check(applied, {one.name for one in shipped_migrations()})
    except RecordError as error:
        yield Check("Postgres", problem=f"{error}: start it, or put ORION_POSTGRES_DSN right")


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
    return Check("Postgres", told, problem)


def schema_check(applied: set[str], shipped: set[str]) -> Check:
    """What the applied files mean for this version of the program."""
    told = f"{len(applied)} files applied"
    if later := sorted(applied - shipped):
        problem = f"{', '.join(later)} of another version: start that version; older tables are not read"
    elif missing := sorted(shipped - applied):
        problem = f"{', '.join(missing)} not applied yet: start a worker of this version, or `orion-recall migrate`"
    else:
        return Check("schema", f"{told}, that is this version's")
    return Check("schema", told, problem)


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


# The stores

Look = Callable[[contextlib.AsyncExitStack], Awaitable[Finding]]


async def _stores(settings: Settings) -> list[Finding]:
    mappings = load_mappings(settings.mappings)
    async with contextlib.AsyncExitStack() as stack:
        embeds = bool(mappings.qdrant) or settings.qdrant_url is not None
        embedder = await stack.enter_async_context(open_embedder(settings)) if embeds else None
        looks: list[tuple[str, str, Look]] = []
        if embedder is not None and settings.qdrant_url:
            index = index_of(settings, embedder, SparseEncoder(settings.keyword_weights))
            arms = ["vector", "lexical"]
            looks.append(("its own index", "qdrant", partial(_own, index, settings, arms, index.without_tokens)))
        if settings.sparql_url:
            looks.append(("its own graph", "sparql", partial(_own, graph_of(settings), settings, ["rdf"], None)))
        if settings.timeline_table != OWN_VIEW:
            looks.append(("its own timeline", "table", partial(_own_timeline, settings)))
        if embedder is not None:
            looks += [(one.name, "qdrant", partial(_qdrant, one, embedder)) for one in mappings.qdrant]
        looks += [(one.name, "sparql", partial(_sparql, one)) for one in mappings.sparql]
        looks += [(one.name, "table", partial(_timeline, timeline_of(one, settings))) for one in mappings.tables]
        looks += [(one.name, "package", partial(_further, one, settings)) for one in further_sources()]
        return list(await asyncio.gather(*(_in_time(name, kind, look) for name, kind, look in looks)))


async def _in_time(name: str, kind: str, look: Look) -> Finding:
    """What the look finds; what it leaves on its stack is closed in the same time."""
    try:
        async with asyncio.timeout(_TIMEOUT_S), contextlib.AsyncExitStack() as stack:
            found = await look(stack)
            return replace(found, store=found.store or name, kind=kind)
    except (SourceError, SettingsError, ModelError) as error:
        why = str(error)
    except TimeoutError:
        why = f"no answer within {_TIMEOUT_S:.0f} s"
    return Finding(store=name, kind=kind, problems=[why])


async def _own(
    part: MemoryIndex | MemoryGraph,
    settings: Settings,
    arms: Sequence[str],
    without_tokens: Callable[[], Awaitable[str | None]] | None,
    stack: contextlib.AsyncExitStack,
) -> Finding:
    stack.push_async_callback(part.close)
    mark = await identity_of(settings)
    if mark is not None:
        part.expect(mark)
    await part.open()
    await part.check()
    without = None if without_tokens is None else await without_tokens()
    whose = "of the record" if settings.dsn is not None else "whose it is was not asked, without Postgres"
    remarks = [f"at position {part.position}, {whose}"]
    if without is not None:
        remarks.append(f"no late interaction (ranking.late): {without}")
    return Finding(arms=arms, remarks=remarks)


async def _further(spec: SourceSpec, settings: Settings, stack: contextlib.AsyncExitStack) -> Finding:
    told = await (await open_one(spec, settings, stack)).check()
    return Finding(arms=[spec.name], remarks=[] if told is None else [told])


async def _qdrant(mapping: QdrantMapping, embedder: Embedder, stack: contextlib.AsyncExitStack) -> Finding:
    collection = collection_of(mapping)
    stack.push_async_callback(collection.close)
    dense, sparse = await collection.vectors()
    count, payload = await collection.sample()
    problems: list[str] = []
    remarks: list[str] = []
    if mapping.vector in dense:
        size, distance = dense[mapping.vector]
        if size != embedder.dimension:
            made = f"{embedder.name} makes {embedder.dimension}: of another model"
            problems.append(f"vectors of {size} floats; {made}")
        if distance != "Cosine":
            remarks.append(f"the distance is {distance}: scores are no cosines, and are fused as they are")
    for kind, name, known in (("dense", mapping.vector, list(dense)), ("sparse", mapping.sparse, list(sparse))):
        if name is not None and name not in known:
            key, there = "vector" if kind == "dense" else kind, ", ".join(map(repr, known)) or "none"
            problems.append(f"there is no {kind} vector {name!r}; there is {there}: set `{key}`")
    if mapping.sparse is None:
        remarks.append("no sparse vector is mapped: the lexical source does not search it")
    roles = {role: key for role, key in mapping.payload.model_dump(exclude={"time_format"}).items() if key}
    shown = {role: value_at(payload or {}, key) for role, key in roles.items()}
    if payload is None:
        remarks.append("the collection is empty")
    elif text_of(payload, mapping.payload.text) is None:
        problems.append(f"the sample has no text under {mapping.payload.text!r}; it has {', '.join(payload)}")
    else:
        if missing := [f"{role} ({key})" for role, key in roles.items() if shown[role] is None]:
            remarks.append(f"the sample has no {', '.join(missing)}")
        if mapping.payload.time_format == "epoch" and is_in_milliseconds(shown.get("time")):
            problems.append("the sample's time is in milliseconds: set `time_format: epoch_ms`")
    arms = ["vector", *(["lexical"] if mapping.sparse else [])]
    return Finding(arms=arms, problems=problems, remarks=remarks, count=count, sample=shown)


async def _sparql(mapping: SparqlMapping, stack: contextlib.AsyncExitStack) -> Finding:
    client = graph_client(mapping)
    stack.push_async_callback(client.close)
    sample = await MappedGraphSource(client, mapping).sample()
    nothing = f"nothing has both {mapping.label} and {mapping.text}: check graph, label and text"
    problems = [] if sample else [nothing]
    return Finding(arms=["rdf"], problems=problems, sample=dict(sample or {}))


async def _own_timeline(settings: Settings, stack: contextlib.AsyncExitStack) -> Finding:
    if settings.dsn is None:
        raise SettingsError("ORION_TIMELINE_TABLE is in the service's own Postgres: set ORION_POSTGRES_DSN")
    found = await _timeline(TimelineSource(settings.dsn, timeline_table(settings)), stack)
    return replace(found, store=settings.timeline_table)


async def _timeline(timeline: TimelineSource, stack: contextlib.AsyncExitStack) -> Finding:
    stack.push_async_callback(timeline.close)
    sample = await timeline.sample()
    total, lacking = await timeline.lacking()
    nobodys = (await timeline.shape()).without_tenant
    problems = [nobodys] if nobodys else []
    remarks = [] if total else ["the table is empty"]
    if total and lacking:
        (problems if total in lacking.values() else remarks).append(unreadable_rows(total, lacking))
    return Finding(arms=["sql_timeline"], problems=problems, remarks=remarks, sample=sample)
