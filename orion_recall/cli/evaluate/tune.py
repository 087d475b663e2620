"""`orion-recall eval tune`: learns a profile's ranking weights from judged queries."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from orion_recall.cli.evaluate.figures import figures_table
from orion_recall.cli.evaluate.files import (
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
from orion_recall.cli.evaluate.output import RunBars, progress_bars
from orion_recall.cli.output import JsonFlag, console, counted, note, print_json, table
from orion_recall.cli.setup.profiles import profile_file
from orion_recall.errors import SettingsError
from orion_recall.evaluation.plan import Plan
from orion_recall.evaluation.trials import trials
from orion_recall.evaluation.tuning.features import PARTS
from orion_recall.evaluation.tuning.profile_file import write_profile
from orion_recall.evaluation.tuning.tune import FEW, NOT_LEARNED, LearningOptions, Tuned, tune
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
    settings = Settings.read()
    learning = LearningOptions(parts=_parts(parts), l2=l2, step=step, passed_over=passed_over)
    ks = depths_of(depths)
    plan = plan_of(
        settings,
        memories=memories,
        queries=queries,
        profile=profile,
        limit=limit,
        cache=cache,
        no_cache=no_cache,
        scored_only=True,
    )
    with progress_bars() as bars:
        tuned = asyncio.run(_tuned(plan, settings, learning, ks, RunBars(bars)))
    written: Profile | None = None
    refused = tuned.loss > 0 and not even_if_worse
    if out is not None and not refused:
        written = write_profile(profile_file(profile or settings.default_profile, settings), out, tuned.weights)
    if as_json:
        print_json(_as_json(tuned, out if written is not None else None))
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


async def _tuned(
    plan: Plan, settings: Settings, learning: LearningOptions, depths: tuple[int, ...], bars: RunBars
) -> Tuned:
    async with trials(plan, settings, bars) as tried:
        return await tune(tried, learning, depths=depths)


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


def _as_json(tuned: Tuned, out: Path | None) -> dict[str, Any]:
    return {
        "profile": tuned.profile.profile,
        "out": out,
        "fed_back": tuned.from_feedback,
        "weights": tuned.weights,
        "folds": tuned.folds,
        "figures": [asdict(one) for one in tuned.figures],
    }


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
