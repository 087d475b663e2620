"""`orion-recall memory update`: changes one memory."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from orion_recall.cli.connect.addresses import DataFolder, find
from orion_recall.cli.memory.ids import MemoryId, full_live_ids
from orion_recall.cli.memory.options import Actor, Sets, Tenant, Timeout, fields_of, given, say, send
from orion_recall.cli.output import JsonFlag
from orion_recall.errors import SettingsError


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
