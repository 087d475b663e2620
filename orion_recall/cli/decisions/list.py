"""`orion-recall decisions list`: the latest decisions."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer

from orion_recall.cli.connect.addresses import DataFolder, find, open_postgres
from orion_recall.cli.moments import MOMENT_HELP, moment
from orion_recall.cli.output import JsonFlag, console, counted, note, print_json, table
from orion_recall.decisions.log import DecisionLog, Latest
from orion_recall.errors import SettingsError
from orion_recall.settings import Settings
from orion_recall.values import OUTCOMES

_ID_CHARS = 8


def list_decisions(
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="Decisions at most.")] = 20,
    outcome: Annotated[str | None, typer.Option(help=f"Only these: {', '.join(OUTCOMES)}.")] = None,
    profile: Annotated[str | None, typer.Option(help="Only those under this profile.")] = None,
    since: Annotated[str | None, typer.Option(help=f"Only later ones: {MOMENT_HELP}")] = None,
    shadows: Annotated[bool, typer.Option("--shadows", help="Include those of shadow profiles.")] = False,
    sample: Annotated[
        int | None, typer.Option(min=1, max=10_000, help="So many random ones, instead of the latest.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Of the sample: another seed gives other decisions.")] = 0,
    data: DataFolder = None,
    as_json: JsonFlag = False,
) -> None:
    """List the latest decisions, newest first.

    With --sample they are random ones, for people to judge: each on its page of the console. Ids are shortened to
    their first characters, which `decisions show` takes; --json has them whole.

    Example: `orion-recall decisions list --outcome empty --since P1D`
    """
    if outcome is not None and outcome not in OUTCOMES:
        raise SettingsError(f"--outcome: {outcome!r} is none of {', '.join(OUTCOMES)}")
    after = moment("--since", since)

    async def latest(settings: Settings) -> Latest:
        async with open_postgres(settings) as pool:
            log = DecisionLog(pool)
            drawn = None if sample is None else seed
            return await log.latest(
                sample or limit, outcome=outcome, profile=profile, since=after, shadows=shadows, seed=drawn
            )

    found = asyncio.run(latest(find(data)))
    if as_json:
        listed = [decision.model_dump(mode="json") for decision in found.decisions]
        print_json({"decisions": listed, "left_out": found.left_out})
        return
    rows = [
        (
            f"{one.created_at:%Y-%m-%d %H:%M}",
            one.id[:_ID_CHARS],
            one.profile,
            one.outcome,
            round(one.latency_ms, 1),
            len(one.selected_ids),
            one.query[:80],
        )
        for one in found.decisions
    ]
    console().print(table(("at (UTC)", "id", "profile", "outcome", "ms", "kept", "query"), rows))
    if found.left_out:
        note(f"{counted(found.left_out, 'decision')} left out: another version's, which this one cannot read")
