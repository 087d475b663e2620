"""`orion-recall eval calibrate`: learns the weights of the probability that anything answers."""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from orion_recall.atomic_file import whole_text
from orion_recall.cli.evaluate.files import refuse_to_replace
from orion_recall.cli.output import JsonFlag, console, counted, note, print_json, table
from orion_recall.errors import SettingsError
from orion_recall.evaluation.calibrate import WeightedRun, as_model, calibrate, read_answer_lines, reliability


def calibrate_answers(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN.jsonl", help="Runs of `eval run`, one or more.")],
    out: Annotated[
        Path | None, typer.Option(metavar="MODEL.json", help="The weights to write (answer_model.json).")
    ] = None,
    weights: Annotated[
        str, typer.Option(help="How much each run counts, in their order, such as 1,1,0.5 (default: all 1).")
    ] = "",
    l2: Annotated[float, typer.Option("--l2", min=1e-6, help="Strength of the pull of the weights to 0.")] = 1.0,
    as_json: JsonFlag = False,
) -> None:
    """Learn the weights of the probability that anything answers, from runs, and measure them held out.

    A query is answerable when it has evidence; `eval run --without-evidence` makes more that nothing answers. Each
    conversation is held out in turn: the table is of queries that the weights were not learned from. The weights
    that are shipped are `orion_recall/recall/confidence/answer_model.json`. No text is learned, only numbers.

    Example: `orion-recall eval calibrate RUN.jsonl WITHOUT.jsonl OTHERS.jsonl --out answer_model.json`
    """
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
            run.name: {"weight": run.weight, "answerable": one.answerable, "unanswerable": one.unanswerable}
            for run, one in zip(weighted, held, strict=True)
        },
        "held_out_auc": None if whole.auc is None else round(whole.auc, 4),
    }
    model = as_model(learned.weights, calibrate(weighted, l2=l2, late=False).weights, made)
    if out is not None:
        with whole_text(out) as text:
            text.write(json.dumps(asdict(model), indent=2, ensure_ascii=False) + "\n")
    if as_json:
        print_json({"model": asdict(model), "held_out": [asdict(one) for one in (whole, *held)]})
        return
    rows = [(name, f"{weight:.4f}") for name, weight in model.late.signals.items()]
    console().print(table(("signal", "weight"), [*rows, ("intercept", f"{model.late.intercept:.4f}")]))
    columns = ("run, held out", "answerable", "not", "AUC", "calibration error")
    figures = [
        (
            one.name,
            one.answerable,
            one.unanswerable,
            "-" if one.auc is None else f"{one.auc:.3f}",
            f"{one.error:.3f}",
        )
        for one in (whole, *held)
    ]
    console().print(table(columns, figures))
    if out is not None:
        note(f"{out}: written")


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
