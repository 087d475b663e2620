"""`orion-recall memory history` lists the changes and successions of one memory, `memory succeeds` makes one."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Annotated

import typer

from orion_recall.cli.connect.addresses import DataFolder, find, open_postgres
from orion_recall.cli.connect.ids import PREFIX_HELP
from orion_recall.cli.memory.ids import MemoryId, full_memory_id, no_such_memory
from orion_recall.cli.memory.options import Tenant
from orion_recall.cli.output import JsonFlag, console, print_error, print_json, prose, table, visible
from orion_recall.memory.record.changes import HistoryStep, MemoryChanges
from orion_recall.memory.record.successions import HeldSuccession, SetByHand, Successions
from orion_recall.memory.succession.decide import SUCCEEDS
from orion_recall.memory.succession.reasons import plain
from orion_recall.values import JsonValue

# What follows from the rest, or says of every step that it is one.
_NOT_SHOWN = frozenset(
    ("seq", "version", "updated_at", "recorded_at", "text_hash", "simhash", "content_hash", "statements")
)


_FOUND_BY = {
    "rule": "the rules",
    "hand": "a person",
    "supersedes": "taken over from a memory that it superseded",
}


def show_history(
    memory_id: MemoryId,
    tenant: Tenant = None,
    data: DataFolder = None,
    as_json: JsonFlag = False,
) -> int:
    """Show every change of a memory: added, updated, merged, superseded, deleted, by whom and when.

    A row shows what changed; --json has the whole memory before and after each change. A second table shows the
    memories that it succeeds and those that succeed it, with the confidence and the reason.

    Example: `orion-recall memory history m-1`
    """
    settings = find(data)

    whose = tenant or settings.default_tenant

    async def read() -> tuple[str, list[HistoryStep], list[HeldSuccession]]:
        async with open_postgres(settings) as pool:
            name = await full_memory_id(pool, whose, memory_id)
            steps = await MemoryChanges(pool).history(whose, name)
            return name, steps, await Successions(pool).of_memory(whose, name)

    name, steps, successions = asyncio.run(read())
    if not steps:
        print_error("NotFound", no_such_memory(whose, memory_id), as_json=as_json)
        return 1
    if as_json:
        told = [asdict(step) | {"at": _moment(step.at)} for step in steps]
        links = [
            asdict(one) | {"at": _moment(one.at), "changed_at": _moment(one.changed_at)} for one in successions
        ]
        print_json({"id": name, "steps": told, "successions": links})
        return 0
    rows = [(_moment(one.at), one.version, one.op, one.actor, _told(one)) for one in steps]
    console().print(table(("at (UTC)", "version", "step", "by", "what it changed"), rows))
    if successions:
        links = [_succession(name, one) for one in successions]
        console().print(table(("", "memory", "its text", "confidence", "state", "found by", "why"), links))
    return 0


def _succession(name: str, one: HeldSuccession) -> tuple[str | float | None, ...]:
    is_newer = one.newer == name
    return (
        "succeeds" if is_newer else "succeeded by",
        one.older if is_newer else one.newer,
        _short(one.other_text),
        round(one.confidence, 2),
        _state(one),
        _FOUND_BY[one.found_by],
        visible(plain(one.reason)) or "(nothing was given)",
    )


def _state(one: HeldSuccession) -> str:
    if one.state == "candidate":
        return "recognised" if one.confidence >= SUCCEEDS else "a likeness"
    return f"{one.state} by {visible(one.actor) if one.actor else 'a person'}"


def _moment(seconds: float | None) -> datetime | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)


def _told(step: HistoryStep) -> str:
    """What it changed, a line each, and what else belongs to it."""
    said = [f"{name}: {visible(value)}" for name, value in step.lineage.items()]
    if step.before is None:
        text = (step.after or {}).get("text")
        return "\n".join([visible(text), *said]) if text else "\n".join(said)
    return "\n".join([*said, *_differences(step.before, step.after or {})])


def _differences(before: Mapping[str, JsonValue], after: Mapping[str, JsonValue]) -> list[str]:
    names = [name for name in after if name not in _NOT_SHOWN and before.get(name) != after[name]]
    if "erased" in before:
        return ["(erased)"]
    return [f"{name}: {_short(before.get(name))} -> {_short(after[name])}" for name in names]


def _short(value: JsonValue) -> str:
    text = "nothing" if value in (None, "", []) else visible(value)
    return text if len(text) <= 120 else f"{text[:117]}..."


def set_succession(
    newer: Annotated[str, typer.Argument(metavar="NEW", help=f"The newer memory's id, {PREFIX_HELP}.")],
    older: Annotated[str, typer.Argument(metavar="OLD", help=f"The older memory's id, {PREFIX_HELP}.")],
    undo: Annotated[bool, typer.Option("--undo", help="It does not: undo the succession.")] = False,
    actor: Annotated[str | None, typer.Option(help="Name of who says so, for the history.")] = None,
    tenant: Tenant = None,
    data: DataFolder = None,
    as_json: JsonFlag = False,
) -> int:
    """Say that a memory succeeds an older one: it confirms what was recognised, or makes a new succession.

    Neither memory is changed: questions about now get the newer one first, and the older one is marked. With
    --undo the two have nothing to do with each other, and the recognition does not bring it back. `orion-recall
    memory history ID` lists the successions of a memory.

    Example: `orion-recall memory succeeds m-7 m-2`
    """
    settings = find(data)
    whose = tenant or settings.default_tenant

    async def write() -> tuple[str, str, SetByHand]:
        async with open_postgres(settings) as pool:
            new, old = await full_memory_id(pool, whose, newer), await full_memory_id(pool, whose, older)
            return new, old, await Successions(pool).by_hand(whose, new, old, undo=undo, actor=actor)

    new, old, done = asyncio.run(write())
    if (why := _refused(done, whose)) is not None:
        print_error("NotFound" if done.state == "missing" else "Usage", why, as_json=as_json)
        return 1
    if as_json:
        print_json({"newer": new, "older": old, "state": done.state})
    elif done.state == "unchanged":
        prose(
            visible(
                f"nothing was changed: that {new} succeeds {old} is {'undone' if undo else 'confirmed'} already"
            )
        )
    else:
        prose(visible(f"{new} succeeds {old}: {done.state}; index and graph follow"))
    return 0


def _refused(done: SetByHand, tenant: str) -> str | None:
    """Why nothing was changed, with the ids that it is about; None where it was not refused."""
    if done.state == "missing":
        names = " and ".join(repr(name) for name in done.ids)
        return (
            f"nothing was changed: {tenant!r} has no live memory {names}. The id is unknown, or the memory was "
            "deleted or superseded: `orion-recall memory history ID` says which"
        )
    if done.state == "same":
        return f"nothing was changed: {done.ids[0]!r} cannot succeed itself"
    if done.state == "cycle":
        chain = " succeeds ".join(repr(name) for name in done.ids)
        return (
            f"nothing was changed: it would be a cycle, for {chain}. Undo one of these first: "
            f"`orion-recall memory succeeds {done.ids[0]} {done.ids[1]} --undo`"
        )
    return None
