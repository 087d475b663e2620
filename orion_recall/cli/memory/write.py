"""`orion-recall memory remember`, `store`, `update(q)` and `delete(q)`: memories written over the bus."""

from __future__ import annotations

import hashlib
import json
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import BaseModel

from orion_recall.cli.addresses import DataFolder, Tenant, Timeout, Wait, find, open_client, within
from orion_recall.cli.memory.record import MemoryId
from orion_recall.cli.options import kind_of, moment, with_fields
from orion_recall.cli.output import Remark, counted, note, print_error, show, wants_json
from orion_recall.client import RecallClient
from orion_recall.contracts import MemoryDeleteV1, MemoryReceiptV1, MemoryUpdateV1, MemoryV1, MemoryWhereV1
from orion_recall.errors import SettingsError

Sets = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="FIELD=VALUE", help="A field and its value, plain text or JSON; nothing after = clears it."
    ),
]
Where = Annotated[
    list[str] | None,
    typer.Option("--where", metavar="FIELD=VALUE", help=f"A condition: {', '.join(MemoryWhereV1.model_fields)}."),
]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask.")]

_SHOWN = 20
_SAID_BY = {"id": "the ID itself", "tenant": "--tenant"}
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
    wait: Wait = None,
    timeout: Timeout = 60.0,
    data: DataFolder = None,
) -> int:
    """Remember a sentence, and print its id.

    The id is a hash of everything given but the time: the same sentence of the same speaker is stored once.

    Example: `orion-recall memory remember "The crane is repaired." --speaker Ana --session s-17 --tag harbour`
    """
    memory: dict[str, Any] = {"text": text, **fields}
    memory["id"] = id_of(memory)
    if not undated:
        memory["mentioned_at"] = datetime.now(UTC).isoformat(timespec="seconds")
    receipt = within(open_client(find(data)), lambda client: client.store([memory], wait_s=wait, timeout_s=timeout))
    # The same sentence with the time of another moment: what is known stays as it was.
    is_other = receipt.conflict and "was deleted" not in (receipt.results[0].reason or "")
    known = is_other or receipt.unchanged
    if not known and (receipt.error is not None or not receipt.stored):
        return say(receipt)
    if known:
        note("it was remembered before")
    if receipt.pending:
        note(_not_yet(receipt))
    show({"id": memory["id"]} | receipt.model_dump(mode="json", exclude_unset=True), memory["id"])
    return 0


def id_of(memory: dict[str, Any]) -> str:
    """`m-` and sixteen hexadecimal digits, of what the memory says."""
    canonical = json.dumps(memory, sort_keys=True).encode("utf-8", "surrogatepass")
    return f"m-{hashlib.blake2b(canonical, digest_size=8).hexdigest()}"


def store_memory(
    memory_id: Annotated[str, typer.Argument(metavar="ID", help="Unique in its tenant.")],
    text: Annotated[str, typer.Option(help="What the memory says.")],
    sets: Sets = None,
    tenant: Tenant = None,
    wait: Wait = None,
    timeout: Timeout = 60.0,
    data: DataFolder = None,
) -> int:
    """Store one memory.

    The same id with the same content changes nothing; with other content it is a conflict (see `memory update`).
    `orion-recall import -` stores memories as JSON from standard input.

    Example: `orion-recall memory store m-1 --text "The crane is repaired." --set speaker=Ana --set tags=harbour`
    """
    given = {"id": memory_id, "text": text, "tenant": tenant, **fields_of(sets)}
    memory = {name: value for name, value in given.items() if value is not None}
    return say(
        within(open_client(find(data)), lambda client: client.store([memory], wait_s=wait, timeout_s=timeout))
    )


@_of_change
def update_memory(
    memory_id: MemoryId,
    text: Annotated[str | None, typer.Option(help="What it says from now on.")] = None,
    sets: Sets = None,
    version: Annotated[int | None, typer.Option("--if-version", help="Only if it is at this version.")] = None,
    message: Any = None,
    wait: Wait = None,
    timeout: Timeout = 60.0,
    data: DataFolder = None,
) -> int:
    """Change a memory; what it said before stays in its history, and is not recalled any more.

    A field that is set to nothing is cleared: `--set title=`.

    Example: `orion-recall memory update m-1 --text "The crane runs again." --set tags=harbour,repair`
    """
    patch: dict[str, Any] = fields_of(sets) | ({} if text is None else {"text": text})
    if not patch:
        raise SettingsError("there is nothing to change: give --text or --set FIELD=VALUE")
    patch |= {"id": memory_id} | ({} if version is None else {"expected_version": version})
    opening = open_client(find(data))
    return say(within(opening, lambda client: client.update([patch], wait_s=wait, timeout_s=timeout, **message)))


@_of_delete
def delete_memories(
    ids: Annotated[list[str], typer.Argument(metavar="ID...", help="Ids of memories.")],
    message: Any,
    wait: Wait = None,
    timeout: Timeout = 60.0,
    data: DataFolder = None,
) -> int:
    """Delete memories. Recalls no longer find them, and their ids stay taken.

    The record keeps their text and history, unless `--erase` is given. Exit code 1 when there is no memory of one
    of the ids.

    Example: `orion-recall memory delete m-1 m-2 --reason "said by mistake"`
    """
    return say(
        within(
            open_client(find(data)), lambda client: client.delete(ids, wait_s=wait, timeout_s=timeout, **message)
        )
    )


