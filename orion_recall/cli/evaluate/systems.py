"""`orion-recall eval systems`: the systems of the analysis of retrieval beside profiles, on one data set."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated

import typer

from orion_recall.cli.evaluate.files import CacheFolder, Limit, MemoriesFile, NoCache, QueriesFile, plan_of
from orion_recall.cli.evaluate.output import progress_bars
from orion_recall.cli.output import JsonFlag, console, counted, note, print_json, table
from orion_recall.cli.setup.profiles import named_profile
from orion_recall.errors import SettingsError
from orion_recall.evaluation.dataset import read_memories
from orion_recall.evaluation.measures import judged
from orion_recall.evaluation.plan import Plan, Progress
from orion_recall.evaluation.systems import (
    AtSize,
    Quality,
    TextTable,
    comparative_table,
    compare_quality,
    measure_at,
    misses,
    quality_table,
    scaling_table,
)
from orion_recall.evaluation.trials import trials
from orion_recall.profile import Profile
from orion_recall.settings import Settings

_MOST_TURNS = 1_000_000


def compare_systems(
    memories: MemoriesFile,
    queries: QueriesFile,
    profile: Annotated[
        list[str] | None,
        typer.Option("--profile", help="A profile's name, or a YAML file; again for more (default: the default)."),
    ] = None,
    sizes: Annotated[
        str, typer.Option(help="Numbers of turns to measure latency at, such as 100,1000; none for quality alone.")
    ] = "100,1000,10000",
    calls: Annotated[int, typer.Option(min=10, max=100_000, help="Timed calls of each system at each size.")] = 100,
    limit: Limit = None,
    cache: CacheFolder = None,
    no_cache: NoCache = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print the tables as Markdown.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Compare LIKE, BM25 with decay, semantic and hybrid search with profiles: quality, latency, growth.

    Quality is that of the data set's judged queries. Latency is measured over synthetic turns, made of the words of
    the data set's, in the embedded index: a system's own search with its hits read, a profile's whole recall, and
    the storing of one turn, without bus and Postgres. Targets are P95 of 15 ms for keywords, 100 ms for semantic
    search, 50 ms for storing and 500 ms for a recall. 10,000 turns take some minutes, 100,000 about an hour on two
    cores.

    Example: `orion-recall eval systems --memories M.jsonl --queries Q.jsonl --profile reflect.v1 --markdown`
    """
    if markdown and as_json:
        raise SettingsError("--markdown and --json do not go together")
    wanted, settings = _sizes_of(sizes), Settings.read()
    first = (profile or [settings.default_profile])[0]
    plan = plan_of(memories, queries, profile=first, limit=limit, cache=cache, no_cache=no_cache)
    profiles = [plan.profile, *(named_profile(name) for name in (profile or [])[1:])]
    if len({one.profile for one in profiles}) < len(profiles):
        raise SettingsError("--profile: two profiles have the same name")
    with progress_bars() as bars:
        found, measured = asyncio.run(_compared(plan, profiles, wanted, settings, bars, calls=calls))
    if as_json:
        print_json(
            {
                "quality": [asdict(one) for one in found],
                "sizes": [asdict(one) for one in measured],
                "above_target": misses(measured),
            }
        )
        return
    _show([quality_table(found), comparative_table(found, measured)], markdown=markdown)
    if measured:
        _show([scaling_table(measured)], markdown=markdown)
        for label, at in misses(measured).items():
            note(f"{label} is above its target at {', '.join(counted(size, 'turn') for size in at)}")


async def _compared(
    plan: Plan, profiles: Sequence[Profile], sizes: Sequence[int], settings: Settings, bars: Progress, *, calls: int
) -> tuple[Sequence[Quality], Sequence[AtSize]]:
    memories = await asyncio.to_thread(read_memories, plan.memories)
    async with trials(plan, settings, bars) as tried:
        found = await compare_quality(tried, memories, profiles)
    queries = judged(plan.queries)
    measured = [await measure_at(size, memories, queries, profiles, settings, bars, calls=calls) for size in sizes]
    return found, measured


def _show(tables: Sequence[TextTable], *, markdown: bool) -> None:
    for one in tables:
        if markdown:
            print(f"{one.markdown()}\n")
        else:
            console().print(table(one.columns, one.rows, title=one.title))


def _sizes_of(text: str) -> tuple[int, ...]:
    """The sizes, ascending; () for `none`. SettingsError for anything else."""
    if text == "none":
        return ()
    try:
        sizes = tuple(sorted({int(part) for part in text.split(",")}))
    except ValueError:
        sizes = ()
    if not sizes or sizes[0] < 10 or sizes[-1] > _MOST_TURNS:
        raise SettingsError(
            f"--sizes: {text[:100]!r} is no list of numbers from 10 to {_MOST_TURNS}, such as 100,1000, nor none"
        )
    return sizes
