"""`orion-recall dead`: list, show and requeue dead letters, messages that could not be served."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Annotated, Any, Literal, TypeVar

import typer
from pydantic import BaseModel

from orion_recall import contracts
from orion_recall.bus.dead_letters import DeadLetter, DeadLetters
from orion_recall.bus.signing.keys import read_key
from orion_recall.cli.addresses import DataFolder, find, open_bus, within
from orion_recall.cli.output import NotFound, counted, group, listed, note, report, show
from orion_recall.settings import Settings

T = TypeVar("T")
Kind = Literal["queries", "stores", "updates", "deletes", "feedback"]
Of = Annotated[Kind, typer.Option("--of", help="What the messages are.")]
_ALL = 100_000
_READ_AS: dict[Kind, tuple[str, type[BaseModel]]] = {
    "queries": (contracts.QUERY_KIND, contracts.RecallQueryV1),
    "stores": (contracts.STORE_KIND, contracts.MemoryStoreV1),
    "updates": (contracts.UPDATE_KIND, contracts.MemoryUpdateV1),
    "deletes": (contracts.DELETE_KIND, contracts.MemoryDeleteV1),
    "feedback": (contracts.FEEDBACK_KIND, contracts.RecallFeedbackV1),
}

app = group("""Look at messages that could not be served, and put them back.

    A message becomes a dead letter when it is malformed, or when it was delivered several times without an answer.
    Its sender got an error reply; a message that is put back is served, and answered, once more.

    Example: `orion-recall dead list`, then `orion-recall dead requeue 1795302643570-0`
    """)


@app.command("list")
def list_letters(
    of: Of = "queries",
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="Dead letters at most.")] = 20,
    data: DataFolder = None,
) -> None:
    """List the newest dead letters, each with its reason.

    Example: `orion-recall dead list --of stores`
    """
    letters = _with_letters(find(data), of, lambda dead: dead.latest(limit))
    listed(
        {"letters": [_as_json(letter) for letter in letters]},
        ("at (UTC)", "id", "correlation id", "reason"),
        [(_moment(letter.id), letter.id, letter.correlation_id, letter.reason[:160]) for letter in letters],
        nothing="there are no dead letters",
    )


@app.command("show")
def show_letter(
    letter_id: Annotated[str, typer.Argument(metavar="ID", help="Its id.")],
    of: Of = "queries",
    data: DataFolder = None,
) -> None:
    """Show one dead letter: the message as it arrived, and the reason.

    Example: `orion-recall dead show 1795302643570-0`
    """
    letter = _with_letters(find(data), of, lambda dead: dead.get(letter_id))
    if letter is None:
        raise NotFound(f"there is no dead letter {letter_id!r}")
    report(_as_json(letter))


@app.command("requeue")
def requeue_letters(
    letter_id: Annotated[str | None, typer.Argument(metavar="ID", help="Its id.")] = None,
    every: Annotated[bool, typer.Option("--all", help="All of them, oldest first.")] = False,
    of: Of = "queries",
    data: DataFolder = None,
) -> None:
    """Put messages back at the end of their stream, to be served again.

    A message that cannot be read is put back as well, with a warning: another version may read it. Where ORION_KEY
    is set, messages are signed with it.

    Example: `orion-recall dead requeue --all`
    """
    if (letter_id is None) != every:
        raise typer.BadParameter("give either an ID or --all")

    settings = find(data)
    kind, payload = _READ_AS[of]
    key = read_key(settings.key) if settings.key is not None else None

    async def requeue(dead: DeadLetters) -> list[dict[str, str | None]]:
        if letter_id is not None:  # one by its id says why it cannot be put back
            letters = [one] if (one := await dead.get(letter_id)) is not None else []
        else:
            letters = [one for one in (await dead.latest(_ALL))[::-1] if _can_be_put_back(one)]
        put_back: list[dict[str, str | None]] = []
        for one in letters:
            entry_id = await dead.requeue(one, key=key)
            if entry_id is None:  # somebody else was faster
                continue
            problem = dead.problem(one, kind=kind, payload=payload, max_bytes=settings.max_bytes_of(kind))
            if problem is not None:
                note(f"{one.id} cannot be read, and will most likely be a dead letter again: {problem}")
            put_back.append({"id": one.id, "entry_id": entry_id, "problem": problem})
        return put_back

    moved = _with_letters(settings, of, requeue)
    if not moved and letter_id is not None:
        raise NotFound(f"there is no dead letter {letter_id!r}")
    show({"requeued": moved}, remarks=[f"{counted(len(moved), 'message')} put back"])


def _can_be_put_back(letter: DeadLetter) -> bool:
    if letter.withheld:
        note(f"{letter.id} is not put back: no message was kept (ORION_QUERY_TEXT)")
    elif not letter.is_whole:
        note(f"{letter.id} is not put back: the message was too large to be kept")
    return letter.is_whole


def _with_letters(settings: Settings, what: Kind, work: Callable[[DeadLetters], Awaitable[T]]) -> T:
    return within(open_bus(settings), lambda redis: work(DeadLetters(redis, settings.intake_streams[what])))


def _as_json(letter: DeadLetter) -> dict[str, Any]:
    cut = {"message_bytes": letter.size, "message_sha256": letter.sha256, "message_head": letter.head}
    told = {name: getattr(letter, name) for name in ("entry_id", "correlation_id", "reason", "withheld")}
    further = {} if letter.size is None else cut
    return {"id": letter.id, "at": _moment(letter.id), **told, **further, "fields": letter.fields}


def _moment(entry_id: str) -> datetime:
    # An id may have been chosen, and lie ahead of every date.
    return datetime.fromtimestamp(min(int(entry_id.partition("-")[0]) / 1000, time.time()), UTC)
