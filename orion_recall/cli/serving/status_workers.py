"""The heartbeats of query workers, for `orion-recall status`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from redis.asyncio import Redis
from redis.exceptions import ResponseError

from orion_recall.bus.heartbeat import BUS_FULL, read_heartbeats
from orion_recall.cli.output import say
from orion_recall.serving.observe.heartbeat_fields import health_of
from orion_recall.settings import RECALL_GROUP, Settings

Found = dict[str, Any]


async def read_workers(redis: Redis, settings: Settings, consumers: Sequence[str]) -> list[Found]:
    """One for every worker with a heartbeat; those that say nothing are left out."""
    heartbeats = await read_heartbeats(redis, [settings.worker_key(name) for name in consumers])
    return [
        _found(name, heartbeat)
        for name, heartbeat in zip(consumers, heartbeats, strict=True)
        if heartbeat is not None
    ]


async def running_extractors(redis: Redis, settings: Settings) -> frozenset[str] | None:
    """The extractors of the workers with a heartbeat; None where no worker says which it has."""
    try:
        consumers = await redis.xinfo_consumers(settings.intake_streams["queries"], RECALL_GROUP)
    except ResponseError:
        return None
    keys = [settings.worker_key(text_of(one["name"])) for one in consumers]
    told = [one["extractors"] for one in await read_heartbeats(redis, keys) if one and "extractors" in one]
    return frozenset(name for one in told for name in one.split(",")) if told else None


def text_of(value: bytes | str) -> str:
    """Text of the bus."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


_HEALTH = ("stores", "copies", "disks", "stores_left_out")


def _found(name: str, heartbeat: Mapping[str, str]) -> Found:
    health = health_of(heartbeat)
    as_told = ("node", "default_profile", "profiles_version", "profiles_loaded_at", "profiles_refused_at",
               "profiles_error", "model", "model_note", "lost")  # fmt: skip
    return {
        "instance": name,
        **{field: heartbeat.get(field) for field in as_told},
        **{
            field: [one for one in heartbeat.get(field, "").split(",") if one] for field in ("profiles", "channels")
        },
        "bus_full": heartbeat.get(BUS_FULL) == "1",
        **(dict.fromkeys(_HEALTH) if health is None else asdict(health)),
    }


def problems_of(worker: Found) -> Iterator[tuple[str, str]]:
    """What keeps the worker's recalls from being whole, or is to be mended; and why."""
    if worker["profiles_error"]:
        yield f"{worker['instance']} has refused an edit of its profiles", worker["profiles_error"]
    if worker["bus_full"]:
        yield (
            f"{worker['instance']} finds the bus full",
            (
                "callers are refused until there is room: its memory is full (raise ORION_BUS_MEMORY_BYTES, or "
                "maxmemory of a server of your own, or find what fills it), or the disk of an embedded bus is short"
            ),
        )
    for disk in worker["disks"] or ():
        if disk["why"]:
            yield f"{worker['instance']} has a short disk ({disk['name']})", disk["why"]
    for store in worker["stores"] or ():
        if store["required"] and store["health"] in ("broken", "failing"):
            yield f"{worker['instance']} cannot use {_name(store)}", store["why"]


def show_worker(worker: Found) -> None:
    """The worker in a few lines: its profiles, and what of its stores and copies is not well."""
    default, refused = worker["default_profile"], worker["profiles_error"]
    names = ", ".join(f"{name} (default)" if name == default else name for name in worker["profiles"])
    loaded = f"{names}; version {worker['profiles_version']}, read at {worker['profiles_loaded_at']}"
    say("  worker", f"{worker['instance']} of node {worker['node']}")
    say("    profiles", loaded, refused and f"an edit was refused at {worker['profiles_refused_at']}:\n{refused}")
    say("    listens on", ", ".join(worker["channels"]) or "no channels, only the query stream")
    if worker["model"]:
        say("    model", "; ".join(filter(None, (worker["model"], worker["model_note"]))))
    if worker["lost"]:
        say("    lost", f"with streams that somebody emptied, about: {worker['lost']}")
    stores = [(_name(one), one["health"], one["why"]) for one in worker["stores"] or ()]
    stores += [(f"copy: {one['kind']}", *_state_of(one)) for one in worker["copies"] or ()]
    well = [name for name, state, why in stores if not why and state in ("ok", "up to date")]
    say("    well", ", ".join(well) or ("it does not say" if worker["stores"] is None else "none"))
    for name, state, why in stores:
        if name not in well:
            say(f"    {name}", state, why)
    for disk in worker["disks"] or ():
        if disk["why"]:
            say("    short disk", disk["name"], disk["why"])


def _name(store: Found) -> str:
    return f"{store['arm']} of {store['store']}" if store["store"] else store["arm"]


def _state_of(copy: Found) -> tuple[str, str | None]:
    if copy["error"]:
        return "broken" if copy["copy"] is None else "waits", copy["error"]
    if copy["behind"] is None:
        return "-", "another worker writes it, or it has not been looked at yet"
    return f"{copy['behind']} behind" if copy["behind"] else "up to date", None
