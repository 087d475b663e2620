"""`orion-recall eval`: recall measured on judged queries."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from orion_recall.cli.evaluate.answers import calibrate_answers, reliability_of_runs, unanswerable_queries
from orion_recall.cli.evaluate.feedback import judged_by_feedback
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
    refuse_to_replace,
)
from orion_recall.cli.evaluate.output import (
    RunBars,
    progress_bars,
    run_as_json,
    show_comparison,
    show_run,
    show_scores,
)
from orion_recall.cli.evaluate.review import queries_of_review
from orion_recall.cli.evaluate.systems import compare_systems
from orion_recall.cli.evaluate.tune import tune_weights
from orion_recall.cli.evaluate.variants import ablate_parts, sweep_keys, worst_queries
from orion_recall.cli.output import JsonFlag, counted, print_json
from orion_recall.errors import SettingsError
from orion_recall.evaluation.baselines import Baseline, BaselineName
from orion_recall.evaluation.dataset import read_memories, read_queries, read_run
from orion_recall.evaluation.measures import Wanted, judged, measure
from orion_recall.evaluation.plots import Scored, check_can_plot, plot_latency, plot_scores
from orion_recall.evaluation.run import run as run_plan
from orion_recall.evaluation.score import check_known, check_same, compare, most_changed, score
from orion_recall.settings import Settings

app = typer.Typer(
    add_completion=False,
    rich_markup_mode="markdown",
    help="""Measure recall on judged queries, compare runs, learn weights, find what to change.

    Memories are JSON lines with memory_id, conversation_id, text, and what is known of session_id, turn_datetime,
    session_datetime, speaker and title, or those of `memory export`; queries with query_id, conversation_id, query,
    evidence (memory ids), and what is known of query_date, category and scored. Times without a zone are UTC.

    Example: `orion-recall eval run --memories M.jsonl --queries Q.jsonl --out RUN.jsonl`, then
    `orion-recall eval score RUN.jsonl --queries Q.jsonl`
    """,
)

AllCategories = Annotated[
    bool, typer.Option("--all-categories", help="Also count queries that are marked as not scored.")
]
Resamples = Annotated[int, typer.Option(min=100, max=1_000_000, help="Bootstrap resamples for an interval.")]
Seed = Annotated[int, typer.Option(min=0, help="Seed of the resampling; the same seed gives the same intervals.")]

app.command("feedback")(judged_by_feedback)
app.command("review")(queries_of_review)
app.command("tune")(tune_weights)
app.command("sweep")(sweep_keys)
app.command("ablate")(ablate_parts)
app.command("worst")(worst_queries)
app.command("systems")(compare_systems)
app.command("reliability")(reliability_of_runs)
app.command("calibrate")(calibrate_answers)
app.command("unanswerable")(unanswerable_queries)


@app.command("run")
def run_queries(
    memories: MemoriesFile,
    queries: QueriesFile,
    out: Annotated[
        Path, typer.Option(metavar="RUN.jsonl", help="The run to write; an existing file is replaced at the end.")
    ],
    profile: ProfileName = None,
    baseline: Annotated[BaselineName | None, typer.Option(help="A baseline instead of a profile.")] = None,
    without_evidence: Annotated[
        bool,
        typer.Option(
            "--without-evidence",
            help="Leave the evidence out of each search: questions that nothing answers, for `eval calibrate`.",
        ),
    ] = False,
    limit: Limit = None,
    cache: CacheFolder = None,
    no_cache: NoCache = False,
    plot: PlotFile = None,
    as_json: JsonFlag = False,
) -> int:
    """Run every query through the recall, each conversation on its own, and write the results.

    Index and graph are built for the run from the memories; bus and Postgres are not used. Each query is run as of
    its own query_date, else as of its conversation's last memory. The timeline source is off, unless
    ORION_POSTGRES_DSN is set: then its table is searched as it is. A line of the run has `ranked`, the ids in order
    before caps and budget, `selected`, those that the bundle kept, and
    what `eval reliability` reads. Exit code 1 when a source failed, since the
    figures would not be those of the profile.

    Example: `orion-recall eval run --memories M.jsonl --queries Q.jsonl --profile reflect.v1 --out RUN.jsonl`
    """
    check_can_plot(plot)
    refuse_to_replace(out, memories, queries)
    settings = Settings.read()
    plan = plan_of(
        settings,
        memories=memories,
        queries=queries,
        profile=profile,
        limit=limit,
        cache=cache,
        no_cache=no_cache,
        baseline=Baseline(name=baseline) if baseline else None,
        without_evidence=without_evidence,
    )
    with progress_bars() as bars:
        summary = asyncio.run(run_plan(plan, out, settings, RunBars(bars)))
    if plot is not None:
        plot_latency(
            plot, summary.stage_ms, f"{summary.profile}: {counted(summary.queries, 'query')}, time by stage"
        )
    if as_json:
        print_json({"run": out, "cache": plan.cache.folder if plan.cache else None, **run_as_json(summary)})
    else:
        show_run(out, plan, summary)
    return 1 if summary.silent else 0


@app.command("score")
def score_run(
    run: Annotated[Path, typer.Argument(metavar="RUN.jsonl", help="A run.")],
    queries: QueriesFile,
    depths: Depths = "5,10,20",
    memories: Annotated[
        Path | None, typer.Option(metavar="M.jsonl", help="The memories; --budgets needs their lengths.")
    ] = None,
    budgets: Annotated[
        str, typer.Option(help="Token budgets, such as 256,512: recall among the first that fit.")
    ] = "",
    only_answered: Annotated[
        bool, typer.Option("--only-answered", help="Leave out queries without a line in the run.")
    ] = False,
    all_categories: AllCategories = False,
    resamples: Resamples = 2000,
    seed: Seed = 0,
    plot: PlotFile = None,
    beside: Annotated[
        list[Path] | None,
        typer.Option(metavar="OTHER.jsonl", help="Another run to draw in --plot; again for more."),
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Score a run: recall, precision, hit, nDCG, MRR and recall in the bundle, over all queries and by category.

    Means over queries, with 95 percent bootstrap intervals. A judged query without a line in the run counts as 0.

    Example: `orion-recall eval score RUN.jsonl --queries Q.jsonl --k 5,10 --beside RRF.jsonl --plot recall.png`
    """
    check_can_plot(plot)
    if beside and plot is None:
        raise SettingsError("--beside and --plot go together: other runs are only drawn")
    found, given = read_run(run), read_queries(queries)
    check_known(run, found, queries, given)
    counting = judged(given, all_categories=all_categories)
    if only_answered:
        counting = [query for query in counting if query.id in found]
    wanted = _wanted(depths, budgets, memories)
    measured = measure(found, counting, wanted, source=queries)
    overall, by_category = score(measured, resamples=resamples, seed=seed)
    if plot is not None:
        drawn = [Scored(name=run.stem, overall=overall, by_category=by_category)]
        for file in beside or ():
            other = read_run(file)
            check_known(file, other, queries, given)
            theirs = score(measure(other, counting, wanted, source=queries), resamples=resamples, seed=seed)
            drawn.append(Scored(name=file.stem, overall=theirs[0], by_category=theirs[1]))
        plot_scores(plot, drawn, f"{run.stem}, {counted(overall.queries, 'judged query')}")
    if as_json:
        print_json(
            {
                "run": run,
                "missing": measured.missing,
                "overall": asdict(overall),
                "by_category": {category: asdict(scores) for category, scores in by_category.items()},
            }
        )
        return
    show_scores(measured, overall, by_category)


