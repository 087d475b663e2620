"""For the memory commands: shared options, sending a message, asking before a change, and printing a receipt."""

from __future__ import annotations

import asyncio
import json
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import Annotated, Any, TypeVar

import typer
from pydantic import BaseModel

from orion_recall.cli.connect.addresses import bus_of
from orion_recall.cli.fields import kind_of
from orion_recall.cli.moments import moment
from orion_recall.cli.output import counted, note, print_error, show
from orion_recall.client import RecallClient
from orion_recall.contracts import MemoryReceiptV1, MemoryV1, MemoryWhereV1
from orion_recall.errors import SettingsError
from orion_recall.settings import Settings

R = TypeVar("R", bound=BaseModel)

Tenant = Annotated[str | None, typer.Option(help="The tenant (default: ORION_DEFAULT_TENANT).")]
Actor = Annotated[str | None, typer.Option(help="Name of who does this, for the history.")]
Timeout = Annotated[float, typer.Option(min=0.01, help="Seconds to wait for the receipt.")]
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


def send(settings: Settings, work: Callable[[RecallClient], Awaitable[R]]) -> R:
    """Sends one message by `work`; what the worker answered."""

    async def run() -> R:
        async with RecallClient.connect(
            bus_of(settings),
            prefix=settings.prefix,
            service="orion-recall-cli",
            max_message_bytes=settings.max_message_bytes,
            max_query_bytes=settings.max_query_bytes,
        ) as client:
            return await work(client)

    return asyncio.run(run())


def given(**fields: Any) -> dict[str, Any]:
    """The fields that were given."""
    return {name: value for name, value in fields.items() if value is not None}


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


def say(receipt: MemoryReceiptV1, *, as_json: bool) -> int:
    """Prints the receipt. The exit code is 1 where something was not done."""
    counts = Counter(one.status for one in receipt.results)
    line = ", ".join(f"{count} {status}" for status, count in counts.items()) or "nothing to do"
    if receipt.pending:
        line += "; some copies of index and graph do not have it yet, and workers leave it out until then"
    reasons = [f"{one.id}: {one.status}: {one.reason}" for one in receipt.results if one.reason is not None]
    value = receipt.model_dump(mode="json", exclude_unset=True)
    if receipt.error is None:
        show(value, line, as_json=as_json, remarks=reasons)
    else:
        show(value, as_json=as_json)
        print_error(receipt.error.type, f"{receipt.error.type}: {receipt.error.message}", as_json=False)
        return 1
    return 1 if receipt.conflict or receipt.rejected or receipt.missing else 0


def confirmed(question: str, ids: Sequence[str], count: int, *, as_json: bool) -> bool:
    """The answer at a terminal, with the first ids that it is about; SettingsError where nobody can be asked."""
    if as_json:
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


def _values(option: str, pairs: Sequence[str] | None, model: type[BaseModel], unknown: str) -> dict[str, Any]:
    """FIELD=VALUE as fields of the model: lists by commas, objects and numbers as JSON, None for nothing."""
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
