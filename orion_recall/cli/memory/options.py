"""For the memory commands: shared options, sending a message, and printing its receipt."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Annotated, Any, TypeVar

import typer
from pydantic import BaseModel

from orion_recall.cli.connect.addresses import bus_of
from orion_recall.cli.moments import moment
from orion_recall.cli.output import console, notes, print_error, print_json, prose, visible
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
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask.")]
Where = Annotated[
    list[str] | None,
    typer.Option(
        "--where",
        metavar="FIELD=VALUE",
        help="text, session_id, user_id, agent_id, run_id, speaker, kinds, tags, entities, source, since, until.",
    ),
]

_LISTS = frozenset(("kinds", "tags", "entities", "supersedes"))
_TIMES = frozenset(("since", "until"))
_SAID_BY = {"id": "the ID itself", "tenant": "--tenant"}


def send(settings: Settings, work: Callable[[RecallClient], Awaitable[R]]) -> R:
    """Sends one message by `work`; what the worker answered."""

    async def run() -> R:
        url = bus_of(settings)
        async with RecallClient.connect(
            url,
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
    found: dict[str, Any] = {}
    for name, value in _pairs("--set", pairs):
        if name not in MemoryV1.model_fields:
            raise SettingsError(
                f"--set: a memory has no field {name!r}; there are {', '.join(MemoryV1.model_fields)}"
            )
        if name in ("id", "tenant"):
            raise SettingsError(f"--set: {name} is no field to set: give {_SAID_BY[name]}")
        found[name] = _value(name, value)
    return found


def conditions_of(pairs: Sequence[str] | None) -> dict[str, Any]:
    """`--where` as conditions; SettingsError for an unknown one."""
    found: dict[str, Any] = {}
    for name, value in _pairs("--where", pairs):
        if name not in MemoryWhereV1.model_fields:
            raise SettingsError(
                f"--where: there is no condition {name!r}; there are {', '.join(MemoryWhereV1.model_fields)}"
            )
        if name in _TIMES:
            at = moment(f"--where {name}", value, end=name == "until")
            assert at is not None  # a time, or an error
            found[name] = at.isoformat()
        else:
            found[name] = _listed(value) if name in _LISTS else value
    if not found:
        raise SettingsError("--where: give at least one condition, such as --where session_id=s-17")
    return found


def say(receipt: MemoryReceiptV1, *, as_json: bool) -> int:
    """Prints the receipt. The exit code is 1 where something was not done."""
    if as_json:
        print_json(receipt.model_dump(mode="json", exclude_unset=True))
    if receipt.error is not None:
        print_error(receipt.error.type, f"{receipt.error.type}: {receipt.error.message}", as_json=False)
        return 1
    if not as_json:
        counts = Counter(one.status for one in receipt.results)
        line = ", ".join(f"{count} {status}" for status, count in counts.items()) or "nothing to do"
        if receipt.pending:
            line += "; some copies of index and graph do not have it yet, and workers leave it out until then"
        console().print(line)
        for one in receipt.results:
            if one.reason is not None:
                prose(visible(f"{one.id}: {one.status}: {one.reason}"), to=notes())
    return 1 if receipt.conflict or receipt.rejected or receipt.missing else 0


def _pairs(option: str, pairs: Sequence[str] | None) -> list[tuple[str, str]]:
    split = [pair.partition("=") for pair in pairs or ()]
    for name, sign, _ in split:
        if not sign or not name.strip():
            raise SettingsError(f"{option}: write FIELD=VALUE (got {name!r})")
    names = Counter(name.strip() for name, _, _ in split)
    if twice := [name for name, count in names.items() if count > 1]:
        raise SettingsError(f"{option}: {twice[0]!r} is given twice; a list is written with commas")
    return [(name.strip(), value) for name, _, value in split]


def _value(name: str, text: str) -> Any:
    """A list for a field that holds one, an object for metadata, None for nothing, else the text."""
    if not text:
        return None
    if name in _LISTS:
        return _listed(text)
    if name in ("metadata", "confidence"):
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            raise SettingsError(f"--set {name}: {text[:80]!r} is not JSON, or nests too deep") from None
    return text


def _listed(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def drop_none(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields without those that are cleared: a new memory has nothing to clear."""
    return {name: value for name, value in fields.items() if value is not None}
