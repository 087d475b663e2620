"""`orion-recall memory remember`, `store`, `update(q)` and `delete(q)`: memories written over the bus."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, cast

import typer

from orion_recall.cli.connect.addresses import DataFolder, find
from orion_recall.cli.connect.ids import PREFIX_HELP
from orion_recall.cli.fields import with_fields
from orion_recall.cli.memory.ids import MemoryId, full_live_ids
from orion_recall.cli.memory.options import (
    Sets,
    Tenant,
    Timeout,
    Where,
    Yes,
    conditions_of,
    confirmed,
    fields_of,
    given,
    say,
    send,
)
from orion_recall.cli.output import JsonFlag, counted, note, print_json, show
from orion_recall.client import RecallClient
from orion_recall.contracts import MemoryDeleteV1, MemoryReceiptV1, MemoryUpdateV1, MemoryV1
from orion_recall.errors import InvalidMessage, SettingsError
from orion_recall.memory.transfer.import_file import read_json

_Change = Callable[..., Awaitable[MemoryReceiptV1]]
_of_change = with_fields("message", MemoryUpdateV1, "tenant", "actor")
_of_delete = with_fields("message", MemoryDeleteV1, "reason", "erase", "tenant", "actor")


@with_fields(
    "fields", MemoryV1, "speaker", "kind", "tenant",
    session_id="--session", user_id="--user", agent_id="--agent", run_id="--run", tags="--tag",
)  # fmt: skip
def remember(
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The sentence.")],
    fields: Any,
    undated: Annotated[bool, typer.Option("--undated", help="Store it without a date, not as said now.")] = False,
    timeout: Timeout = 60.0,
    data: DataFolder = None,
    as_json: JsonFlag = False,
) -> int:
    """Remember a sentence, and print its id.

    The id is a hash of everything given but the time: the same sentence of the same speaker is stored once.

    Example: `orion-recall memory remember "The crane is repaired." --speaker Ana --session s-17 --tag harbour`
    """
    memory: dict[str, Any] = {"text": text, **fields}
    memory["id"] = id_of(memory)
    if not undated:
        memory["mentioned_at"] = datetime.now(UTC).isoformat(timespec="seconds")
    receipt = send(find(data), lambda client: client.store([memory], timeout_s=timeout))
    # The same sentence with the time of another moment: what is known stays as it was.
    is_other = receipt.conflict and "was deleted" not in (receipt.results[0].reason or "")
    known = is_other or receipt.unchanged
    if not known and (receipt.error is not None or not receipt.stored):
        return say(receipt, as_json=as_json)
    if known:
        note("it was remembered before")
    value = {"id": memory["id"]} | receipt.model_dump(mode="json", exclude_unset=True)
    show(value, memory["id"], as_json=as_json)
    return 0


def id_of(memory: dict[str, Any]) -> str:
    """`m-` and sixteen hexadecimal digits, of what the memory says."""
    canonical = json.dumps(memory, sort_keys=True).encode("utf-8", "surrogatepass")
    return f"m-{hashlib.blake2b(canonical, digest_size=8).hexdigest()}"


def store_memory(
    memory_id: Annotated[str | None, typer.Argument(metavar="[ID]", help="Unique in its tenant.")] = None,
    text: Annotated[str | None, typer.Option(help="What the memory says.")] = None,
    sets: Sets = None,
    tenant: Tenant = None,
    timeout: Timeout = 60.0,
    data: DataFolder = None,
    as_json: JsonFlag = False,
) -> int:
    """Store one memory.

    The same id with the same content changes nothing; with other content it is a conflict (see `memory update`).
    Without an ID, standard input holds the memory as one JSON object, with the fields of memory.store.v1.

    Example: `orion-recall memory store m-1 --text "The crane is repaired." --set speaker=Ana --set tags=harbour`
    """
    if memory_id is None:
        memory = _from_input()
    elif text is None:
        raise SettingsError("--text is missing: give what the memory says")
    else:
        memory = {"id": memory_id, "text": text}
    memory |= {name: value for name, value in fields_of(sets).items() if value is not None} | given(tenant=tenant)
    receipt = send(find(data), lambda client: client.store([memory], timeout_s=timeout))
    return say(receipt, as_json=as_json)


def _from_input() -> dict[str, Any]:
    """SettingsError when standard input is no JSON object."""
    if sys.stdin.isatty():
        raise SettingsError("give an ID and --text, or a memory as JSON on standard input")
    try:
        found = read_json(sys.stdin.buffer.read().decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise SettingsError(f"standard input is not UTF-8 at byte {error.start}") from None
    except InvalidMessage as error:
        raise SettingsError(f"standard input: {error}") from None
    if not isinstance(found, dict):
        raise SettingsError('standard input: expected one JSON object, such as {"id": "m-1", "text": "…"}')
    return cast("dict[str, Any]", found)


@_of_change
def update_memory(
    memory_id: MemoryId,
    text: Annotated[str | None, typer.Option(help="What it says from now on.")] = None,
    sets: Sets = None,
    version: Annotated[
        int | None, typer.Option("--if-version", help="Only if it is at this version (see `memory history`).")
    ] = None,
    message: Any = None,
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
    (name,) = full_live_ids(settings, message.get("tenant"), [memory_id], as_json=as_json)
    patch |= {"id": name} | given(expected_version=version)
    return say(send(settings, lambda client: client.update([patch], timeout_s=timeout, **message)), as_json=as_json)


@_of_delete
def delete_memories(
    ids: Annotated[list[str], typer.Argument(metavar="ID...", help=f"Ids of memories; each whole, {PREFIX_HELP}.")],
    message: Any,
    timeout: Timeout = 60.0,
    data: DataFolder = None,
    as_json: JsonFlag = False,
) -> int:
    """Delete memories. Recalls no longer find them, and their ids stay taken.

    The record keeps their text and history, unless `--erase` is given. An id given by its first characters is
    printed in full; with --json ids must be whole. Exit code 1 when there is no memory of one of the ids.

    Example: `orion-recall memory delete m-1 m-2 --reason "said by mistake"`
    """
    settings = find(data)
    full = full_live_ids(settings, message.get("tenant"), ids, as_json=as_json)
    return say(send(settings, lambda client: client.delete(full, timeout_s=timeout, **message)), as_json=as_json)


@_of_change
def update_matching(
    where: Where = None,
    sets: Sets = None,
    yes: Yes = False,
    message: Any = None,
    timeout: Timeout = 60.0,
    data: DataFolder = None,
    as_json: JsonFlag = False,
) -> int:
    """Change every memory that meets all conditions.

    The ids that match are shown first, and you are asked. If another number of memories matches by then, nothing is
    changed. `text` holds words that must all occur; of a list one value is enough.

    Example: `orion-recall memory updateq --where session_id=s-17 --where tags=harbour --set speaker=Ana`
    """
    fields: dict[str, Any] = {"where": conditions_of(where), "set": fields_of(sets), **message}
    if not fields["set"]:
        raise SettingsError("there is nothing to change: give --set FIELD=VALUE")
    return _change_matching(data, "update", fields, timeout, yes=yes, as_json=as_json)


@_of_delete
def delete_matching(
    where: Where = None,
    yes: Yes = False,
    message: Any = None,
    timeout: Timeout = 60.0,
    data: DataFolder = None,
    as_json: JsonFlag = False,
) -> int:
    """Delete every memory that meets all conditions.

    The ids that match are shown first, and you are asked. If another number of memories matches by then, nothing is
    deleted. `text` holds words that must all occur; of a list one value is enough.

    Example: `orion-recall memory deleteq --where "text=gearbox crane" --where until=P30D`
    """
    fields: dict[str, Any] = {"where": conditions_of(where), **message}
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
    count = found.matched or 0
    question = f"{what} {counted(count, 'memory')}?"
    ids = [one.id or "" for one in found.results]
    if not count or not (yes or confirmed(question, ids, count, as_json=as_json)):
        if as_json:
            print_json({"matched": 0})
        note(f"no memory was {what}d")
        return 1
    return say(send(settings, lambda client: change(client, found.matched)), as_json=as_json)
