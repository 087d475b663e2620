"""`orion-recall memory update` and `delete`: change one memory, or delete memories by id."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from orion_recall.cli.connect.addresses import DataFolder, find
from orion_recall.cli.connect.ids import PREFIX_HELP
from orion_recall.cli.memory.ids import MemoryId, full_live_ids
from orion_recall.cli.memory.options import Actor, Sets, Tenant, Timeout, fields_of, given, say, send
from orion_recall.cli.output import JsonFlag
from orion_recall.errors import SettingsError

Reason = Annotated[str | None, typer.Option(help="Why, for the history.")]
Erase = Annotated[bool, typer.Option("--erase", help="Remove the text from record and history, too.")]


def update_memory(
    memory_id: MemoryId,
    text: Annotated[str | None, typer.Option(help="What it says from now on.")] = None,
    sets: Sets = None,
    version: Annotated[
        int | None, typer.Option("--if-version", help="Only if it is at this version (see `memory history`).")
    ] = None,
    tenant: Tenant = None,
    actor: Actor = None,
    timeout: Timeout = 60.0,
    data: DataFolder = None,
    as_json: JsonFlag = False,
) -> int:
    """Change a memory; what it said before stays in its history, and is not recalled any more.

    A field that is set to nothing is cleared: `--set title=`. With --json the ID must be whole.

    Example: `orion-recall memory update m-1 --text "The crane runs again." --set tags=harbour,repair`
    """
    patch: dict[str, Any] = fields_of(sets) | given(text=text)
    if not patch:
        raise SettingsError("there is nothing to change: give --text or --set FIELD=VALUE")
    settings = find(data)
    (name,) = full_live_ids(settings, tenant, [memory_id], as_json=as_json)
    patch |= {"id": name} | given(expected_version=version)
    fields = given(tenant=tenant, actor=actor)
    receipt = send(settings, lambda client: client.update([patch], timeout_s=timeout, **fields))
    return say(receipt, as_json=as_json)


def delete_memories(
    ids: Annotated[list[str], typer.Argument(metavar="ID...", help=f"Ids of memories; each whole, {PREFIX_HELP}.")],
    reason: Reason = None,
    erase: Erase = False,
    tenant: Tenant = None,
    actor: Actor = None,
    timeout: Timeout = 60.0,
    data: DataFolder = None,
    as_json: JsonFlag = False,
) -> int:
    """Delete memories. Recalls no longer find them, and their ids stay taken.

    The record keeps their text and history, unless `--erase` is given. An id given by its first characters is
    printed in full; with --json ids must be whole. Exit code 1 when there is no memory of one of the ids.

    Example: `orion-recall memory delete m-1 m-2 --reason "said by mistake"`
    """
    fields: dict[str, Any] = given(tenant=tenant, actor=actor, reason=reason) | {"erase": erase}
    settings = find(data)
    full = full_live_ids(settings, tenant, ids, as_json=as_json)
    receipt = send(settings, lambda client: client.delete(full, timeout_s=timeout, **fields))
    return say(receipt, as_json=as_json)
