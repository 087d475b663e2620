"""`orion-recall memory succeeds` states or undoes a succession; the rows of successions for the history."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Annotated

import typer

from orion_recall.cli.connect.addresses import DataFolder, find, open_postgres
from orion_recall.cli.connect.ids import PREFIX_HELP
from orion_recall.cli.memory.ids import full_memory_id
from orion_recall.cli.memory.options import Tenant
from orion_recall.cli.output import (
    JsonFlag,
    print_error,
    print_json,
    prose,
    visible,
)
from orion_recall.memory.record.successions import HeldSuccession, SetByPerson, Successions
from orion_recall.values import JsonValue, SuccessionReason

_SAID_BY: Mapping[SuccessionReason, str] = {
    "supersedes": "taken over from a memory that it superseded",
    "by_person": "a person",
    "by_extractor": "the extractor",
}


def set_succession(
    newer: Annotated[str, typer.Argument(metavar="NEW", help=f"The newer memory's id, {PREFIX_HELP}.")],
    older: Annotated[str, typer.Argument(metavar="OLD", help=f"The older memory's id, {PREFIX_HELP}.")],
    undo: Annotated[bool, typer.Option("--undo", help="It does not: undo the succession.")] = False,
    actor: Annotated[str | None, typer.Option(help="Name of who says so, for the history.")] = None,
    tenant: Tenant = None,
    data: DataFolder = None,
    as_json: JsonFlag = False,
) -> int:
    """Say that a memory succeeds an older one.

    Neither memory is changed: recalls get the newer one first, and the older one is marked, left out or kept as the
    profile says (`superseded`). With --undo the two have nothing to do with each other, and no extractor brings it
    back. `orion-recall memory history ID` shows the successions of a memory.

    Example: `orion-recall memory succeeds m-7 m-2`
    """
    settings = find(data)
    whose = tenant or settings.default_tenant

    async def write() -> tuple[str, str, SetByPerson]:
        async with open_postgres(settings) as pool:
            new, old = await full_memory_id(pool, whose, newer), await full_memory_id(pool, whose, older)
            return new, old, await Successions(pool).by_person(whose, new, old, undo=undo, actor=actor)

    new, old, done = asyncio.run(write())
    if (why := _refused(done, whose)) is not None:
        print_error("NotFound" if done.state == "missing" else "Usage", why, as_json=as_json)
        return 1
    if as_json:
        print_json({"newer": new, "older": old, "state": done.state})
    elif done.state == "unchanged":
        prose(
            visible(f"nothing was changed: that {new} succeeds {old} is {'undone' if undo else 'stated'} already")
        )
    else:
        prose(visible(f"{new} succeeds {old}: {done.state}; index and graph follow"))
    return 0


def _refused(done: SetByPerson, tenant: str) -> str | None:
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


def row_of(name: str, one: HeldSuccession) -> tuple[str | None, ...]:
    """A row about one end of a succession, the memory `name`: what the other end is, and why."""
    is_newer = one.newer == name
    other = one.older_text if is_newer else one.newer_text
    return (
        "succeeds" if is_newer else "succeeded by",
        one.older if is_newer else one.newer,
        shortened(other),
        one.state,
        visible(one.actor) if one.actor else _SAID_BY[one.reason],
        visible(", ".join(one.evidence)),
    )


def as_json_of(one: HeldSuccession) -> Mapping[str, object]:
    """The fields of a succession, times as ISO 8601."""
    return asdict(one) | {"at": moment_of(one.at), "changed_at": moment_of(one.changed_at)}


def moment_of(seconds: float | None) -> datetime | None:
    """Epoch seconds as a moment in UTC."""
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)


def shortened(value: JsonValue) -> str:
    """A value for one cell of a table, of at most 120 characters."""
    text = "nothing" if value in (None, "", []) else visible(value)
    return text if len(text) <= 120 else f"{text[:117]}..."
