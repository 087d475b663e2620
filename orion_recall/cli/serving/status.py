"""`orion-recall status`: the state of bus, workers, record, copies and decision sink."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Annotated, Any, cast

import typer
from redis.asyncio import Redis
from redis.exceptions import ResponseError

from orion_recall.bus.connect import group_is_gone, without_secrets
from orion_recall.bus.group_reader import decoded
from orion_recall.bus.heartbeat import BUS_FULL, read_heartbeats
from orion_recall.cli.addresses import (
    DataFolder,
    bus_of,
    dsn_without_secrets,
    embedded_dsn,
    find,
    open_bus,
    open_postgres,
)
from orion_recall.cli.output import Shown, document, duration, moment_of, note, show
from orion_recall.errors import BusUnavailable, OrionError, RecordError
from orion_recall.memory.record.record import GONE_AFTER_S, Record
from orion_recall.postgres.pool import borrow
from orion_recall.serving.observe.heartbeat_fields import health_of
from orion_recall.settings import DECISIONS_GROUP, RECALL_GROUP, Settings

Found = dict[str, Any]

# A consumer that is older than this by its last sign has gone without saying so.
_SILENT_MS = 60_000
_AS_TOLD = ("node", "default_profile", "profiles_version", "profiles_loaded_at", "profiles_refused_at",
            "profiles_error", "model", "model_note", "lost", "made_anew")  # fmt: skip
_HEALTH = ("stores", "copies", "disks", "stores_left_out")
_NO_GROUP: Mapping[str, Any] = {"waiting": None, "pending": None, "consumers": [], "silent_consumers": []}


def status(
    forget: Annotated[str | None, typer.Option(metavar="COPY", help="First forget a copy that is gone.")] = None,
    data: DataFolder = None,
) -> int:
    """See how bus, record, copies and sink are doing.

    Of every worker it says which stores are not well, and why. Exit code 1, with `problems` in --json, when the
    bus or a configured Postgres cannot be used, no worker takes queries, one cannot use a store
    that its recalls require (ORION_READY_SOURCES), or one has refused an edit of its profiles. Copies that are
    gone are listed, and no problem.

    Example: `orion-recall status --json | jq .problems`
    """
    settings = find(data)
    bus_of(settings)
    if forget is not None:
        kinds = asyncio.run(_forget(settings, forget))
        note(f"forgotten: {' and '.join(kinds)} of {forget}")
    found = asyncio.run(read_status(settings))
    show(found, *_show(found))
    return 0 if found["ok"] else 1


async def read_status(settings: Settings) -> Found:
    """Everything that `status --json` prints."""
    bus, postgres = await asyncio.gather(_bus(settings), _postgres(settings))
    workers: Sequence[Found] = bus["workers"]
    profiles = {
        "default": next((one["default_profile"] for one in workers if one["default_profile"]), None),
        "names": sorted({name for one in workers for name in one["profiles"]}),
    }
    problems = [{"what": what, "why": why} for what, why in _problems(bus, postgres)]
    return {"ok": not problems, "problems": problems, "bus": bus, "postgres": postgres, "profiles": profiles}


def _problems(bus: Found, postgres: Found) -> Iterator[tuple[str, str]]:
    if not bus["reachable"]:
        yield "the bus cannot be used", bus["error"]
    elif not bus["queries"]["consumers"]:
        why = "none has given a sign of life for a minute: start `orion-recall up`, or `orion-recall worker`"
        yield "no worker takes queries", why
    for worker in bus["workers"]:
        yield from problems_of(worker)
    if postgres["reachable"] is False:
        yield "Postgres cannot be used", postgres["error"]


async def _forget(settings: Settings, copy: str) -> list[str]:
    async with open_postgres(settings) as pool:
        record = Record(pool)
        kinds = await record.forget(copy)
        held = {one.copy: one for one in await record.copies()}
    if kinds:
        return kinds
    if copy in held:
        raise OrionError(
            f"{copy} gave a sign of life {duration(held[copy].silent_s)} ago and would be back at once: stop its "
            f"worker, and forget it {duration(GONE_AFTER_S)} later"
        )
    raise OrionError(f"there is no copy {copy!r}; there are {', '.join(held) or 'none'}")


async def _bus(settings: Settings) -> Found:
    streams = {name: (stream, RECALL_GROUP) for name, stream in settings.intake_streams.items()}
    streams["decisions"] = (settings.decision_stream, DECISIONS_GROUP)
    found: Found = {"url": without_secrets(bus_of(settings)), "reachable": False, "error": None}
    found |= {**dict.fromkeys(streams, _NO_GROUP), "dead": {}, "decisions_trimmed": None, "workers": []}
    try:
        async with open_bus(settings) as redis:
            trimmed = cast("bytes | None", await redis.get(f"{settings.decision_stream}:trimmed"))
            found |= {
                "reachable": True,
                **{name: await _group(redis, *at) for name, at in streams.items()},
                "dead": {name: int(await redis.xlen(f"{stream}:dead")) for name, (stream, _) in streams.items()},
                "decisions_trimmed": int(trimmed or 0),
            }
            found["workers"] = await read_workers(redis, settings, found["queries"]["consumers"])
    except BusUnavailable as error:
        found["error"] = str(error)
    return found


async def _group(redis: Redis, stream: str, group: str) -> Mapping[str, Any]:
    try:
        groups = await redis.xinfo_groups(stream)
        consumers = await redis.xinfo_consumers(stream, group)
    except ResponseError as error:
        if group_is_gone(error) or "no such key" in str(error).lower():
            return _NO_GROUP
        raise
    told = next((one for one in groups if decoded(one["name"]) == group), None)
    if told is None:
        return _NO_GROUP
    silent = [decoded(one["name"]) for one in consumers if one["idle"] > _SILENT_MS]
    return {
        "waiting": told.get("lag"),
        "pending": told["pending"],
        "consumers": [name for one in consumers if (name := decoded(one["name"])) not in silent],
        "silent_consumers": silent,
    }


async def _postgres(settings: Settings) -> Found:
    if settings.dsn is None:
        return {"dsn": None, "reachable": None, "error": "no address: ORION_POSTGRES_DSN is not set"}
    dsn = embedded_dsn(settings) or dsn_without_secrets(settings.dsn)
    found: Found = {"dsn": dsn, "reachable": False, "error": None}
    try:
        async with open_postgres(settings) as pool:
            record = Record(pool)
            head = await record.head()
            async with borrow(pool, "reading the status") as connection:
                counted = await connection.fetch(
                    "SELECT tenant, count(*) AS count FROM memories WHERE live GROUP BY 1 ORDER BY 1"
                )
                decisions = await connection.fetchval("SELECT count(*) FROM recall_decisions")
            copies = [
                {"copy": one.copy, "kind": one.kind, "position": one.position,
                 "behind": max(0, head - one.position), "last_sign_at": moment_of(one.updated_at),
                 "silent_s": round(one.silent_s, 1), "gone": one.is_gone}
                for one in await record.copies()
            ]  # fmt: skip
    except RecordError as error:
        return {**found, "error": str(error)}
    memories = {row["tenant"]: row["count"] for row in counted}
    known = {"memories": memories, "decisions": decisions, "outbox": head, "copies": copies}
    return {**found, "reachable": True, **known}


def _show(found: Found) -> Iterator[Shown]:
    bus, postgres = found["bus"], found["postgres"]
    streams = {name: {**bus[name], "dead": dead} for name, dead in bus["dead"].items()}
    trimmed = f"{bus['decisions_trimmed']} before a sink had read them: ORION_DECISIONS_CAP is reached"
    dropped = trimmed if bus["decisions_trimmed"] else None
    yield from document(
        {"bus": bus["url"], "error": bus["error"], "decisions dropped": dropped, "streams": streams}
    )
    for worker in bus["workers"]:
        stores = [{"source": one["arm"], **one, "arm": None} for one in worker["stores"] or ()]
        copies = [
            {"copy": one["kind"], "state": _behind(one), "why": one["error"]} for one in worker["copies"] or ()
        ]
        short = [one for one in worker["disks"] or () if one["why"]]
        told = {name: value for name, value in worker.items() if name not in _HEALTH and value is not False}
        listens = worker["channels"] or "the query stream alone"
        told |= {"channels": listens, "stores": stores, "copies": copies, "short disks": short}
        yield ""
        yield from document({"worker": told.pop("instance"), **told})
    copies = [
        {"kind": one["kind"], "copy": one["copy"], "state": _behind(one),
         "last sign of life": f"{duration(one['silent_s'])} ago",
         "gone?": f"orion-recall status --forget {shlex.quote(one['copy'])}" if one["gone"] else None}
        for one in postgres.get("copies", ())
    ]  # fmt: skip
    yield ""
    yield from document({"Postgres": postgres["dsn"] or "-", **postgres, "dsn": None, "copies": copies})
    yield from document({"problems": found["problems"]})


def _behind(copy: Found) -> str:
    if copy["behind"] is None:
        return "not known: another worker writes it, or it has not been looked at yet"
    return f"{copy['behind']} behind" if copy["behind"] else "up to date"


async def read_workers(redis: Redis, settings: Settings, consumers: Sequence[str]) -> list[Found]:
    """One for every worker with a heartbeat; those that say nothing are left out."""
    heartbeats = await read_heartbeats(redis, [settings.worker_key(name) for name in consumers])
    return [_found(name, one) for name, one in zip(consumers, heartbeats, strict=True) if one is not None]


async def running_extractors(redis: Redis, settings: Settings) -> frozenset[str] | None:
    """The extractors of the workers with a heartbeat; None where no worker says which it has."""
    try:
        consumers = await redis.xinfo_consumers(settings.intake_streams["queries"], RECALL_GROUP)
    except ResponseError:
        return None
    keys = [settings.worker_key(decoded(one["name"])) for one in consumers]
    told = [one["extractors"] for one in await read_heartbeats(redis, keys) if one and "extractors" in one]
    return frozenset(name for one in told for name in one.split(",")) if told else None


def _found(name: str, heartbeat: Mapping[str, str]) -> Found:
    health = health_of(heartbeat)
    found: Found = {"instance": name, **{field: heartbeat.get(field) for field in _AS_TOLD}}
    for field in ("profiles", "channels"):
        found[field] = [one for one in heartbeat.get(field, "").split(",") if one]
    found["bus_full"] = heartbeat.get(BUS_FULL) == "1"
    return found | (dict.fromkeys(_HEALTH) if health is None else asdict(health))


def problems_of(worker: Found) -> Iterator[tuple[str, str]]:
    """What keeps the worker's recalls from being whole, or is to be mended; and why."""
    if worker["profiles_error"]:
        yield f"{worker['instance']} has refused an edit of its profiles", worker["profiles_error"]
    if worker["bus_full"]:
        why = "raise ORION_BUS_MEMORY_BYTES, or maxmemory of a server, or make room on the disk of an embedded bus"
        yield f"{worker['instance']} finds the bus full", f"callers are refused until there is room: {why}"
    if worker["made_anew"]:
        why = (
            "somebody sent entries with an id far ahead of the clock: find out who may add to them, and restart it"
        )
        yield f"{worker['instance']} has made streams anew ({worker['made_anew']})", why
    for disk in worker["disks"] or ():
        if disk["why"]:
            yield f"{worker['instance']} has a short disk ({disk['name']})", disk["why"]
    for store in worker["stores"] or ():
        if store["required"] and store["health"] in ("broken", "failing"):
            name = f"{store['arm']} of {store['store']}" if store["store"] else store["arm"]
            yield f"{worker['instance']} cannot use {name}", store["why"]
