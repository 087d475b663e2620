"""`orion-recall eval systems`: the systems of the analysis of retrieval beside profiles, on one data set."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated

import typer

from orion_recall.cli.evaluate.files import CacheFolder, Limit, MemoriesFile, NoCache, QueriesFile, plan_of
from orion_recall.cli.evaluate.output import progress_bars
from orion_recall.cli.output import JsonFlag, console, counted, print_json, table
from orion_recall.cli.setup.profiles import named_profile
from orion_recall.errors import SettingsError
from orion_recall.evaluation.dataset import read_memories
from orion_recall.evaluation.plan import Plan, Progress
from orion_recall.evaluation.systems import MEASURES, Quality, compare_quality
from orion_recall.evaluation.trials import trials
from orion_recall.profile import Profile
from orion_recall.settings import Settings


def compare_systems(
    memories: MemoriesFile,
    queries: QueriesFile,
    profile: Annotated[
        list[str] | None,
        typer.Option("--profile", help="A profile's name, or a YAML file; again for more (default: the default)."),
    ] = None,
    limit: Limit = None,
    cache: CacheFolder = None,
    no_cache: NoCache = False,
    as_json: JsonFlag = False,
) -> None:
    """Compare LIKE, BM25 with decay, semantic and hybrid search with profiles, over the judged queries.

    `temporal` is recall@5 of the queries of that category, `other words` that of those which share no word with
    their evidence. `eval run` tells the milliseconds of each, and `make bench-scale` how they grow.

    Example: `orion-recall eval systems --memories M.jsonl --queries Q.jsonl --profile reflect.v1`
    """
    settings = Settings.read()
    first = (profile or [settings.default_profile])[0]
    plan = plan_of(memories, queries, profile=first, limit=limit, cache=cache, no_cache=no_cache)
    profiles = [plan.profile, *(named_profile(name) for name in (profile or [])[1:])]
    if len({one.profile for one in profiles}) < len(profiles):
        raise SettingsError("--profile: two profiles have the same name")
    with progress_bars() as bars:
        found = asyncio.run(_compared(plan, profiles, settings, bars))
    if as_json:
        print_json({"quality": [asdict(one) for one in found]})
        return
    rows = [
        (one.label, *map(_share, (*(one.means[name] for name in MEASURES), one.temporal, one.other_words)))
        for one in found
    ]
    columns = (counted(found[0].queries, "query"), *MEASURES, "temporal", "other words")
    console().print(table(columns, rows))


async def _compared(
    plan: Plan, profiles: Sequence[Profile], settings: Settings, bars: Progress
) -> Sequence[Quality]:
    memories = await asyncio.to_thread(read_memories, plan.memories)
    async with trials(plan, settings, bars) as tried:
        return await compare_quality(tried, memories, profiles)


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
