"""`orion-recall eval sweep`, `ablate` and `worst`: grids of values, ablations, and the worst queries."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, TypeVar

import typer

from orion_recall.cli.evaluate.figures import figures_table
from orion_recall.cli.evaluate.files import (
    CacheFolder,
    Depths,
    Limit,
    MemoriesFile,
    NoCache,
    PlotFile,
    ProfileName,
    QueriesFile,
    depths_of,
    plan_of,
)
from orion_recall.cli.evaluate.output import RunBars, progress_bars
from orion_recall.cli.output import JsonFlag, console, counted, note, print_json, prose, table, visible
from orion_recall.errors import SettingsError
from orion_recall.evaluation.failure_types import FAILURE_TYPES
from orion_recall.evaluation.plan import Plan
from orion_recall.evaluation.plots import check_can_plot, plot_ablation
from orion_recall.evaluation.trials import Trials, trials
from orion_recall.evaluation.tuning.sweep import ablate, sweep
from orion_recall.evaluation.tuning.variants import grid_of
from orion_recall.evaluation.worst_queries import WorstQuery, worst
from orion_recall.settings import Settings

T = TypeVar("T")

By = Annotated[str, typer.Option(help="The measure that decides, such as recall@5, map or mrr.")]
_TEXT_SHOWN = 110


def sweep_keys(
    memories: MemoriesFile,
    queries: QueriesFile,
    values: Annotated[
        list[str],
        typer.Option("--set", metavar="KEY=V,V", help="A key of a profile and its values; again for more."),
    ],
    profile: ProfileName = None,
    by: By = "recall@5",
    depths: Depths = "5,10",
    show: Annotated[int, typer.Option(min=1, help="Points at most, the best first.")] = 20,
    limit: Limit = None,
    cache: CacheFolder = None,
    no_cache: NoCache = False,
    as_json: JsonFlag = False,
) -> None:
    """Try every combination of values of a profile's keys, best first, each against the profile as it is.

    Search results are kept for the next point, so a point costs only the ranking. `bm25.k1` and `bm25.b` are keys
    as well: keywords are then searched in memory, since the index holds one pair.

    Example: `orion-recall eval sweep --memories M.jsonl --queries Q.jsonl --set rank_pool=48,100 --set
    ranking.speaker=0,1,2`
    """
    points, ks = grid_of(values), measures_of(by, depths_of(depths))
    plan = _plan(memories, queries, profile, limit, cache, no_cache)
    found = _tried(plan, lambda tried: sweep(tried, points, by=by, depths=ks))
    if as_json:
        print_json({"profile": plan.profile.profile, "by": by, "points": [asdict(one) for one in found]})
        return
    further = () if by.startswith("recall@") else (by,)
    title = f"The profile, and the best {min(show, len(found) - 1)} of {counted(len(found) - 1, 'point')} by {by}"
    console().print(figures_table(found[: show + 1], plan.profile.profile, title=title, further=further))


def ablate_parts(
    memories: MemoriesFile,
    queries: QueriesFile,
    profile: ProfileName = None,
    depths: Depths = "5,10",
    limit: Limit = None,
    cache: CacheFolder = None,
    no_cache: NoCache = False,
    plot: PlotFile = None,
    as_json: JsonFlag = False,
) -> None:
    """Measure what every source and every part of the score adds: without it, with it alone, against baselines.

    A source is switched off, or all others are; a part of the score is left out, or is added to the fused score
    alone. The baselines are LIKE, BM25, dense search, and plain RRF of the last two. Differences are paired, query
    by query, with 95 percent bootstrap intervals.

    Example: `orion-recall eval ablate --memories M.jsonl --queries Q.jsonl --profile reflect.v1`
    """
    ks = depths_of(depths)
    check_can_plot(plot)
    plan = _plan(memories, queries, profile, limit, cache, no_cache)
    found = _tried(plan, lambda tried: ablate(tried, depths=ks))
    if plot is not None:
        title = f"The parts of {plan.profile.profile}, {counted(found[0].scores.queries, 'query')}"
        plot_ablation(plot, found, f"recall@{ks[0]}", title)
    if as_json:
        print_json({"profile": plan.profile.profile, "ablations": [asdict(one) for one in found]})
        return
    console().print(figures_table(found, plan.profile.profile, title=f"The parts of {plan.profile.profile}"))


def worst_queries(
    memories: MemoriesFile,
    queries: QueriesFile,
    profile: ProfileName = None,
    by: By = "recall@5",
    show: Annotated[int, typer.Option(min=1, help="Queries at most.")] = 10,
    limit: Limit = None,
    cache: CacheFolder = None,
    no_cache: NoCache = False,
    as_json: JsonFlag = False,
) -> None:
    """Show a profile's worst queries: where their evidence was ranked, why not higher, and what came before it.

    For evidence that was ranked too low, the parts that cost it most of its score, compared with the fifth memory,
    are listed with that cost. Each query has the types of its failure, which are counted over all queries below 1:
    semantic_gap (a missed memory shares no content word with it), several_words (some, and not all), pronoun (it or
    a missed memory refers by one), time (it names one), other_session (a missed memory is of another session).

    Example: `orion-recall eval worst --memories M.jsonl --queries Q.jsonl --profile reflect.v1 --show 20`
    """
    measures_of(by, (5,))
    plan = _plan(memories, queries, profile, limit, cache, no_cache)
    found = _tried(plan, lambda tried: worst(tried, by=by, limit=show))
    if as_json:
        print_json(
            {
                "profile": plan.profile.profile,
                "by": by,
                "below": found.below,
                "failures": {name: found.failures[name] for name in FAILURE_TYPES},
                "worst": [_as_json(one) for one in found.queries],
            }
        )
        return
    for one in found.queries:
        _show_query(one, by)
    if not found.below:
        note(f"no query is below 1 in {by}")
        return
    rows = [(name, found.failures[name]) for name in FAILURE_TYPES]
    console().print(table(("type of failure", f"of {counted(found.below, 'query')} below 1"), rows))


def _plan(
    memories: Path, queries: Path, profile: str | None, limit: int | None, cache: Path | None, no_cache: bool
) -> Plan:
    return plan_of(
        Settings.read(),
        memories=memories,
        queries=queries,
        profile=profile,
        limit=limit,
        cache=cache,
        no_cache=no_cache,
        scored_only=True,
    )


def _tried(plan: Plan, trial: Callable[[Trials], Awaitable[T]]) -> T:
    async def tried(bars: RunBars) -> T:
        async with trials(plan, Settings.read(), bars) as opened:
            return await trial(opened)

    with progress_bars() as bars:
        return asyncio.run(tried(RunBars(bars)))


def measures_of(by: str, depths: tuple[int, ...]) -> tuple[int, ...]:
    """The depths, and the measure's own; SettingsError for a measure that there is not."""
    name, at, k = by.partition("@")
    if at and k.isdigit() and int(k) > 0 and name in ("recall", "precision", "hit", "full", "ndcg"):
        return tuple(sorted({*depths, int(k)}))
    if by in ("mrr", "map"):
        return depths
    raise SettingsError(f"--by: {by!r} is not measured; there are recall@5, precision@5, ndcg@5, mrr, map")


def _as_json(one: WorstQuery) -> dict[str, object]:
    query = one.query
    return {
        "query_id": query.id,
        "category": query.category,
        "query": query.text,
        "value": one.value,
        "failures": list(one.failures),
        "evidence": [asdict(each) for each in one.evidence],
        "found": [asdict(each) for each in one.found],
    }


def _show_query(one: WorstQuery, by: str) -> None:
    lines = [f"{one.query.id} ({one.query.category}), {by} {one.value:.3f}: {one.query.text}"]
    if one.failures:
        lines.append(f"  failure: {', '.join(one.failures)}")
    for each in one.evidence:
        place = "not ranked" if each.rank is None else f"rank {each.rank}"
        lines.append(f"  evidence {each.id}, {place}{f': {each.why}' if each.why else ''}")
    for found in one.found:
        who = f"{found.speaker}: " if found.speaker else ""
        lines.append(f"  {found.rank}. {found.id} {found.score:.3f} {who}{_short(found.text)}")
    for line in [*lines, ""]:
        prose(visible(line))


def _short(text: str) -> str:
    one_line = " ".join(text.split())
    return one_line if len(one_line) <= _TEXT_SHOWN else f"{one_line[:_TEXT_SHOWN]}…"
