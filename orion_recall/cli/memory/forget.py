"""`orion-recall memory forget`: removes what was said from everywhere that is ours, and reports what is left."""

from __future__ import annotations

import asyncio
import contextlib
from functools import partial
from typing import Annotated

import typer
from rich.progress import SpinnerColumn, TextColumn

from orion_recall.cli.addresses import Actor, DataFolder, dsn_of, find, open_bus, record_of
from orion_recall.cli.memory.copies import OwnCopies
from orion_recall.cli.memory.write import Yes, confirmed
from orion_recall.cli.output import Table, bars, counted, note, show
from orion_recall.engines.embedded import read_addresses
from orion_recall.errors import SettingsError
from orion_recall.memory.forget.record import Kind, Place, Target
from orion_recall.memory.forget.run import CopyToCompact, Forgetting
from orion_recall.postgres.pool import close_connection, open_connection
from orion_recall.settings import Settings

# Tables are rewritten: that may take long.
_LONGEST_MS = 3_600_000
_SHOWN = 10


def forget_memories(
    ids: Annotated[list[str] | None, typer.Option("--id", help="The id of a memory; may be given again.")] = None,
    person: Annotated[
        str | None, typer.Option(help="A person: all memories that name them, or that they said.")
    ] = None,
    session: Annotated[str | None, typer.Option(help="A session, with its recalls.")] = None,
    user: Annotated[str | None, typer.Option(help="A user, with their recalls.")] = None,
    tenant: Annotated[
        str | None, typer.Option(help="The tenant whose memories they are; given alone: all that it has.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Count what would go, by place, and change nothing.")
    ] = False,
    yes: Yes = False,
    actor: Actor = None,
    data: DataFolder = None,
) -> int:
    """Forget memories for good: everywhere, and in the files.

    Give --id, --person, --session, --user, or --tenant alone. Text, names and whose it was go from record,
    history, index, graph, decision log and bus, and files are written anew. Ids stay taken. The table says what
    remains where, and until when: backups, exports and what others have read are not reached. A run that was
    stopped is finished by the same command; exit code 1 while something is left to do.

    Example: `orion-recall memory forget --person "Ana Lindqvist" --dry-run`
    """
    settings = find(data)
    target = _target(settings, ids, person=person, session=session, user=user, tenant=tenant)
    return asyncio.run(_forget(settings, target, actor, dry_run=dry_run, yes=yes))


def _target(settings: Settings, ids: list[str] | None, *, tenant: str | None, **others: str | None) -> Target:
    """What is to be forgotten. SettingsError for none, for several, and for one that is empty."""
    given = {"id": ids} | {name: None if value is None else [value] for name, value in others.items()}
    kinds = {name: values for name, values in given.items() if values is not None}
    for name, values in (kinds if tenant is None else {**kinds, "tenant": [tenant]}).items():
        # An empty one, as of a script's unset variable, must not widen what is forgotten.
        if not values or any(not value.strip() for value in values):
            raise SettingsError(f"--{name} is empty: nothing is forgotten")
    if len(kinds) > 1 or (not kinds and tenant is None):
        raise SettingsError("give one of --id, --person, --session, --user, or --tenant alone")
    whose = tenant or settings.default_tenant
    if not settings.serves(whose):
        raise SettingsError(f"tenant {whose!r} is not served here: ORION_TENANTS lists those that are")
    if not kinds:
        return Target.of("tenant", whose)
    ((name, values),) = kinds.items()
    named: dict[str, Kind] = {"id": "memory", "person": "person", "session": "session", "user": "user"}
    return Target.of(named[name], whose, *(value if name == "id" else value.strip() for value in values))


async def _forget(settings: Settings, target: Target, actor: str | None, *, dry_run: bool, yes: bool) -> int:
    async with contextlib.AsyncExitStack() as stack:
        settings, pool = await stack.enter_async_context(record_of(settings, bus=True))
        running = read_addresses(settings.data_dir)
        own_bus = running is not None and running.redis_url is not None and running.redis_url == settings.bus_url
        connection = await open_connection(dsn_of(settings), name="forget", statement_timeout_ms=_LONGEST_MS)
        stack.push_async_callback(close_connection, connection)
        redis = None if settings.bus_url is None else await stack.enter_async_context(open_bus(settings))
        shown = stack.enter_context(bars(SpinnerColumn(), TextColumn("{task.description}")))
        shown.add_task("counting" if dry_run else "forgetting", total=None)

        async def copies() -> list[CopyToCompact]:
            found = await OwnCopies(settings, pool).every()
            asks = [one.ask and partial(one.ask, "compact", lambda done, total: None) for one in found]
            return [(f"{one.kind} of {one.copy}", ask) for one, ask in zip(found, asks, strict=True)]

        forgetting = Forgetting(settings, connection, target, redis=redis, own_bus=own_bus, copies=copies)
        if not dry_run and not yes:
            await forgetting.record.with_aliases()
            count, ids, _ = await forgetting.record.count()
            whose = f"{target.kind} {', '.join(target.values) or target.tenant}"
            question = f"forget {counted(count, 'memory')} of {whose}? It cannot be undone."
            if not confirmed(question, ids[:_SHOWN], count):
                note("nothing was forgotten")
                return 1
        report = await (forgetting.dry_run() if dry_run else forgetting.run(actor))
    went = "would go" if report.dry_run else "went"
    places = [(one.place, _went(one), one.remains, one.until) for one in report.places]
    left = [f"left to do: {one}" for one in report.unfinished]
    again = "run the same command again to finish it" if left else None
    show(report, Table(("place", went, "remains", "until"), places), remarks=[*left, again])
    return 1 if report.unfinished else 0


def _went(one: Place) -> str:
    if one.gone:
        return f"{one.gone:,} {one.what}".strip()
    return one.what or ("" if one.remains else "0")
