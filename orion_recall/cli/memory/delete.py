"""`orion-recall memory delete`: deletes memories by id; the record keeps their text unless --erase is given."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from orion_recall.cli.connect.addresses import DataFolder, find
from orion_recall.cli.connect.ids import PREFIX_HELP
from orion_recall.cli.memory.ids import full_live_ids
from orion_recall.cli.memory.options import Actor, Tenant, Timeout, given, say, send
from orion_recall.cli.output import JsonFlag

Reason = Annotated[str | None, typer.Option(help="Why, for the history.")]
Erase = Annotated[bool, typer.Option("--erase", help="Remove the text from record and history, too.")]


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
