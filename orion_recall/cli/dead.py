"""`orion-recall dead`: messages that could not be served."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
from rich.text import Text

from orion_recall.bus.dead_letters import DeadLetter, DeadLetters
from orion_recall.cli.addresses import DataFolder, find, open_bus
from orion_recall.cli.output import JsonFlag, console, notes, print_error, print_json, table, visible
from orion_recall.errors import SettingsError

T = TypeVar("T")
Stores = Annotated[bool, typer.Option("--stores", help="Store messages: short for --of stores.")]
Of = Annotated[
    str | None,
    typer.Option("--of", metavar="WHAT", help="queries (default), stores, updates, deletes or feedback."),
]
_ALL = 100_000

app = typer.Typer(
    add_completion=False,
    rich_markup_mode="markdown",
    help="""Look at messages that could not be served, and put them back.

    A message comes here when it is malformed, or when it was handed out several times without an answer. Its
    sender has been answered already; put back, it is served (and answered) once more.

    Example: `orion-recall dead list`, then `orion-recall dead requeue 1795302643570-0`
    """,
)


@app.command("list")
def list_letters(
    stores: Stores = False,
    of: Of = None,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="How many.")] = 20,
    data: DataFolder = None,
    as_json: JsonFlag = False,
) -> None:
    """The newest ones, each with its reason.

    Example: `orion-recall dead list --stores`
    """
    letters = _with_letters(data, stores, of, lambda dead: dead.latest(limit))
    if as_json:
        print_json({"letters": [_as_json(letter) for letter in letters]})
    elif letters:
        rows = [(_moment(letter.id), letter.id, letter.correlation_id, letter.reason[:160]) for letter in letters]
        console().print(table(("at (UTC)", "id", "correlation id", "reason"), rows))
    else:
        notes().print("there is none")


@app.command("show")
def show_letter(
    letter_id: Annotated[str, typer.Argument(metavar="ID", help="Its id, or that of the entry it was.")],
    stores: Stores = False,
    of: Of = None,
    data: DataFolder = None,
    as_json: JsonFlag = False,
) -> int:
    """One message as it came, with the reason.

    Example: `orion-recall dead show 1795302643570-0`
    """
    letter = _with_letters(data, stores, of, lambda dead: dead.get(letter_id))
    if letter is None:
        print_error("NotFound", f"there is no dead letter {letter_id!r}", as_json=as_json)
        return 1
    if as_json:
        print_json(_as_json(letter))
        return 0
    out = console()
    for name, value in _as_json(letter).items():
        if name != "fields":
            out.print(Text(f"{name:15} {visible(value)}"), soft_wrap=True)
    for name, value in letter.fields.items():
        out.print(Text(f"\n{visible(name)}:\n{visible(value)}"), soft_wrap=True)
    return 0


@app.command("requeue")
def requeue_letters(
    letter_id: Annotated[str | None, typer.Argument(metavar="ID", help="Which one.")] = None,
    every: Annotated[bool, typer.Option("--all", help="All of them, oldest first.")] = False,
    stores: Stores = False,
    of: Of = None,
    data: DataFolder = None,
    as_json: JsonFlag = False,
) -> int:
    """Put messages back at the end of their stream, to be served again.

    Example: `orion-recall dead requeue --all`
    """
    if (letter_id is None) != every:
        raise typer.BadParameter("give either an ID or --all")

    async def requeue(dead: DeadLetters) -> list[dict[str, str]]:
        letters = (await dead.latest(_ALL))[::-1] if letter_id is None else [await dead.get(letter_id)]
        found = [one for one in letters if one is not None]
        if letter_id is None:  # one by its id says why it cannot be put back
            withheld = [one for one in found if one.withheld]
            if withheld:
                notes().print(f"{len(withheld)} stay: their messages were not kept (ORION_QUERY_TEXT)")
            found = [one for one in found if not one.withheld]
        return [{"id": one.id, "entry_id": await dead.requeue(one)} for one in found]

    moved = _with_letters(data, stores, of, requeue)
    if not moved and letter_id is not None:
        print_error("NotFound", f"there is no dead letter {letter_id!r}", as_json=as_json)
        return 1
    if as_json:
        print_json({"requeued": moved})
    else:
        notes().print(f"{len(moved)} put back")
    return 0


def _with_letters(
    data: Path | None, stores: bool, of: str | None, work: Callable[[DeadLetters], Awaitable[T]]
) -> T:
    settings = find(data)
    what = of or ("stores" if stores else "queries")
    streams = settings.intake_streams
    if what not in streams:
        raise SettingsError(f"--of: {what!r} is none of {', '.join(streams)}")
    stream, dead_stream = streams[what], f"{streams[what]}:dead"

    async def run() -> T:
        async with open_bus(settings) as redis:
            return await work(DeadLetters(redis, stream=stream, dead_stream=dead_stream))

    return asyncio.run(run())


def _as_json(letter: DeadLetter) -> dict[str, Any]:
    return {
        "id": letter.id,
        "at": _moment(letter.id),
        "entry_id": letter.entry_id,
        "correlation_id": letter.correlation_id,
        "reason": letter.reason,
        "withheld": letter.withheld,
        "fields": letter.fields,
    }


def _moment(entry_id: str) -> datetime:
    return datetime.fromtimestamp(int(entry_id.partition("-")[0]) / 1000, UTC)
