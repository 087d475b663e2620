"""`orion-recall status`: how bus, record, copies and sink are doing."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, cast

import typer
from redis.asyncio import Redis
from redis.exceptions import ResponseError
from rich.text import Text

from orion_recall.bus.connect import group_is_gone, without_secrets
from orion_recall.bus.presence import read_cards
from orion_recall.cli.addresses import DataFolder, bus_of, dsn_without_secrets, find, open_bus, open_postgres
from orion_recall.cli.output import JsonFlag, console, print_json, table, visible
from orion_recall.errors import BusUnavailable, ProfileError, RecordError
from orion_recall.memory.record import Record
from orion_recall.postgres import borrow
from orion_recall.profile_yaml import load_profiles
from orion_recall.settings import DECISIONS_GROUP, RECALL_GROUP, Settings
from orion_recall.shipped import shipped_folder

app = typer.Typer(add_completion=False, rich_markup_mode="markdown")
Found = dict[str, Any]

# A consumer that is older than this by its last sign has gone without saying so.
_SILENT_MS = 60_000


@app.command()
def status(data: DataFolder = None, as_json: JsonFlag = False) -> int:
    """See how bus, record, copies and sink are doing.

    Exit code 1 when the bus, a configured Postgres or the profiles cannot be used, no worker takes queries, or one
    has refused an edit of its profiles and goes on with the last good ones.

    Example: `orion-recall status --json | jq .bus.queries.waiting`
    """
    settings = find(data)
    bus_of(settings)
    found = asyncio.run(_look(settings))
    if as_json:
        print_json(found)
    else:
        _show(found)
    return 0 if found["ok"] else 1


async def _look(settings: Settings) -> Found:
    bus, postgres = await asyncio.gather(_bus(settings), _postgres(settings))
    profiles = _profiles(settings)
    ok = bus["reachable"] and bus["queries"]["consumers"] and profiles["error"] is None
    ok = ok and not any(worker["profiles_error"] for worker in bus["workers"])
    return {
        "ok": bool(ok and postgres["reachable"] is not False),
        "bus": bus,
        "postgres": postgres,
        "profiles": profiles,
    }


async def _bus(settings: Settings) -> Found:
    found: Found = {"url": without_secrets(bus_of(settings)), "reachable": False, "error": None}
    found |= {
        **dict.fromkeys((*settings.intake_streams, "decisions"), _NO_GROUP),
        "dead": {},
        "decisions_trimmed": None,
        "workers": [],
    }
    try:
        async with open_bus(settings) as redis:
            trimmed = cast("bytes | None", await redis.get(f"{settings.decision_stream}:trimmed"))
            dead = {name: f"{stream}:dead" for name, stream in settings.intake_streams.items()}
            dead["decisions"] = f"{settings.decision_stream}:dead"
            found |= {
                "reachable": True,
                "decisions": await _group(redis, settings.decision_stream, DECISIONS_GROUP),
                "dead": {name: int(await redis.xlen(stream)) for name, stream in dead.items()},
                "decisions_trimmed": int(trimmed or 0),
            }
            for name, stream in settings.intake_streams.items():
                found[name] = await _group(redis, stream, RECALL_GROUP)
            found["workers"] = await _workers(redis, settings, found["queries"]["consumers"])
    except BusUnavailable as error:
        found["error"] = str(error)
    return found


async def _workers(redis: Redis, settings: Settings, consumers: Sequence[str]) -> list[Found]:
    """What the workers that take queries say of themselves; those that say nothing are left out."""
    cards = await read_cards(redis, [settings.worker_key(name) for name in consumers])
    return [
        {
            "instance": name,
            "node": card.get("node"),
            "profiles": [one for one in card.get("profiles", "").split(",") if one],
            "profiles_version": card.get("profiles_version"),
            "profiles_loaded_at": card.get("profiles_loaded_at"),
            "profiles_refused_at": card.get("profiles_refused_at"),
            "profiles_error": card.get("profiles_error"),
        }
        for name, card in zip(consumers, cards, strict=True)
        if card is not None
    ]


_NO_GROUP: Mapping[str, Any] = {"waiting": None, "pending": None, "consumers": [], "silent_consumers": []}


async def _group(redis: Redis, stream: str, group: str) -> Mapping[str, Any]:
    """What waits for the group (None: the server cannot tell), what is in hand, and who takes it."""
    try:
        groups = await redis.xinfo_groups(stream)
        consumers = await redis.xinfo_consumers(stream, group)
    except ResponseError as error:
        if group_is_gone(error) or "no such key" in str(error).lower():
            return _NO_GROUP
        raise
    told = next((one for one in groups if _text(one["name"]) == group), None)
    if told is None:
        return _NO_GROUP
    silent = [_text(one["name"]) for one in consumers if one["idle"] > _SILENT_MS]
    return {
        "waiting": told.get("lag"),
        "pending": told["pending"],
        "consumers": [name for one in consumers if (name := _text(one["name"])) not in silent],
        "silent_consumers": silent,
    }


async def _postgres(settings: Settings) -> Found:
    """`reachable` is None when no address is known."""
    if settings.dsn is None:
        return {"dsn": None, "reachable": None, "error": "no address: ORION_POSTGRES_DSN is not set"}
    found: Found = {"dsn": dsn_without_secrets(settings.dsn), "reachable": False, "error": None}
    try:
        async with open_postgres(settings) as pool:
            record = Record(pool)
            head = await record.head()
            async with borrow(pool, "reading the status") as connection:
                counted = await connection.fetch(
                    "SELECT tenant, count(*) AS count FROM memories GROUP BY 1 ORDER BY 1"
                )
                decisions = await connection.fetchval("SELECT count(*) FROM recall_decisions")
            copies = [
                {"copy": one.copy, "kind": one.kind, "position": one.position, "behind": head - one.position}
                for one in await record.copies()
            ]
    except RecordError as error:
        return {**found, "error": str(error)}
    memories = {row["tenant"]: row["count"] for row in counted}
    return {
        **found,
        "reachable": True,
        "memories": memories,
        "decisions": decisions,
        "outbox": head,
        "copies": copies,
    }


def _profiles(settings: Settings) -> Found:
    folder = settings.profiles_dir or shipped_folder("profiles")
    found: Found = {"folder": str(folder), "default": settings.default_profile, "names": [], "error": None}
    try:
        found["names"] = sorted(load_profiles(folder))
    except ProfileError as error:
        found["error"] = str(error)
    return found


def _show(found: Found) -> None:
    bus, postgres, profiles = found["bus"], found["postgres"], found["profiles"]
    _say("bus", bus["url"], bus["error"])
    if bus["reachable"]:
        rows = [
            (
                name,
                bus[name]["waiting"],
                bus[name]["pending"],
                bus["dead"][name],
                ", ".join(bus[name]["consumers"]) or "nobody",
                ", ".join(bus[name]["silent_consumers"]),
            )
            for name in bus["dead"]
        ]
        console().print(table(("  stream", "waiting", "in hand", "dead", "taken by", "silent for a minute"), rows))
        for worker in bus["workers"]:
            refused = worker["profiles_error"]
            since = f"profiles {worker['profiles_version']} since {worker['profiles_loaded_at']}"
            error = refused and f"an edit was refused at {worker['profiles_refused_at']}:\n{refused}"
            _say("  worker", f"{worker['instance']}: {since}", error)
        _say("  trimmed", f"{bus['decisions_trimmed']} decisions were dropped before they were written")
    _say("Postgres", postgres["dsn"] or "-", postgres["error"])
    if postgres["reachable"]:
        tenants = ", ".join(f"{count:,} of {name}" for name, count in postgres["memories"].items())
        _say("  memories", tenants or "none")
        _say("  decisions", f"{postgres['decisions']:,}")
        _say("  outbox", f"at {postgres['outbox']}")
        for copy in postgres["copies"]:
            behind = f"{copy['behind']} behind" if copy["behind"] else "up to date"
            _say(f"  {copy['kind']}", f"{behind} at {copy['position']}: {copy['copy']}")
    _say("profiles", f"{', '.join(profiles['names'])} (default {profiles['default']})", profiles["error"])


def _say(what: str, value: str, error: str | None = None) -> None:
    line = Text(f"{what:12} {visible(value)}")
    if error:
        line.append(f"  {visible(error)}", style="red")
    console().print(line, soft_wrap=True)


def _text(value: bytes | str) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value
