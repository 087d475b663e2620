"""`orion-recall memory successions` lists what succeeds what, `memory succeeds` confirms, makes or undoes one."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
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
    Table,
    console,
    counted,
    note,
    print_error,
    print_json,
    prose,
    table,
    visible,
)
from orion_recall.memory.record.successions import HeldSuccession, SetByHand, Successions
from orion_recall.memory.succession.decide import LEAST, SUCCEEDS
from orion_recall.memory.succession.reasons import plain
from orion_recall.values import JsonValue

_FOUND_BY = {
    "rule": "the rules",
    "hand": "a person",
    "supersedes": "taken over from a memory that it superseded",
}


def list_successions(
    below: Annotated[
        float | None,
        typer.Option(min=0, max=1, help="Only recognised ones less sure than this, which nobody has confirmed."),
    ] = None,
    likenesses: Annotated[
        bool, typer.Option("--likenesses", help="Also pairs that are too unsure to count as a succession.")
    ] = False,
    undone: Annotated[bool, typer.Option("--undone", help="Also those that a person has undone.")] = False,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="Successions at most.")] = 50,
    tenant: Tenant = None,
    data: DataFolder = None,
    as_json: JsonFlag = False,
) -> int:
    """List which memory succeeds which, those of the newest memory first: to confirm or undo them.

    From a confidence of 0.95 up a recall may mark the older memory as outdated, where the question asks about
    what has changed; below that it says "perhaps", and below 0.5 (`--likenesses`) two texts are only alike.
    `orion-recall memory succeeds NEW OLD` confirms one, with --undo it undoes it. No worker is needed.

    Example: `orion-recall memory successions --below 0.95`
    """
    settings = find(data)
    whose = tenant or settings.default_tenant
    least = LEAST if likenesses else SUCCEEDS

    async def read() -> list[HeldSuccession]:
        async with open_postgres(settings) as pool:
            return await Successions(pool).of_tenant(
                whose, least=least, below=below, undone=undone, limit=limit + 1
            )

    found = asyncio.run(read())
    shown = found[:limit]
    if as_json:
        print_json({"successions": [as_json_of(one) for one in shown], "truncated": len(found) > limit})
        return 0
    if shown:
        console().print(_listed(shown))
    else:
        note("there is no such succession")
    if len(found) > limit:
        note(f"limited to {counted(limit, 'succession')}: --limit shows more")
    return 0


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
    memory successions` lists what was recognised, `memory history ID` that of one memory.

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


def row_of(name: str, one: HeldSuccession) -> tuple[str | None, ...]:
    """A row about one end of a succession, the memory `name`: what the other end is, and why."""
    is_newer = one.newer == name
    other = one.older_text if is_newer else one.newer_text
    return (
        "succeeds" if is_newer else "succeeded by",
        one.older if is_newer else one.newer,
        shortened(other),
        *_how_sure(one),
        _FOUND_BY[one.found_by],
        _why(one),
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


def _listed(successions: Sequence[HeldSuccession]) -> Table:
    rows = [
        (
            f"{visible(one.newer)}: {shortened(one.newer_text)}",
            f"{visible(one.older)}: {shortened(one.older_text)}",
            *_how_sure(one),
            _why(one),
        )
        for one in successions
    ]
    return table(("newer", "older", "confidence", "state", "why"), rows)


def _how_sure(one: HeldSuccession) -> tuple[str, str]:
    if one.state == "candidate":
        state = "recognised" if one.confidence >= SUCCEEDS else "a likeness"
    else:
        state = f"{one.state} by {visible(one.actor) if one.actor else 'a person'}"
    return f"{one.confidence:.3g}", state


def _why(one: HeldSuccession) -> str:
    return visible(plain(one.reason)) or "(nothing was given)"
