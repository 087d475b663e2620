"""`orion-recall status`: the state of bus, record, copies and decision sink."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, cast

import typer
from redis.asyncio import Redis
from redis.exceptions import ResponseError

from orion_recall.bus.connect import group_is_gone, without_secrets
from orion_recall.cli.connect.addresses import (
    DataFolder,
    bus_of,
    dsn_without_secrets,
    find,
    open_bus,
    open_postgres,
)
from orion_recall.cli.output import JsonFlag, console, counted, duration, note, print_json, say, table
from orion_recall.cli.serving.status_workers import problems_of, read_workers, show_worker, text_of
from orion_recall.errors import BusUnavailable, OrionError, RecordError
from orion_recall.memory.record.record import GONE_AFTER_S, Record
from orion_recall.postgres.pool import borrow
from orion_recall.settings import DECISIONS_GROUP, RECALL_GROUP, Settings

app = typer.Typer(add_completion=False, rich_markup_mode="markdown")
Found = dict[str, Any]

# A consumer that is older than this by its last sign has gone without saying so.
_SILENT_MS = 60_000
_NO_GROUP: Mapping[str, Any] = {"waiting": None, "pending": None, "consumers": [], "silent_consumers": []}


@app.command()
def status(
    forget: Annotated[str | None, typer.Option(metavar="COPY", help="First forget a copy that is gone.")] = None,
    data: DataFolder = None,
    as_json: JsonFlag = False,
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
    if as_json:
        print_json(found)
    else:
        _show(found)
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
        yield "no worker takes queries", "none has given a sign of life for a minute"
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
    told = next((one for one in groups if text_of(one["name"]) == group), None)
    if told is None:
        return _NO_GROUP
    silent = [text_of(one["name"]) for one in consumers if one["idle"] > _SILENT_MS]
    return {
        "waiting": told.get("lag"),
        "pending": told["pending"],
        "consumers": [name for one in consumers if (name := text_of(one["name"])) not in silent],
        "silent_consumers": silent,
    }


async def _postgres(settings: Settings) -> Found:
    if settings.dsn is None:
        return {"dsn": None, "reachable": None, "error": "no address: ORION_POSTGRES_DSN is not set"}
    found: Found = {"dsn": dsn_without_secrets(settings.dsn), "reachable": False, "error": None}
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
                {
                    "copy": one.copy,
                    "kind": one.kind,
                    "position": one.position,
                    "behind": max(0, head - one.position),
                    "last_sign_at": datetime.fromtimestamp(one.updated_at, UTC),
                    "silent_s": round(one.silent_s, 1),
                    "gone": one.is_gone,
                }
                for one in await record.copies()
            ]
    except RecordError as error:
        return {**found, "error": str(error)}
    memories = {row["tenant"]: row["count"] for row in counted}
    known = {"memories": memories, "decisions": decisions, "outbox": head, "copies": copies}
    return {**found, "reachable": True, **known}


def _show(found: Found) -> None:
    bus, postgres = found["bus"], found["postgres"]
    say("bus", bus["url"], bus["error"])
    if bus["reachable"]:
        streams = [(name, bus[name], bus["dead"][name]) for name in bus["dead"]]
        rows = [
            (name, one["waiting"], one["pending"], dead, ", ".join(one["consumers"]) or "none",
             ", ".join(one["silent_consumers"]))
            for name, one, dead in streams
        ]  # fmt: skip
        columns = ("  stream", "waiting", "in flight", "dead", "taken by", "silent for a minute")
        console().print(table(columns, rows))
        for worker in bus["workers"]:
            show_worker(worker)
        if trimmed := bus["decisions_trimmed"]:
            dropped = f"{counted(trimmed, 'decision')} before a sink had read them: ORION_DECISIONS_CAP is reached"
            say("  dropped", dropped)
    say("Postgres", postgres["dsn"] or "-", postgres["error"])
    if postgres["reachable"]:
        tenants = ", ".join(f"{count:,} of {name}" for name, count in postgres["memories"].items())
        say("  memories", tenants or "none")
        say("  decisions", f"{postgres['decisions']:,}")
        say("  outbox", f"at {postgres['outbox']}")
        for copy in postgres["copies"]:
            behind = f"{copy['behind']} behind" if copy["behind"] else "up to date"
            sign = f"last sign of life {duration(copy['silent_s'])} ago"
            forget = f"gone? `orion-recall status --forget {shlex.quote(copy['copy'])}`" if copy["gone"] else None
            say(f"  {copy['kind']}", f"{behind} at {copy['position']}: {copy['copy']}, {sign}", forget)
    for problem in found["problems"]:
        say("problem", "", problem["what"])
