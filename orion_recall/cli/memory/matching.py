"""`orion-recall memory updateq` and `deleteq`: change or delete all memories that meet the given conditions."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import typer

from orion_recall.cli.connect.addresses import DataFolder, find
from orion_recall.cli.memory.change import Erase, Reason
from orion_recall.cli.memory.options import (
    Actor,
    Sets,
    Tenant,
    Timeout,
    Where,
    Yes,
    conditions_of,
    fields_of,
    given,
    say,
    send,
)
from orion_recall.cli.output import JsonFlag, counted, note, notes, print_json, prose, visible
from orion_recall.client import RecallClient
from orion_recall.contracts import MemoryReceiptV1
from orion_recall.errors import SettingsError

_SHOWN = 20
_Change = Callable[..., Awaitable[MemoryReceiptV1]]


def update_matching(
    where: Where = None,
    sets: Sets = None,
    yes: Yes = False,
    tenant: Tenant = None,
    actor: Actor = None,
    timeout: Timeout = 60.0,
    data: DataFolder = None,
    as_json: JsonFlag = False,
) -> int:
    """Change every memory that meets all conditions.

    The ids that match are shown first, and you are asked. If another number of memories matches by then, nothing is
    changed. `text` holds words that must all occur; of a list one value is enough.

    Example: `orion-recall memory updateq --where session_id=s-17 --where tags=harbour --set speaker=Ana`
    """
    fields: dict[str, Any] = {"where": conditions_of(where), "set": fields_of(sets)}
    if not fields["set"]:
        raise SettingsError("there is nothing to change: give --set FIELD=VALUE")
    fields |= given(tenant=tenant, actor=actor)
    return _change_matching(data, "update", fields, timeout, yes=yes, as_json=as_json)


def delete_matching(
    where: Where = None,
    yes: Yes = False,
    reason: Reason = None,
    erase: Erase = False,
    tenant: Tenant = None,
    actor: Actor = None,
    timeout: Timeout = 60.0,
    data: DataFolder = None,
    as_json: JsonFlag = False,
) -> int:
    """Delete every memory that meets all conditions.

    The ids that match are shown first, and you are asked. If another number of memories matches by then, nothing is
    deleted. `text` holds words that must all occur; of a list one value is enough.

    Example: `orion-recall memory deleteq --where "text=gearbox crane" --where until=P30D`
    """
    fields: dict[str, Any] = {"where": conditions_of(where), "erase": erase}
    fields |= given(tenant=tenant, actor=actor, reason=reason)
    return _change_matching(data, "delete", fields, timeout, yes=yes, as_json=as_json)


def _change_matching(
    data: Path | None, what: str, fields: dict[str, Any], timeout_s: float, *, yes: bool, as_json: bool
) -> int:
    """A dry run, the question, and the change: of as many memories as matched before, or of none."""
    settings = find(data)

    async def change(client: RecallClient, expected_count: int | None) -> MemoryReceiptV1:
        call: _Change = client.update if what == "update" else client.delete
        return await call(timeout_s=timeout_s, expected_count=expected_count, **fields)

    found = send(settings, lambda client: change(client, None))
    if found.error is not None:
        return say(found, as_json=as_json)
    if not confirmed(found, what, yes=yes, as_json=as_json):
        if as_json:
            print_json({"matched": 0})
        note(f"no memory was {what}d")
        return 1
    return say(send(settings, lambda client: change(client, found.matched)), as_json=as_json)


def confirmed(receipt: MemoryReceiptV1, what: str, *, yes: bool, as_json: bool) -> bool:
    """Whether the memories that a dry run matched are to be changed: `--yes`, or the answer at a terminal."""
    count = receipt.matched or 0
    for one in receipt.results[:_SHOWN]:
        prose(visible(one.id), to=notes())
    if count > _SHOWN:
        note(f"… {count} in all")
    if yes or not count:
        return bool(count)
    memories = counted(count, "memory")
    if as_json:
        raise SettingsError(f"{what} {memories}? With --json nobody is asked: give --yes")
    try:
        return typer.confirm(f"{what} {memories}?", err=True)
    except typer.Abort:
        if sys.stdin.isatty():
            raise
        raise SettingsError(f"{what} {memories}? Standard input is no terminal to ask at: give --yes") from None
