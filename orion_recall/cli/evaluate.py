"""`orion-recall eval`: recall measured on judged queries, runs compared, weights learned, values tried."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from orion_recall.cli.output import Remark, Shown, Table, counted, group, note, progress_bars, show
from orion_recall.cli.setup.profiles import named_profile
from orion_recall.decisions.comparison import Mean
from orion_recall.errors import EvaluationError, SettingsError
from orion_recall.evaluation import measures, tune
from orion_recall.evaluation.baselines import BaselineName
from orion_recall.evaluation.dataset import read_memories, read_queries, read_run
from orion_recall.evaluation.everyday import by_category, is_everyday, judge_run, summary
from orion_recall.evaluation.trials import Plan, Progress, RunSummary, trials
from orion_recall.evaluation.trials import run as run_plan
from orion_recall.evaluation.vectors import VectorCache, default_folder
from orion_recall.profile import Profile
from orion_recall.settings import Settings
from orion_recall.telemetry import log_to_stderr
from orion_recall.values import Memory

app = group("""Measure recall on judged queries, compare runs, learn weights, find what to change.

    Memories are JSON lines with memory_id, conversation_id, text, and what is known of session_id, turn_datetime,
    session_datetime, speaker and title, or a file as `import` and `memory export` have it; queries with query_id,
    conversation_id (a tenant), query, evidence (memory ids), and what is known of query_date, category and scored.
    Without a conversation both are of `default`. Times without a zone are UTC.

    Example: `orion-recall eval run --memories M.jsonl --queries Q.jsonl --out RUN.jsonl`, then
    `orion-recall eval score RUN.jsonl --queries Q.jsonl`
    """)

MemoriesFile = Annotated[Path, typer.Option("--memories", metavar="M.jsonl", help="The memories.")]
QueriesFile = Annotated[Path, typer.Option("--queries", metavar="Q.jsonl", help="The judged queries.")]
ProfileName = Annotated[
    str | None, typer.Option("--profile", help="A profile's name, or a YAML file (default: ORION_DEFAULT_PROFILE).")
]
Limit = Annotated[int | None, typer.Option(min=1, help="Only the first so many queries.")]
CacheFolder = Annotated[
    Path | None, typer.Option("--cache", metavar="DIR", help="Where vectors are kept (default: the user's cache).")
]
NoCache = Annotated[bool, typer.Option("--no-cache", help="Keep nothing for the next run.")]
Depths = Annotated[str, typer.Option("--k", help="Depths to measure at, such as 5,10.")]
By = Annotated[str, typer.Option(help="The measure that decides, such as recall@5, map or mrr.")]
AllCategories = Annotated[
    bool, typer.Option("--all-categories", help="Also count queries that are marked as not scored.")
]
Resamples = Annotated[int, typer.Option(min=100, max=1_000_000, help="Bootstrap resamples for an interval.")]
Seed = Annotated[int, typer.Option(min=0, help="Seed of the resampling; the same seed gives the same intervals.")]
_DEEPEST = 10_000
# Characters of a query in a table.
_QUERY_CHARS = 80


def plan_of(
    memories: Path,
    queries: Path,
    *,
    profile: str | None,
    limit: int | None = None,
    cache: Path | None = None,
    no_cache: bool = False,
    scored_only: bool = True,
) -> Plan:
    """What is to be run. SettingsError for options that do not go together, EvaluationError for the file."""
    log_to_stderr("warning")
    found = read_queries(queries, limit=limit)
    if scored_only:
        found = measures.judged(found)
        if not found:
            raise EvaluationError(f"{queries}: no judged query: none has evidence, or all are marked as not scored")
    tried = named_profile(profile or Settings.read().default_profile)
    kept = cache_of(cache, no_cache=no_cache)
    return Plan(memories=memories, queries_file=queries, queries=found, profile=tried, cache=kept)


def cache_of(folder: Path | None, *, no_cache: bool) -> VectorCache | None:
    if folder is not None and no_cache:
        raise SettingsError("--cache and --no-cache do not go together")
    return None if no_cache else VectorCache(folder or default_folder())


def refuse_to_replace(out: Path | None, *read: Path) -> None:
    """SettingsError when a file that is read would be written over."""
    if out is not None and out.exists() and any(one.exists() and out.samefile(one) for one in read):
        raise SettingsError(f"{out} is read, and would be replaced: name another file to write")


def depths_of(text: str) -> tuple[int, ...]:
    """Numbers from 1 to 10,000, each once; SettingsError for anything else."""
    try:
        numbers = tuple(dict.fromkeys(int(part) for part in text.split(",")))
    except ValueError:
        numbers = ()
    if not numbers or min(numbers) < 1 or max(numbers) > _DEEPEST:
        raise SettingsError(f"--k: {text[:100]!r} is no list of numbers from 1 to {_DEEPEST}, such as 5,10,20")
    return numbers


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
    silent = {name: {"times": times, "error": error} for name, (times, error) in found.silent.items()}
    show({"run": out, **asdict(found), "silent": silent}, *run_shown(out, plan, found))
    return 1 if found.silent else 0


@app.command("score")
def score_run(
    run: Annotated[Path, typer.Argument(metavar="RUN.jsonl", help="A run.")],
    queries: QueriesFile,
    depths: Depths = "5,10,20",
    memories: Annotated[Path | None, typer.Option(metavar="M.jsonl", help="For --worst.")] = None,
    by: By = "recall@5",
    most: Annotated[int, typer.Option("--worst", min=0, help="So many of the worst queries by --by.")] = 0,
    only_answered: Annotated[
        bool, typer.Option("--only-answered", help="Leave out queries without a line.")
    ] = False,
    all_categories: AllCategories = False,
    resamples: Resamples = 2000,
    seed: Seed = 0,
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
    measures.check_known(run, found, queries, given)
    counting = measures.judged(given, all_categories=all_categories)
    if only_answered:
        given, counting = ([query for query in of if query.id in found] for of in (given, counting))
    read: list[Memory] = read_memories(memories) if memories is not None else []
    ks = depths_of(depths)
    measured = measures.measure(found, counting, measures.depths_with(by, ks) if most else ks, source=queries)
    overall, categories = measures.score(measured, resamples=resamples, seed=seed)
    told: dict[str, Any] = {
        "run": run, "missing": measured.missing, "overall": overall, "by_category": categories,
    }  # fmt: skip
    rows: list[Sequence[object]] = [
        (name, _short(mean.mean), interval(mean), *(_short(of.means[name].mean) for of in categories.values()))
        for name, mean in overall.means.items()
    ]
    heads = (f"{category} ({scores.queries})" for category, scores in categories.items())
    shown: list[Shown] = [Table(("measure", f"all ({overall.queries})", "95% interval", *heads), rows)]
    if measured.missing:
        missing = f"{counted(measured.missing, 'query')} of {overall.queries} without a line in the run"
        shown.append(Remark(f"{missing}, counted as 0 (--only-answered leaves them out)"))
    if is_everyday(given):
        everyday = judge_run(given, found)
        overall_pass = summary(everyday)
        groups = {category: summary(of) for category, of in by_category(everyday).items()}
        failed = {one.query.id: one.violated for one in everyday if not one.passed}
        told["everyday"] = {"overall": overall_pass, "by_category": groups, "failed": failed}
        rows = [
            (name, *("-" if one is None else one if isinstance(one, int) else f"{one:.3f}" for one in of.values()))
            for name, of in {**groups, "all": overall_pass}.items()
        ]
        shown.append(Table(("category", *overall_pass), rows, title="\nEveryday pass"))
    if most:
        below, failures = measures.worst(measured, found, by, {(one.tenant, one.id): one.text for one in read})
        lowest = [
            {"query_id": one.query.id, "category": one.query.category, "query": one.query.text,
             "value": one.value, "ranks": one.ranks, "failures": one.failures}
            for one in below[:most]
        ]  # fmt: skip
        told["worst"] = {"by": by, "below": len(below), "failures": failures, "queries": lowest}
        rows = [
            (one.query.id, one.query.category, _short(one.value), one.query.text[:_QUERY_CHARS],
             ", ".join(f"{name} {rank or 'not ranked'}" for name, rank in one.ranks.items()),
             ", ".join(one.failures))
            for one in below[:most]
        ]  # fmt: skip
        columns = ("query_id", "category", by, "query", "evidence at rank", "failure")
        shown.append(Table(columns, rows, title=f"\nThe worst of {counted(len(below), 'query')} below 1 in {by}"))
        shown += [Remark(f"{name}: {counted(count, 'query')}") for name, count in failures.items()]
    show(told, *shown)


@app.command("compare")
def compare_runs(
    a: Annotated[Path, typer.Argument(metavar="A.jsonl", help="A run.")],
    b: Annotated[Path, typer.Argument(metavar="B.jsonl", help="Another run over the same queries.")],
    queries: QueriesFile,
    depths: Depths = "5,10,20",
    by: Annotated[str | None, typer.Option(help="The measure by which the changed queries are listed.")] = None,
    most: Annotated[int, typer.Option("--show", min=0, help="Changed queries at most.")] = 10,
    all_categories: AllCategories = False,
    resamples: Resamples = 2000,
    permutations: Annotated[int, typer.Option(min=100, max=1_000_000, help="Permutations of the test.")] = 10_000,
    seed: Seed = 0,
) -> None:
    """Compare two runs query by query: what B does better or worse than A, and whether that may be chance.

    The difference is B - A with its 95 percent bootstrap interval; p is of a two-sided paired randomisation test,
    each measure tested alone. B wins where its value is higher.

    Example: `orion-recall eval compare BEFORE.jsonl AFTER.jsonl --queries Q.jsonl --by recall@5`
    """
    runs, given = (read_run(a), read_run(b)), read_queries(queries)
    for file, found in zip((a, b), runs, strict=True):
        measures.check_known(file, found, queries, given)
    measures.check_same((a, b), *runs)
    counting = [query for query in measures.judged(given, all_categories=all_categories) if query.id in runs[0]]
    ours, theirs = (measures.measure(found, counting, depths_of(depths), source=queries) for found in runs)
    between = measures.compare(ours, theirs, resamples=resamples, permutations=permutations, seed=seed)
    by = by or next(iter(between))
    if by not in between:
        raise SettingsError(f"--by: {by!r} is not measured; there are {', '.join(between)}")
    changed = measures.most_changed(ours, theirs, by, most)
    figures = [
        (name, _short(one.a), _short(one.b), f"{one.difference.mean:+.4f}", interval(one.difference), _short(one.p),
         one.wins, one.ties, one.losses)
        for name, one in between.items()
    ]  # fmt: skip
    columns = ("measure", "A", "B", "B - A", "95% interval", "p", "B wins", "ties", "B loses")
    shown = [Table(columns, figures, title=f"{counted(len(counting), 'query')}. A: {a}, B: {b}")]
    if changed:
        rows = [
            (one.id, one.category, _short(value_a), _short(value_b), one.text[:_QUERY_CHARS])
            for one, value_a, value_b in changed
        ]
        shown.append(Table(("query_id", "category", "A", "B", "query"), rows, title=f"\nMost changed by {by}"))
    listed = [
        {"query_id": query.id, "category": query.category, "query": query.text, "a": value_a, "b": value_b}
        for query, value_a, value_b in changed
    ]
    show({"a": a, "b": b, "queries": len(counting), "measures": between, "by": by, "changed": listed}, *shown)


@app.command("tune")
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
    learning = tune.LearningOptions(parts=_parts(parts), l2=l2, step=step)
    plan = plan_of(memories, queries, profile=profile, limit=limit, cache=cache, no_cache=no_cache)

    async def learned(bars: Progress) -> tune.Tuned:
        async with trials(plan, settings, bars) as tried:
            return await tune.tune(tried, learning, depths=ks)

    with progress_bars() as bars:
        tuned = asyncio.run(learned(bars))
    refused = tuned.loss > 0 and not even_if_worse
    written = tune.write_profile(plan.profile, out, tuned.weights) if out is not None and not refused else None
    show(
        {"profile": tuned.profile.profile, "out": out if written is not None else None, "weights": tuned.weights,
         "folds": tuned.folds, "figures": tuned.figures},
        *_tuned_shown(tuned, plan.profile),
        remarks=[f"{out}: {written.profile}, {written.content_hash}" if written is not None else None],
    )  # fmt: skip
    if out is not None and refused:
        note(
            f"{out} is not written: on queries held out these weights find {tuned.loss:.3f} less than those of "
            f"{plan.profile.profile}. More judged queries may help; --even-if-worse writes them nevertheless"
        )
        raise typer.Exit(1)


def _parts(text: str) -> tuple[str, ...]:
    """The parts to learn: those named, else all but those that are named with a minus."""
    possible = [name for name in tune.PARTS if name != tune.NOT_LEARNED]
    named = [name.strip() for name in text.split(",") if name.strip()]
    if unknown := [name for name in named if name.removeprefix("-") not in possible]:
        there = ", ".join(possible)
        raise SettingsError(f"--parts: {unknown[0]!r} is not a part that is learned; there are {there}")
    wanted = [name for name in named if not name.startswith("-")] or possible
    return tuple(name for name in possible if name in wanted and f"-{name}" not in named)


def _tuned_shown(tuned: tune.Tuned, current: Profile) -> Iterator[Shown]:
    given: dict[str, float] = current.ranking.model_dump()
    rows = [
        (name, f"{given[name]:g}", f"{weight:g}", *(f"{fold[name]:g}" for fold in tuned.folds.values()))
        for name, weight in tuned.weights.items()
        if weight or given[name] or any(fold[name] for fold in tuned.folds.values())
    ]
    columns = ("part", current.profile, "learned", *(f"without {name}" for name in tuned.folds))
    yield Table(columns, rows, title="Weights")
    yield figures_table(tuned.figures, current.profile, title="Figures")
    if (few := tuned.figures[0].scores.queries) < tune.FEW:
        queries = counted(few, "judged query", "judged queries")
        yield Remark(f"{queries}: too few to tell two profiles apart; have {tune.FEW} or more")


@app.command("sweep")
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
) -> None:
    """Try every combination of values of a profile's keys, best first, each against the profile as it is.

    A point costs a recall of every query. `bm25.k1` and `bm25.b` are keys as well: the index is filled anew for
    them. What a source or a part of the score adds is its key at 0, such as `--set ranking.speaker=0` or
    `--set rdf_top_k=0`.

    Example: `orion-recall eval sweep --memories M.jsonl --queries Q.jsonl --by map --set bm25.k1=1.2,1.5,1.8,2.0
    --set bm25.b=.5,.75,.9 --set time_decay_half_life_hours=7,72,696`
    """
    points, ks = tune.grid_of(values), measures.depths_with(by, depths_of(depths))
    plan = plan_of(memories, queries, profile=profile, limit=limit, cache=cache, no_cache=no_cache)
    with progress_bars() as bars:
        found = asyncio.run(tune.sweep(plan, points, Settings.read(), bars, by=by, depths=ks))
    further = () if by.startswith("recall@") else (by,)
    title = f"The profile, and the best {min(shown, len(found) - 1)} of {counted(len(found) - 1, 'point')} by {by}"
    show(
        {"profile": plan.profile.profile, "by": by, "points": found},
        figures_table(found[: shown + 1], plan.profile.profile, title=title, further=further),
    )


def run_shown(out: Path, plan: Plan, found: RunSummary) -> Iterator[Shown]:
    """A run: its size, where the time went, and what failed."""
    seconds = ", ".join(f"{what} {took:.1f} s" for what, took in found.seconds.items())
    yield (
        f"{out}: {counted(found.queries, 'query')} under {found.profile}, {found.unsure} unsure, "
        f"{counted(found.memories, 'memory')} in {counted(found.conversations, 'conversation')}"
    )
    yield f"{seconds}; document vectors: {found.vectors_embedded} embedded, {found.vectors_from_cache} cached"
    if found.source_ms and plan.profile.enable_sql_timeline and not found.timeline:
        yield "the timeline source was off (no ORION_POSTGRES_DSN)"
    times = {"all": found.query_ms, **{f"source {name}": ms for name, ms in found.source_ms.items()}}
    rows = [(name, *(f"{ms[share]:.2f}" for share in ("p50", "p95", "p99"))) for name, ms in times.items()]
    yield Table(("ms a query", "P50", "P95", "P99"), rows)
    if found.evidence_unknown:
        yield Remark(f"{counted(found.evidence_unknown, 'evidence id')} without a memory: they cannot be found")
    if found.late_off is not None:
        yield Remark(f"no late interaction: {found.late_off}")
    for source, (times_silent, error) in found.silent.items():
        yield Remark(f"{source} did not answer {counted(times_silent, 'time')}: {error}")


def figures_table(
    figures: Sequence[measures.Figures], against: str, *, title: str, further: Sequence[str] = ()
) -> Table:
    """A row each: recall and MRR above their 95 percent intervals, and what recall gains over `against`.

    `further` are measures that are shown as well.
    """
    recalls = [name for name in figures[0].scores.means if name.startswith("recall@")]
    shown = list(dict.fromkeys([*recalls, "mrr", *further]))

    def both(mean: Mean, sign: str) -> str:
        return f"{mean.mean:{sign}.4f}\n{mean.low:{sign}.3f}..{mean.high:{sign}.3f}"

    rows = [
        (one.name, *(both(one.scores.means[name], "") for name in shown),
         *("" if one.name == against else both(one.against[name].difference, "+") for name in recalls))
        for one in figures
    ]  # fmt: skip
    columns = (counted(figures[0].scores.queries, "query"), *shown, *(f"{name} - {against}" for name in recalls))
    return Table(columns, rows, title=title)


def interval(mean: Mean) -> str:
    return f"{mean.low:.4f} to {mean.high:.4f}"


def _short(value: float) -> str:
    return f"{value:.4f}"