@_of_change
def update_matching(
    where: Where = None,
    sets: Sets = None,
    yes: Yes = False,
    message: Any = None,
    wait: Wait = None,
    timeout: Timeout = 60.0,
    data: DataFolder = None,
) -> int:
    """Change every memory that meets all conditions.

    The ids that match are shown first, and you are asked. If another number of memories matches by then, nothing is
    changed. `text` holds words that must all occur; of a list one value is enough.

    Example: `orion-recall memory updateq --where session_id=s-17 --where tags=harbour --set speaker=Ana`
    """
    fields: dict[str, Any] = {"where": conditions_of(where), "set": fields_of(sets), **message}
    if not fields["set"]:
        raise SettingsError("there is nothing to change: give --set FIELD=VALUE")
    return _change_matching("update", {**fields, "wait_s": wait}, timeout, data, yes=yes)


@_of_delete
def delete_matching(
    where: Where = None,
    yes: Yes = False,
    message: Any = None,
    wait: Wait = None,
    timeout: Timeout = 60.0,
    data: DataFolder = None,
) -> int:
    """Delete every memory that meets all conditions.

    The ids that match are shown first, and you are asked. If another number of memories matches by then, nothing is
    deleted. `text` holds words that must all occur; of a list one value is enough.

    Example: `orion-recall memory deleteq --where "text=gearbox crane" --where until=P30D`
    """
    fields: dict[str, Any] = {"where": conditions_of(where), **message}
    return _change_matching("delete", {**fields, "wait_s": wait}, timeout, data, yes=yes)


def _change_matching(what: str, fields: dict[str, Any], timeout_s: float, data: Path | None, *, yes: bool) -> int:
    settings = find(data)

    async def change(client: RecallClient, expected_count: int | None) -> MemoryReceiptV1:
        call: Callable[..., Awaitable[MemoryReceiptV1]] = client.update if what == "update" else client.delete
        return await call(timeout_s=timeout_s, expected_count=expected_count, **fields)

    found = within(open_client(settings), lambda client: change(client, None))
    if found.error is not None:
        return say(found)
    count, ids = found.matched or 0, [one.id or "" for one in found.results]
    if count and (yes or confirmed(f"{what} {counted(count, 'memory')}?", ids, count)):
        return say(within(open_client(settings), lambda client: change(client, count)))
    show({"matched": 0})
    note(f"no memory was {what}d")
    return 1


def _not_yet(receipt: MemoryReceiptV1) -> str:
    told = "recalls may not find it yet: "
    if not (kinds := receipt.pending_in):
        return told + "whether index and graph have it cannot be seen"
    do = "do" if len(kinds) > 1 else "does"
    return f"{told}{' and '.join(kinds)} of some worker {do} not have it (see `orion-recall status`)"


def say(receipt: MemoryReceiptV1) -> int:
    """Prints the receipt. The exit code is 1 where something was not done."""
    counts = Counter(one.status for one in receipt.results)
    line = ", ".join(f"{count} {status}" for status, count in counts.items()) or "nothing to do"
    if receipt.pending:
        line += f"; {_not_yet(receipt)}"
    reasons = [f"{one.id}: {one.status}: {one.reason}" for one in receipt.results if one.reason is not None]
    show(
        receipt.model_dump(mode="json", exclude_unset=True),
        *([] if receipt.error else [line, *map(Remark, reasons)]),
    )
    if receipt.error is not None:
        print_error(f"{receipt.error.type}: {receipt.error.message}")
    return 1 if receipt.error or receipt.conflict or receipt.rejected or receipt.missing else 0


def confirmed(question: str, ids: Sequence[str], count: int) -> bool:
    """The answer at a terminal, with the first ids that it is about; SettingsError where nobody can be asked."""
    if wants_json():
        raise SettingsError(f"{question} With --json nobody is asked: give --yes")
    for one in ids[:_SHOWN]:
        note(one)
    if count > len(ids[:_SHOWN]):
        note(f"… {counted(count, 'memory')} in all")
    try:
        return typer.confirm(question, err=True)
    except typer.Abort:
        if sys.stdin.isatty():
            raise
        raise SettingsError(f"{question} Standard input is no terminal to ask at: give --yes") from None


def fields_of(pairs: Sequence[str] | None) -> dict[str, Any]:
    """`--set` as fields of a memory; SettingsError for an unknown field, and for one that has its own option."""
    found = _values("--set", pairs, MemoryV1, "a memory has no field")
    for name in _SAID_BY.keys() & found.keys():
        raise SettingsError(f"--set: {name} is no field to set: give {_SAID_BY[name]}")
    return found


def conditions_of(pairs: Sequence[str] | None) -> dict[str, Any]:
    """`--where` as conditions; SettingsError for an unknown one, and for none."""
    found = _values("--where", pairs, MemoryWhereV1, "there is no condition")
    if not found:
        raise SettingsError("--where: give at least one condition, such as --where session_id=s-17")
    return found


def _values(option: str, pairs: Sequence[str] | None, model: type[BaseModel], unknown: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for pair in pairs or ():
        name, sign, text = pair.partition("=")
        name = name.strip()
        if not sign or not name:
            raise SettingsError(f"{option}: write FIELD=VALUE (got {name!r})")
        if name in found:
            raise SettingsError(f"{option}: {name!r} is given twice; a list is written with commas")
        if name not in model.model_fields:
            raise SettingsError(f"{option}: {unknown} {name!r}; there are {', '.join(model.model_fields)}")
        found[name] = _value(f"{option} {name}", kind_of(model.model_fields[name])[0], text)
    return found


def _value(option: str, kind: type, text: str) -> Any:
    if not text:
        return None
    if kind is list:
        return [part.strip() for part in text.split(",") if part.strip()]
    if kind is datetime:
        at = moment(option, text, end=option.endswith(" until"))
        return None if at is None else at.isoformat()
    if kind in (dict, float):
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            raise SettingsError(f"{option}: {text[:80]!r} is not JSON, or nests too deep") from None
    return text
