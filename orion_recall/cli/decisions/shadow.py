"""`orion-recall decisions shadow`: shadow profiles beside those that answered."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import asdict
from typing import Annotated, Any

import typer
from rich.text import Text

from orion_recall.cli.connect.addresses import DataFolder, find, open_postgres
from orion_recall.cli.decisions.replay_output import means_table
from orion_recall.cli.moments import MOMENT_HELP, moment
from orion_recall.cli.output import JsonFlag, console, note, print_json, table
from orion_recall.decisions.comparison import Comparison, compare_shadows
from orion_recall.evaluation.decision_replay.reports import means_json
from orion_recall.evaluation.decision_replay.shadows import measured_shadows
from orion_recall.evaluation.decision_replay.summary import Compared
from orion_recall.settings import Settings


def compare_shadow_profiles(
    profile: Annotated[str | None, typer.Option(help="Only the shadows of this profile.")] = None,
    since: Annotated[str | None, typer.Option(help=f"Only later ones: {MOMENT_HELP}")] = None,
    data: DataFolder = None,
    as_json: JsonFlag = False,
) -> None:
    """Compare shadow profiles with the profiles that answered.

    Overlap is the share of the memories selected by either that both selected. Of the newest 10,000 queries there
    are the measures of `decisions replay`, too. They say that something changed, not that it is worse. A shadow
    reuses the vector of the question and sends no reply, so the times compare only roughly. For single queries:
    the view recall_shadows.

    Example: `orion-recall decisions shadow --since P7D`
    """
    after = moment("--since", since)

    async def compare(settings: Settings) -> tuple[list[Comparison], Mapping[tuple[str, str], Compared]]:
        async with open_postgres(settings) as pool:
            measured = await measured_shadows(pool, profile=profile, since=after)
            return await compare_shadows(pool, profile=profile, since=after), measured

    found, measured = asyncio.run(compare(find(data)))
    if as_json:
        print_json({"comparisons": [_as_json(one, measured) for one in found]})
        return
    for one in found:
        rows = [
            ("queries", one.queries, one.queries),
            ("empty", f"{one.empty:.3f}", f"{one.shadow_empty:.3f}"),
            ("p50 ms", round(one.p50_ms, 1), round(one.shadow_p50_ms, 1)),
            ("p95 ms", round(one.p95_ms, 1), round(one.shadow_p95_ms, 1)),
        ]
        console().print(table(("", one.profile, f"{one.shadow_profile} (shadow)"), rows))
        overlap = "-" if one.overlap is None else f"{one.overlap:.3f}"
        console().print(Text(f"overlap {overlap}, the same best memory {one.same_first:.3f}\n"))
        if (by_measure := measured.get((one.profile, one.shadow_profile))) is not None:
            console().print(means_table(by_measure, "As a replay measures it"))
    if not found:
        note("no query was answered under a shadow profile")


def _as_json(one: Comparison, measured: Mapping[tuple[str, str], Compared]) -> dict[str, Any]:
    found = measured.get((one.profile, one.shadow_profile))
    return asdict(one) | {"measures": {} if found is None else means_json(found)}