@app.command("compare")
def compare_runs(
    a: Annotated[Path, typer.Argument(metavar="A.jsonl", help="A run.")],
    b: Annotated[Path, typer.Argument(metavar="B.jsonl", help="Another run over the same queries.")],
    queries: QueriesFile,
    depths: Depths = "5,10,20",
    by: Annotated[str | None, typer.Option(help="The measure by which the changed queries are listed.")] = None,
    show: Annotated[int, typer.Option(min=0, help="Changed queries at most.")] = 10,
    all_categories: AllCategories = False,
    resamples: Resamples = 2000,
    permutations: Annotated[int, typer.Option(min=100, max=1_000_000, help="Permutations of the test.")] = 10_000,
    seed: Seed = 0,
    as_json: JsonFlag = False,
) -> None:
    """Compare two runs query by query: what B does better or worse than A, and whether that may be chance.

    The difference is B - A with its 95 percent bootstrap interval; p is of a two-sided paired randomisation test,
    each measure tested alone. B wins where its value is higher.

    Example: `orion-recall eval compare BEFORE.jsonl AFTER.jsonl --queries Q.jsonl --by recall@5`
    """
    runs, given = (read_run(a), read_run(b)), read_queries(queries)
    for file, found in zip((a, b), runs, strict=True):
        check_known(file, found, queries, given)
    check_same((a, b), *runs)
    wanted = _wanted(depths, "", None)
    counting = [query for query in judged(given, all_categories=all_categories) if query.id in runs[0]]
    ours, theirs = (measure(found, counting, wanted, source=queries) for found in runs)
    between = compare(ours, theirs, resamples=resamples, permutations=permutations, seed=seed)
    by = by or next(iter(between))
    if by not in between:
        raise SettingsError(f"--by: {by!r} is not measured; there are {', '.join(between)}")
    changed = most_changed(ours, theirs, by, show)
    if as_json:
        listed = [
            {
                "query_id": one.query.id,
                "category": one.query.category,
                "query": one.query.text,
                "a": one.a,
                "b": one.b,
            }
            for one in changed
        ]
        measures = {name: asdict(one) for name, one in between.items()}
        print_json({"a": a, "b": b, "queries": len(counting), "measures": measures, "by": by, "changed": listed})
        return
    show_comparison(between, changed, f"{counted(len(counting), 'query')}. A: {a}, B: {b}", by)


def _wanted(depths: str, budgets: str, memories: Path | None) -> Wanted:
    if bool(budgets) != (memories is not None):
        raise SettingsError("--budgets and --memories go together: a budget is filled with the memories' texts")
    told = [] if memories is None else read_memories(memories)
    lengths = {(memory.tenant, memory.id): len(memory.text) for memory in told} if memories is not None else None
    return Wanted(
        depths=depths_of(depths), budgets=depths_of(budgets, "--budgets") if budgets else (), lengths=lengths
    )
