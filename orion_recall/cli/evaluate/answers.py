"""`orion-recall eval reliability`, `calibrate` and `unanswerable`: whether anything answers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from orion_recall.atomic_file import whole_text
from orion_recall.cli.evaluate.files import MemoriesFile, PlotFile, QueriesFile, refuse_to_replace
from orion_recall.cli.output import JsonFlag, console, counted, note, print_json, table
from orion_recall.cli.setup.profiles import named_profile
from orion_recall.errors import SettingsError
from orion_recall.evaluation.answers.calibrate import WeightedRun, as_model, calibrate
from orion_recall.evaluation.answers.lines import read_answer_lines
from orion_recall.evaluation.answers.plot import plot_reliability
from orion_recall.evaluation.answers.reliability import THRESHOLDS, Reliability, reliability
from orion_recall.evaluation.answers.unanswerable import asks_for_something, speakers_of, unanswerable
from orion_recall.evaluation.dataset import read_memories, read_queries
from orion_recall.evaluation.plots import check_can_plot
from orion_recall.settings import Settings

Runs = Annotated[list[Path], typer.Argument(metavar="RUN.jsonl", help="Runs of `eval run`, one or more.")]
Together = Annotated[
    bool, typer.Option("--together", help="All runs as one, as a run and its `--without-evidence` are.")
]


def reliability_of_runs(
    runs: Runs, together: Together = False, plot: PlotFile = None, as_json: JsonFlag = False
) -> None:
    """Show how reliable the probability is that anything answers: AUC, calibration, and what thresholds silence.

    A query is answerable when it has evidence, and not when it has none; `eval run --without-evidence` and
    `eval unanswerable` make more of these. Where the probability cannot be told (a question that only names a
    time), it counts as 1 with a bundle and as 0 without. `at 2%` is the highest threshold that silences no more
    than 2 in 100 answerable queries.

    Example: `orion-recall eval reliability RUN.jsonl --plot reliability.png`
    """
    check_can_plot(plot)
    read = {run.stem: read_answer_lines(run) for run in runs}
    if together:
        read = {", ".join(read): [line for lines in read.values() for line in lines]}
    found = [reliability(name, lines) for name, lines in read.items()]
    if plot is not None:
        plot_reliability(plot, found)
    if as_json:
        print_json([asdict(one) for one in found])
        return
    _show(found)


def calibrate_answers(
    runs: Runs,
    out: Annotated[
        Path | None, typer.Option(metavar="MODEL.json", help="The weights to write (answer_model.json).")
    ] = None,
    weights: Annotated[
        str, typer.Option(help="How much each run counts, in their order, such as 1,1,0.5 (default: all 1).")
    ] = "",
    l2: Annotated[float, typer.Option("--l2", min=1e-6, help="Strength of the pull of the weights to 0.")] = 1.0,
    plot: PlotFile = None,
    as_json: JsonFlag = False,
) -> None:
    """Learn the weights of the probability that anything answers, from runs, and measure them held out.

    Each conversation is held out in turn, so a collection of one conversation is held out as a whole: the table is
    of queries that the weights were not learned from. The weights that are shipped are
    `orion_recall/recall/confidence/answer_model.json`. No text is learned, only numbers of the runs.

    Example: `orion-recall eval calibrate RUN.jsonl WITHOUT.jsonl OTHERS.jsonl --out answer_model.json`
    """
    check_can_plot(plot)
    refuse_to_replace(out, *runs)
    counts = _weights(weights, len(runs))
    weighted = [
        WeightedRun(name=run.stem, lines=read_answer_lines(run), weight=weight)
        for run, weight in zip(runs, counts, strict=True)
    ]
    learned = calibrate(weighted, l2=l2)
    held = [reliability(run.name, run.lines) for run in learned.held_out]
    whole = reliability("all", [line for run in learned.held_out for line in run.lines])
    made: dict[str, object] = {
        "by": "orion-recall eval calibrate",
        "on": datetime.now(UTC).date().isoformat(),
        "l2": l2,
        "runs": {
            run.name: {
                "weight": run.weight,
                "answerable": sum(line.is_answerable for line in run.lines),
                "unanswerable": sum(not line.is_answerable for line in run.lines),
            }
            for run in weighted
        },
        "held_out_auc": None if whole.auc is None else round(whole.auc, 4),
    }
    model = as_model(learned.weights, calibrate(weighted, l2=l2, late=False).weights, made)
    if out is not None:
        with whole_text(out) as text:
            text.write(json.dumps(asdict(model), indent=2, ensure_ascii=False) + "\n")
    if plot is not None:
        plot_reliability(plot, [whole, *held])
    if as_json:
        print_json({"model": asdict(model), "held_out": [asdict(one) for one in (whole, *held)]})
        return
    rows = [(name, f"{weight:.4f}") for name, weight in model.late.signals.items()]
    console().print(table(("signal", "weight"), [*rows, ("intercept", f"{model.late.intercept:.4f}")]))
    _show([whole, *held])
    if out is not None:
        note(f"{out}: written")


def unanswerable_queries(
    memories: MemoriesFile,
    queries: QueriesFile,
    out: Annotated[Path, typer.Option(metavar="NONE.jsonl", help="The queries to write.")],
    into: Annotated[
        Path | None, typer.Option(metavar="OTHER.jsonl", help="Memories to ask them of (default: --memories).")
    ] = None,
    count: Annotated[int, typer.Option(min=1, help="Queries for each conversation, at most.")] = 50,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the choice.")] = 0,
    as_json: JsonFlag = False,
) -> None:
    """Write queries that nothing answers: the judged queries of other conversations, with names of people there.

    The queries are those of --memories; with --into they are asked of the conversations of another file. They are
    asked at the time of each conversation's newest memory. Left out are questions that only name a time.

    Example: `orion-recall eval unanswerable --memories M.jsonl --queries Q.jsonl --out NONE.jsonl`
    """
    refuse_to_replace(out, memories, queries)
    refuse_to_replace(out, *([into] if into else []))
    own = speakers_of(read_memories(memories))
    there = own if into is None else speakers_of(read_memories(into))
    profile = named_profile(Settings.read().default_profile)
    asking = [query for query in read_queries(queries) if asks_for_something(query, own, profile)]
    made = unanswerable(there, asking, own, count=count, seed=seed)
    if not made:
        raise SettingsError("there is no other conversation with judged queries: name another file with --into")
    with whole_text(out) as text:
        text.writelines(json.dumps(line, ensure_ascii=False) + "\n" for line in made)
    if as_json:
        print_json({"queries": out, "count": len(made), "conversations": len(there)})
        return
    note(f"{out}: {counted(len(made), 'query')} of {counted(len(there), 'conversation')}")


def _weights(text: str, count: int) -> list[float]:
    try:
        weights = [float(part) for part in text.split(",")] if text else [1.0] * count
    except ValueError:
        weights = []
    if len(weights) != count or not all(0 < weight < float("inf") for weight in weights):
        raise SettingsError(
            f"--weights: {text[:100]!r} is not a number above 0 for each of {counted(count, 'run')}"
        )
    return weights


def _show(found: Sequence[Reliability]) -> None:
    """A row for each run, then the calibration of the first."""
    silenced = [f"{threshold:g}" for threshold in THRESHOLDS]
    rows = [
        (
            one.name,
            one.answerable,
            one.unanswerable,
            "-" if one.auc is None else f"{one.auc:.3f}",
            f"{one.error:.3f}",
            f"{one.at_most.threshold:.3f}: {one.at_most.unanswerable:.2f}",
            *(f"{at.answerable:.3f}, {at.unanswerable:.2f}" for at in one.silenced),
        )
        for one in found
    ]
    columns = ("run", "answerable", "not", "AUC", "calibration error", "at 2%", *silenced)
    console().print(table(columns, rows, title="Silenced at each threshold: share of answerable, of the others"))
    bins = [
        (f"{one.low:.1f} to {one.high:.1f}", one.count, f"{one.told:.3f}", f"{one.answerable:.3f}")
        for one in found[0].bins
    ]
    columns = ("probability", "queries", "its mean", "answerable")
    console().print(table(columns, bins, title=f"\nReliability of {found[0].name}"))
