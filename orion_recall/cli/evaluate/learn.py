"""`orion-recall eval tune` and `sweep`: learned weights, grids of values."""

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
from orion_recall.cli.output import JsonFlag, console, counted, note, print_json, table
from orion_recall.errors import SettingsError
from orion_recall.evaluation.measures import depths_with
from orion_recall.evaluation.run_stores import Progress
from orion_recall.evaluation.trials import trials
from orion_recall.evaluation.tune import (
    FEW,
    NOT_LEARNED,
    PARTS,
    LearningOptions,
    Tuned,
    grid_of,
    sweep,
    tune,
    write_profile,
)
from orion_recall.profile import Profile
from orion_recall.settings import Settings


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
    the profile, every value of it, with the weights and the name of the file; weights that are worse on the queries
    held out are not written (exit code 1) unless `--even-if-worse`.

    Example: `orion-recall eval tune --memories M.jsonl --queries Q.jsonl --profile reflect.v1 --out mine.v1.yaml`
    """
    refuse_to_replace(out, memories, queries)
    settings, ks = Settings.read(), depths_of(depths)
    learning = LearningOptions(parts=_parts(parts), l2=l2, step=step)
    plan = plan_of(memories, queries, profile=profile, limit=limit, cache=cache, no_cache=no_cache)

    async def learned(bars: Progress) -> Tuned:
        async with trials(plan, settings, bars) as tried:
            return await tune(tried, learning, depths=ks)

    with progress_bars() as bars:
        tuned = asyncio.run(learned(bars))
    written: Profile | None = None
    refused = tuned.loss > 0 and not even_if_worse
    if out is not None and not refused:
        written = write_profile(plan.profile, out, tuned.weights)
    if as_json:
        print_json(
            {
                "profile": tuned.profile.profile,
                "out": out if written is not None else None,
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
    shown: Annotated[int, typer.Option("--show", min=1, help="Points at most, the best first.")] = 20,
    limit: Limit = None,
    cache: CacheFolder = None,
    no_cache: NoCache = False,
    as_json: JsonFlag = False,
) -> None:
    """Try every combination of values of a profile's keys, best first, each against the profile as it is.

    A point costs a recall of every query. `bm25.k1` and `bm25.b` are keys as well: the index is filled anew for
    them. What a source or a part of the score adds is its key at 0, such as `--set ranking.speaker=0` or
    `--set rdf_top_k=0`.

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
    title = f"The profile, and the best {min(shown, len(found) - 1)} of {counted(len(found) - 1, 'point')} by {by}"
    console().print(figures_table(found[: shown + 1], plan.profile.profile, title=title, further=further))


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
