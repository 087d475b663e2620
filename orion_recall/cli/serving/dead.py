"""`orion-recall dead`: list, show and requeue dead letters, messages that could not be served."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Annotated, Any, TypeVar

import typer
from pydantic import BaseModel
from rich.text import Text

from orion_recall.bus.dead_letters import DeadLetter, DeadLetters
from orion_recall.bus.signing.keys import read_key
from orion_recall.cli.connect.addresses import DataFolder, find, open_bus
from orion_recall.cli.connect.ids import PREFIX_HELP, full_id
from orion_recall.cli.output import (
    JsonFlag,
    console,
    counted,
    note,
    notes,
    print_error,
    print_json,
    prose,
    table,
    visible,
)
from orion_recall.contracts import (
    DELETE_KIND,
    FEEDBACK_KIND,
    QUERY_KIND,
    STORE_KIND,
    UPDATE_KIND,
    MemoryDeleteV1,
    MemoryStoreV1,
    MemoryUpdateV1,
    RecallFeedbackV1,
    RecallQueryV1,
)
from orion_recall.errors import SettingsError
from orion_recall.settings import Settings

T = TypeVar("T")
Stores = Annotated[bool, typer.Option("--stores", help="Store messages: short for --of stores.")]
Of = Annotated[
    str | None,
    typer.Option("--of", metavar="WHAT", help="queries (default), stores, updates, deletes or feedback."),
]
_ALL = 100_000
_READ_AS: dict[str, tuple[str, type[BaseModel]]] = {
    "queries": (QUERY_KIND, RecallQueryV1),
    "stores": (STORE_KIND, MemoryStoreV1),
    "updates": (UPDATE_KIND, MemoryUpdateV1),
    "deletes": (DELETE_KIND, MemoryDeleteV1),
    "feedback": (FEEDBACK_KIND, RecallFeedbackV1),
}

app = typer.Typer(
    add_completion=False,
    rich_markup_mode="markdown",
    help="""Look at messages that could not be served, and put them back.

    A message becomes a dead letter when it is malformed, or when it was delivered several times without an answer.
    Its sender got an error reply; a message that is put back is served, and answered, once more.

    Example: `orion-recall dead list`, then `orion-recall dead requeue 1795302643570-0`
    """,
)


@app.command("list")
def list_letters(
    stores: Stores = False,
    of: Of = None,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="Dead letters at most.")] = 20,
    data: DataFolder = None,
    as_json: JsonFlag = False,
) -> None:
    """List the newest dead letters, each with its reason.

    Example: `orion-recall dead list --stores`
    """
    letters = _with_letters(find(data), _chosen(stores, of), lambda dead: dead.latest(limit))
    if as_json:
        print_json({"letters": [_as_json(letter) for letter in letters]})
    elif letters:
        rows = [(_moment(letter.id), letter.id, letter.correlation_id, letter.reason[:160]) for letter in letters]
        console().print(table(("at (UTC)", "id", "correlation id", "reason"), rows))
    else:
        note("there are no dead letters")


@app.command("show")
def show_letter(
    letter_id: Annotated[
        str, typer.Argument(metavar="ID", help=f"Its id, or that of the entry it was, {PREFIX_HELP}.")
    ],
    stores: Stores = False,
    of: Of = None,
    data: DataFolder = None,
    as_json: JsonFlag = False,
) -> int:
    """Show one dead letter: the message as it arrived, and the reason.

    Example: `orion-recall dead show 1795302643570-0`
    """
    letter = _with_letters(find(data), _chosen(stores, of), lambda dead: _get(dead, letter_id))
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
    letter_id: Annotated[str | None, typer.Argument(metavar="ID", help=f"Its id, {PREFIX_HELP}.")] = None,
    every: Annotated[bool, typer.Option("--all", help="All of them, oldest first.")] = False,
    stores: Stores = False,
    of: Of = None,
    data: DataFolder = None,
    as_json: JsonFlag = False,
) -> int:
    """Put messages back at the end of their stream, to be served again.

    A message that cannot be read is put back as well, with a warning: another version may read it. Where ORION_KEY
    is set, messages are signed with it.

    Example: `orion-recall dead requeue --all`
    """
    if (letter_id is None) != every:
        raise typer.BadParameter("give either an ID or --all")

    settings = find(data)
    what = _chosen(stores, of)
    kind, payload = _READ_AS[what]
    key = read_key(settings.key) if settings.key is not None else None

    async def requeue(dead: DeadLetters) -> list[dict[str, str | None]]:
        letters = (await dead.latest(_ALL))[::-1] if letter_id is None else [await _get(dead, letter_id)]
        found = [one for one in letters if one is not None]
        if letter_id is None:  # one by its id says why it cannot be put back
            withheld = [one for one in found if one.withheld]
            cut = [one for one in found if not one.is_whole and not one.withheld]
            if withheld:
                note(
                    f"{counted(len(withheld), 'dead letter')} not put back: no message was kept (ORION_QUERY_TEXT)"
                )
            if cut:
                note(f"{counted(len(cut), 'dead letter')} not put back: the message was too large to be kept")
            found = [one for one in found if one.is_whole]
        put_back: list[dict[str, str | None]] = []
        for one in found:
            entry_id = await dead.requeue(one, key=key)
            if entry_id is None:  # somebody else was faster
                continue
            problem = dead.problem(one, kind=kind, payload=payload, max_bytes=settings.max_bytes_of(kind))
            if problem is not None:
                why = f"{one.id} cannot be read, and will most likely be a dead letter again: {problem}"
                prose(visible(why), to=notes())
            put_back.append({"id": one.id, "entry_id": entry_id, "problem": problem})
        return put_back

    moved = _with_letters(settings, what, requeue)
    if not moved and letter_id is not None:
        print_error("NotFound", f"there is no dead letter {letter_id!r}", as_json=as_json)
        return 1
    if as_json:
        print_json({"requeued": moved})
    else:
        note(f"{counted(len(moved), 'message')} put back")
    return 0


def _chosen(stores: bool, of: str | None) -> str:
    what = of or ("stores" if stores else "queries")
    if what not in _READ_AS:
        raise SettingsError(f"--of: {what!r} is none of {', '.join(_READ_AS)}")
    return what


async def _get(dead: DeadLetters, letter_id: str) -> DeadLetter | None:
    name = await full_id("dead-letter", letter_id, dead.ids_starting)
    return None if name is None else await dead.get(name)


def _with_letters(settings: Settings, what: str, work: Callable[[DeadLetters], Awaitable[T]]) -> T:
    stream = settings.intake_streams[what]
    dead_stream = f"{stream}:dead"

    async def run() -> T:
        async with open_bus(settings) as redis:
            return await work(DeadLetters(redis, stream=stream, dead_stream=dead_stream))

    return asyncio.run(run())


def _as_json(letter: DeadLetter) -> dict[str, Any]:
    cut = {"message_bytes": letter.size, "message_sha256": letter.sha256, "message_head": letter.head}
    return {
        "id": letter.id,
        "at": _moment(letter.id),
        "entry_id": letter.entry_id,
        "correlation_id": letter.correlation_id,
        "reason": letter.reason,
        "withheld": letter.withheld,
        **({} if letter.size is None else cut),
        "fields": letter.fields,
    }


def _moment(entry_id: str) -> datetime:
    # An id may have been chosen, and lie ahead of every date.
    return datetime.fromtimestamp(min(int(entry_id.partition("-")[0]) / 1000, time.time()), UTC)
