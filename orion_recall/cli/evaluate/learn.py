"""`orion-recall eval calibrate` learns when to be unsure; `feedback` makes judged queries of callers' feedback."""

from __future__ import annotations

import asyncio
import contextlib
import json
from contextlib import aclosing
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from orion_recall.atomic_file import whole_text
from orion_recall.cli.addresses import DataFolder, find, open_postgres, with_record
from orion_recall.cli.evaluate.files import (
    refuse_to_replace,
)
from orion_recall.cli.options import MOMENT_HELP, moment
from orion_recall.cli.output import JsonFlag, NotFound, counted, progress, show, table
from orion_recall.decisions.feedback import FeedbackLog
from orion_recall.errors import SettingsError
from orion_recall.evaluation.calibrate import WeightedRun, as_model, calibrate, read_answer_lines, reliability
from orion_recall.evaluation.feedback import Converted, LeftOut
from orion_recall.settings import Settings

_WHY: dict[LeftOut, str] = {
    "no_decision": "the decision is not in the log, or is another tenant's",
    "text_not_kept": "the query's text was not kept whole (ORION_QUERY_TEXT, or more than 4,000 characters)",
    "nothing_used": "nothing that was returned was used, so what should have been returned is unknown",
    "used_is_gone": "what was used is no memory of the record (any more)",
}


def calibrate_answers(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN.jsonl", help="Runs of `eval run`, one or more.")],
    out: Annotated[Path | None, typer.Option(metavar="MODEL.json", help="The weights to write.")] = None,
    weights: Annotated[str, typer.Option(help="How much each run counts: 1,1,0.5 (default: all 1).")] = "",
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
    counts = _run_weights(weights, len(runs))
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
    signals = [(name, f"{weight:.4f}") for name, weight in model.late.signals.items()]
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
    show(
        {"model": model, "held_out": [whole, *held]},
        table(("signal", "weight"), [*signals, ("intercept", f"{model.late.intercept:.4f}")]),
        table(("run, held out", "answerable", "not", "AUC", "calibration error"), figures),
        as_json=as_json,
        remarks=[f"{out}: written" if out is not None else None],
    )


def judged_by_feedback(
    out: Annotated[Path, typer.Option(metavar="QUERIES.jsonl", help="The file to write, over an existing one.")],
    since: Annotated[str | None, typer.Option(help=f"Only feedback that came later: {MOMENT_HELP}")] = None,
    tenant: Annotated[str | None, typer.Option(help="Only this tenant's.")] = None,
    data: DataFolder = None,
    as_json: JsonFlag = False,
) -> None:
    """Make judged queries of the decision log and of the feedback of callers (recall.feedback.v1).

    A line is one recall: the memories used are its evidence; those `wrong` and those `shown` are listed as well. It
    is run as of the time of its decision, in its own scope; other options, such as as_of, kinds and tags, are not
    in the log. Memories that were not returned are not judged. Recalls of which nothing was used, or whose text was
    not kept, are left out and counted by reason. Together with the memories of `memory export` this is input for
    `eval run`, `tune` and the others. It only reads, with a login that may read feedback, decisions and memories,
    such as a worker's. Exit code 1 when there is no query.

    Example: `orion-recall memory export M.jsonl`, `orion-recall eval feedback --out Q.jsonl --since 30d`, then
    `orion-recall eval tune --memories M.jsonl --queries Q.jsonl --out mine.v1.yaml`
    """
    converted, after = Converted(), moment("--since", since)
    asyncio.run(_convert(find(data), out, converted, tenant=tenant, since=after))
    show(
        {"file": out, **asdict(converted)},
        f"{out}: {counted(converted.queries, 'query')} of {counted(converted.messages, 'message')}; "
        f"{counted(converted.used, 'memory')} used, {converted.wrong} wrong, {converted.passed_over} passed over",
        as_json=as_json,
        remarks=_remarks(converted),
    )


async def _convert(
    settings: Settings, out: Path, converted: Converted, *, tenant: str | None, since: datetime | None
) -> None:
    async with contextlib.AsyncExitStack() as stack:
        lines = stack.enter_context(whole_text(out))
        settings = await with_record(settings, stack)
        log = FeedbackLog(await stack.enter_async_context(open_postgres(settings)))
        told = stack.enter_context(progress("feedback"))
        total = await log.count(tenant=tenant, since=since)
        async with aclosing(log.read(tenant=tenant, since=since)) as recalls:
            async for fed_back, messages in recalls:
                if (line := converted.add(fed_back, messages)) is not None:
                    lines.write(json.dumps(line, ensure_ascii=False) + "\n")
                told(converted.messages, max(total, converted.messages))
        if not converted.queries:
            raise NotFound(_why_nothing(converted, limited=bool(since or tenant)))  # a file stays as it was


def _remarks(converted: Converted) -> list[str]:
    remarks = [f"{count} left out: {_WHY[why]}" for why, count in converted.left_out.items()]
    if converted.not_shown:
        remarks.append(f"{counted(converted.not_shown, 'judged id')} ignored: not returned by that recall")
    if converted.gone:
        remarks.append(f"{counted(converted.gone, 'memory')} ignored: deleted, or of an external store")
    return remarks


def _why_nothing(converted: Converted, *, limited: bool) -> str:
    if converted.messages:
        return "; ".join(["no query can be made of the feedback", *_remarks(converted)])
    return (
        f"there is no feedback{' of this tenant or time' if limited else ''}: callers give it by "
        "recall.feedback.v1, such as `await client.feedback(decision_id=..., used=[...], wrong=[...])`"
    )


def _run_weights(text: str, count: int) -> list[float]:
    try:
        weights = [float(part) for part in text.split(",")] if text else [1.0] * count
    except ValueError:
        weights = []
    if len(weights) != count or not all(0 < weight < float("inf") for weight in weights):
        raise SettingsError(
            f"--weights: {text[:100]!r} is not a number above 0 for each of {counted(count, 'run')}"
        )
    return weights
