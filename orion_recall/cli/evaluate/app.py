"""`orion-recall eval`: recall measured on judged queries. Here: `run`, `score` and `compare`."""

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
from orion_recall.cli.evaluate.learn import sweep_keys, tune_weights
from orion_recall.cli.evaluate.output import (
    progress_bars,
    show_comparison,
    show_everyday,
    show_run,
    show_scores,
    show_worst,
)
from orion_recall.cli.output import JsonFlag, counted, print_json
from orion_recall.errors import SettingsError
from orion_recall.evaluation.baselines import BaselineName
from orion_recall.evaluation.dataset import read_memories, read_queries, read_run
from orion_recall.evaluation.everyday import by_category, is_everyday, judge_run, summary
from orion_recall.evaluation.measures import (
    check_known,
    check_same,
    compare,
    depths_with,
    judged,
    measure,
    most_changed,
    score,
    worst,
)
from orion_recall.evaluation.trials import run as run_plan
from orion_recall.settings import Settings
from orion_recall.values import Memory

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

app.command("tune")(tune_weights)
app.command("sweep")(sweep_keys)


@app.command("run")
def run_queries(
    memories: MemoriesFile,
    queries: QueriesFile,
    out: Annotated[Path, typer.Option(metavar="RUN.jsonl", help="The run to write, over an existing one.")],
    profile: ProfileName = None,
    baseline: Annotated[BaselineName | None, typer.Option(help="A plain search, without any rule.")] = None,
    limit: Limit = None,
    cache: CacheFolder = None,
    no_cache: NoCache = False,
    as_json: JsonFlag = False,
) -> int:
    """Run every query through the recall, each conversation on its own, and write the results.

    Index and graph are built for the run from the memories; bus and Postgres are not used. Each query is run as of
    its own query_date, else as of its conversation's last memory. The timeline source is off, unless
    ORION_POSTGRES_DSN is set: then its table is searched as it is. A line of the run has `ranked`, the ids in order
    before caps and budget, `selected`, those that the bundle kept, `unsure` and `probability`. Baselines ask the
    index for the raw question: `vector` by meaning, `bm25` by words, `rrf` both fused by rank. Exit code 1 when a
    source failed, since the figures would not be those of the profile.

    Example: `orion-recall eval run --memories M.jsonl --queries Q.jsonl --profile reflect.v1 --out RUN.jsonl`
    """
    refuse_to_replace(out, memories, queries)
    if baseline is not None and profile is not None:
        raise SettingsError("--baseline does not go with --profile: it is no recall")
    plan = plan_of(
        memories, queries, profile=profile, limit=limit, cache=cache, no_cache=no_cache, scored_only=False
    )
    with progress_bars() as bars:
        found = asyncio.run(run_plan(plan, out, Settings.read(), bars, baseline=baseline))
    if as_json:
        silent = {name: {"times": times, "error": error} for name, (times, error) in found.silent.items()}
        print_json({"run": out, **asdict(found), "silent": silent})
    else:
        show_run(out, plan, found)
    return 1 if found.silent else 0


@app.command("score")
def score_run(
    run: Annotated[Path, typer.Argument(metavar="RUN.jsonl", help="A run.")],
    queries: QueriesFile,
    depths: Depths = "5,10,20",
    memories: Annotated[Path | None, typer.Option(metavar="M.jsonl", help="For --worst.")] = None,
    by: By = "recall@5",
    show: Annotated[int, typer.Option("--worst", min=0, help="So many of the worst queries by --by.")] = 0,
    only_answered: Annotated[
        bool, typer.Option("--only-answered", help="Leave out queries without a line.")
    ] = False,
    all_categories: AllCategories = False,
    resamples: Resamples = 2000,
    seed: Seed = 0,
    as_json: JsonFlag = False,
) -> None:
    """Score a run: recall, precision, hit, nDCG, MRR and recall in the bundle, over all queries and by category.

    Means over queries, with 95 percent bootstrap intervals. A judged query without a line in the run counts as 0.
    Where queries state what has to stand first, what is stale, or that nothing answers them, the everyday pass
    comes with it: a query passes when its bundle meets all of its conditions. The worst queries come with the ranks
    of their evidence and, with the memories, the type of failure: semantic_gap (a missed memory shares no content
    word with the query), several_words (some, and not all), pronoun (it or a missed memory refers by one).

    Example: `orion-recall eval score RUN.jsonl --queries Q.jsonl --k 5,10 --worst 10 --memories M.jsonl`
    """
    found, given = read_run(run), read_queries(queries)
    check_known(run, found, queries, given)
    counting = judged(given, all_categories=all_categories)
    if only_answered:
        given, counting = ([query for query in of if query.id in found] for of in (given, counting))
    read: list[Memory] = read_memories(memories) if memories is not None else []
    ks = depths_of(depths)
    measured = measure(found, counting, depths_with(by, ks) if show else ks, source=queries)
    overall, categories = score(measured, resamples=resamples, seed=seed)
    lowest = worst(measured, found, by, {(one.tenant, one.id): one.text for one in read}) if show else None
    everyday = judge_run(given, found) if is_everyday(given) else []
    if not as_json:
        show_scores(measured, overall, categories)
        if everyday:
            show_everyday(everyday)
        if lowest is not None:
            show_worst(*lowest, by, show)
        return
    told: dict[str, object] = {
        "run": run,
        "missing": measured.missing,
        "overall": overall,
        "by_category": categories,
    }
    if everyday:
        told["everyday"] = {
            "overall": summary(everyday),
            "by_category": {category: summary(of) for category, of in by_category(everyday).items()},
            "failed": {one.query.id: one.violated for one in everyday if not one.passed},
        }
    if lowest is not None:
        below, failures = lowest
        told["worst"] = {
            "by": by,
            "below": len(below),
            "failures": failures,
            "queries": [
                {"query_id": one.query.id, "category": one.query.category, "query": one.query.text,
                 "value": one.value, "ranks": one.ranks, "failures": one.failures}
                for one in below[:show]
            ],
        }  # fmt: skip
    print_json(told)


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
    counting = [query for query in judged(given, all_categories=all_categories) if query.id in runs[0]]
    ours, theirs = (measure(found, counting, depths_of(depths), source=queries) for found in runs)
    between = compare(ours, theirs, resamples=resamples, permutations=permutations, seed=seed)
    by = by or next(iter(between))
    if by not in between:
        raise SettingsError(f"--by: {by!r} is not measured; there are {', '.join(between)}")
    changed = most_changed(ours, theirs, by, show)
    if not as_json:
        show_comparison(between, changed, f"{counted(len(counting), 'query')}. A: {a}, B: {b}", by)
        return
    listed = [
        {"query_id": query.id, "category": query.category, "query": query.text, "a": value_a, "b": value_b}
        for query, value_a, value_b in changed
    ]
    print_json({"a": a, "b": b, "queries": len(counting), "measures": between, "by": by, "changed": listed})
