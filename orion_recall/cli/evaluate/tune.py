"""`orion-recall eval tune`, `sweep` and `worst`: learned weights, grids of values, and the worst queries."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from orion_recall.cli.evaluate.files import (
    By,
    CacheFolder,
    Depths,
    Limit,
    MemoriesFile,
    NoCache,
    ProfileName,
    QueriesFile,
    depths_of,
    plan_of,
    refuse_to_replace,
)
from orion_recall.cli.evaluate.output import figures_table, progress_bars
from orion_recall.cli.output import JsonFlag, console, counted, note, print_json, prose, table, visible
from orion_recall.cli.setup.profiles import profile_file
from orion_recall.errors import SettingsError
from orion_recall.evaluation.measures import depths_with
from orion_recall.evaluation.plan import Progress
from orion_recall.evaluation.sweep import grid_of, sweep
from orion_recall.evaluation.trials import trials
from orion_recall.evaluation.tune import FEW, NOT_LEARNED, PARTS, LearningOptions, Tuned, tune, write_profile
from orion_recall.evaluation.worst import FAILURE_TYPES, Worst, WorstQuery, worst
from orion_recall.profile import Profile
from orion_recall.settings import Settings

_TEXT_SHOWN = 110


def tune_weights(
    memories: MemoriesFile,
    queries: QueriesFile,
    profile: ProfileName = None,
    out: Annotated[
        Path | None, typer.Option(metavar="PROFILE.yaml", help="The profile to write with these weights.")
    ] = None,
    even_if_worse: Annotated[
        bool, typer.Option("--even-if-worse", help="Write weights that are worse on the queries held out, too.")
    ] = False,
    parts: Annotated[str, typer.Option(help="Parts to learn: a,b,c; -a leaves a part out.")] = "",
    l2: Annotated[
        float, typer.Option("--l2", min=1e-6, help="Strength of the pull to 0, or to the profile's weights.")
    ] = 1.0,
    step: Annotated[
        float, typer.Option(min=0.001, max=0.5, help="Weights are rounded to multiples of this.")
    ] = 0.05,
    passed_over: Annotated[
        float,
        typer.Option(
            min=0, max=1, help="For queries from feedback: weight of what was returned and neither used nor wrong."
        ),
    ] = 0.5,
    depths: Depths = "5,10",
    limit: Limit = None,
    cache: CacheFolder = None,
    no_cache: NoCache = False,
    as_json: JsonFlag = False,
) -> None:
    """Learn the weights of a profile's ranking from judged queries, and measure them on queries held out.

    Every query is recalled once with every part of the score; then a linear scorer is learned (listwise softmax,
    L2, no weight below 0) from numbers alone, never from text. Each conversation is held out in turn: `learned,
    held out` is measured on queries that the weights were not learned from. Recency keeps its share. `--out` writes
    the profile with its comments, the weights and the name of the file; weights that are worse on the queries held
    out are not written (exit code 1) unless `--even-if-worse`.

    In queries of `eval feedback` only what was returned is judged; then weights are held near the profile's.

    Example: `orion-recall eval tune --memories M.jsonl --queries Q.jsonl --profile reflect.v1 --out mine.v1.yaml`
    """
    refuse_to_replace(out, memories, queries)
    settings, ks = Settings.read(), depths_of(depths)
    learning = LearningOptions(parts=_parts(parts), l2=l2, step=step, passed_over=passed_over)
    plan = plan_of(memories, queries, profile=profile, limit=limit, cache=cache, no_cache=no_cache)

    async def learned(bars: Progress) -> Tuned:
        async with trials(plan, settings, bars) as tried:
            return await tune(tried, learning, depths=ks)

    with progress_bars() as bars:
        tuned = asyncio.run(learned(bars))
    written: Profile | None = None
    refused = tuned.loss > 0 and not even_if_worse
    if out is not None and not refused:
        written = write_profile(profile_file(profile or settings.default_profile, settings), out, tuned.weights)
    if as_json:
        print_json(
            {
                "profile": tuned.profile.profile,
                "out": out if written is not None else None,
                "fed_back": tuned.from_feedback,
                "weights": tuned.weights,
                "folds": tuned.folds,
                "figures": [asdict(one) for one in tuned.figures],
            }
        )
    else:
        _show(tuned, plan.profile)
    if written is not None and not as_json:
        note(f"{out}: {written.profile}, {written.content_hash}")
    if out is not None and refused:
        note(
            f"{out} is not written: on queries held out these weights find {tuned.loss:.3f} less than those of "
            f"{plan.profile.profile}. More judged queries may help; --even-if-worse writes them nevertheless"
        )
        raise typer.Exit(1)


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
    as well: the index is filled anew for them. What a source or a part of the score adds is its key at 0, such as
    `--set ranking.speaker=0` or `--set rdf_top_k=0`.

    Example: `orion-recall eval sweep --memories M.jsonl --queries Q.jsonl --by map --set bm25.k1=1.2,1.5,1.8,2.0
    --set bm25.b=.5,.75,.9 --set time_decay_half_life_hours=7,72,696`
    """
    points, ks = grid_of(values), depths_with(by, depths_of(depths))
    plan = plan_of(memories, queries, profile=profile, limit=limit, cache=cache, no_cache=no_cache)
    with progress_bars() as bars:
        found = asyncio.run(sweep(plan, points, Settings.read(), bars, by=by, depths=ks))
    if as_json:
        print_json({"profile": plan.profile.profile, "by": by, "points": [asdict(one) for one in found]})
        return
    further = () if by.startswith("recall@") else (by,)
    title = f"The profile, and the best {min(show, len(found) - 1)} of {counted(len(found) - 1, 'point')} by {by}"
    console().print(figures_table(found[: show + 1], plan.profile.profile, title=title, further=further))


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
    depths_with(by, (5,))
    plan = plan_of(memories, queries, profile=profile, limit=limit, cache=cache, no_cache=no_cache)

    async def looked_into(bars: Progress) -> Worst:
        async with trials(plan, Settings.read(), bars) as tried:
            return await worst(tried, by=by, limit=show)

    with progress_bars() as bars:
        found = asyncio.run(looked_into(bars))
    if as_json:
        print_json(
            {
                "profile": plan.profile.profile,
                "by": by,
                "below": found.below,
                "failures": {name: found.failures[name] for name in FAILURE_TYPES},
                "worst": [_worst_json(one) for one in found.queries],
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


def _parts(text: str) -> tuple[str, ...]:
    """The parts to learn: those named, else all but those that are named with a minus."""
    named = [name.strip() for name in text.split(",") if name.strip()]
    unknown = [name for name in named if name.removeprefix("-") not in PARTS or name.endswith(NOT_LEARNED)]
    if unknown:
        possible = ", ".join(name for name in PARTS if name != NOT_LEARNED)
        raise SettingsError(f"--parts: {unknown[0]!r} is not a part that is learned; there are {possible}")
    left_out = {name[1:] for name in named if name.startswith("-")}
    wanted = [name for name in named if not name.startswith("-")] or [name for name in PARTS if name != NOT_LEARNED]
    return tuple(name for name in PARTS if name in wanted and name not in left_out)


def _show(tuned: Tuned, current: Profile) -> None:
    given: dict[str, float] = current.ranking.model_dump()
    rows = [
        (name, f"{given[name]:g}", f"{weight:g}", *(f"{fold[name]:g}" for fold in tuned.folds.values()))
        for name, weight in tuned.weights.items()
        if weight or given[name] or any(fold[name] for fold in tuned.folds.values())
    ]
    columns = ("part", current.profile, "learned", *(f"without {name}" for name in tuned.folds))
    console().print(table(columns, rows, title="Weights"))
    console().print(figures_table(tuned.figures, current.profile, title="Figures"))
    if (few := tuned.figures[0].scores.queries) < FEW:
        queries = counted(few, "judged query", "judged queries")
        note(f"{queries}: too few to tell two profiles apart; have {FEW} or more")
    if tuned.from_feedback:
        note(
            f"{tuned.from_feedback} of {counted(tuned.figures[0].scores.queries, 'query')} are from feedback: a "
            "profile returned their evidence, and the figures favour it. A gain is real; a loss may not be"
        )


def _worst_json(one: WorstQuery) -> dict[str, object]:
    query = one.query
    return {
        "query_id": query.id,
        "category": query.category,
        "query": query.text,
        "value": one.value,
        "failures": list(one.failures),
        "evidence": [asdict(each) for each in one.evidence],
        "found": [
            {"id": each.memory.id, "score": each.score, "speaker": each.memory.speaker, "text": each.memory.text}
            for each in one.found
        ],
    }


def _show_query(one: WorstQuery, by: str) -> None:
    lines = [f"{one.query.id} ({one.query.category}), {by} {one.value:.3f}: {one.query.text}"]
    if one.failures:
        lines.append(f"  failure: {', '.join(one.failures)}")
    lines += [f"  evidence {each.id}, {each.why or f'rank {each.rank}'}" for each in one.evidence]
    for rank, found in enumerate(one.found, 1):
        who = f"{found.memory.speaker}: " if found.memory.speaker else ""
        text = " ".join(found.memory.text.split())
        cut = text if len(text) <= _TEXT_SHOWN else f"{text[:_TEXT_SHOWN]}…"
        lines.append(f"  {rank}. {found.memory.id} {found.score:.3f} {who}{cut}")
    for line in [*lines, ""]:
        prose(visible(line))
