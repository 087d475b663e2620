"""`orion-recall eval feedback`: what callers said of recalls, as judged queries."""

from __future__ import annotations

import asyncio
import contextlib
import json
from contextlib import aclosing
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer

from orion_recall.atomic_file import whole_text
from orion_recall.cli.connect.addresses import DataFolder, find, open_postgres
from orion_recall.cli.connect.record import progress, with_record
from orion_recall.cli.moments import moment
from orion_recall.cli.output import JsonFlag, console, notes, print_error, print_json
from orion_recall.decisions.fed_back import FeedbackLog
from orion_recall.evaluation.tuning.feedback import Converted, LeftOut
from orion_recall.settings import Settings

_WHY: dict[LeftOut, str] = {
    "no_decision": "messages are about a decision that is not in the log, or of another tenant",
    "text_not_kept": "recalls have a text that was not kept whole (ORION_QUERY_TEXT, or beyond 4,000 characters)",
    "nothing_used": "recalls showed nothing that was of use: what else would have been is not known",
    "used_is_gone": "recalls showed of use only what is no memory (any more), or one of a mapped store",
}


class _Nothing(Exception):
    """There is no query to write: the file stays as it was."""


def judged_by_feedback(
    out: Annotated[
        Path, typer.Option(metavar="QUERIES.jsonl", help="Where the queries go; replaced when all are there.")
    ],
    since: Annotated[
        str | None, typer.Option(help="Only feedback that came later: a time with zone, or how long ago.")
    ] = None,
    tenant: Annotated[str | None, typer.Option(help="Only this tenant's.")] = None,
    data: DataFolder = None,
    as_json: JsonFlag = False,
) -> int:
    """Make judged queries of the decision log and of what callers said of recalls (recall.feedback.v1).

    A line is one recall: what was used is its evidence, beside what was `wrong` and all that was `shown`. It is
    asked again at the time of its decision, in its own scope; other options, such as as_of, kinds and tags, are not
    in the log. What was not shown is not judged. A recall of which nothing was
    used is left out, so is one whose text was not kept; how many, and why, is told. With the memories of `memory
    export` these are files for `eval run`, `tune` and the others. Reads only, by a login that may read feedback,
    decisions and memories: a worker's. Exit code 1 when there is no query.

    Example: `orion-recall memory export M.jsonl`, `orion-recall eval feedback --out Q.jsonl --since 30d`, then
    `orion-recall eval tune --memories M.jsonl --queries Q.jsonl --out mine.v1.yaml`
    """
    converted = Converted()
    try:
        asyncio.run(_convert(find(data), out, converted, tenant=tenant, since=moment("--since", since)))
    except _Nothing:
        print_error("NotFound", _why_nothing(converted, limited=bool(since or tenant)), as_json=as_json)
        return 1
    if as_json:
        print_json({"file": out, **asdict(converted)})
        return 0
    console().print(
        f"{out}: {converted.queries} queries of {converted.messages} messages; {converted.used} memories used, "
        f"{converted.wrong} wrong, {converted.passed_over} passed over",
        markup=False,
        soft_wrap=True,
    )
    for line in _remarks(converted):
        notes().print(line, markup=False, soft_wrap=True)
    return 0


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
            raise _Nothing


def _remarks(converted: Converted) -> list[str]:
    remarks = [f"{count} {_WHY[why]}" for why, count in converted.left_out.items()]
    if converted.not_shown:
        remarks.append(f"{converted.not_shown} ids were judged that had not been shown: not looked at")
    if converted.gone:
        remarks.append(f"{converted.gone} memories that were shown are gone, or of a mapped store: not looked at")
    return remarks


def _why_nothing(converted: Converted, *, limited: bool) -> str:
    if converted.messages:
        return "; ".join(["no query can be made of the feedback", *_remarks(converted)])
    return (
        f"there is no feedback{' of this tenant or time' if limited else ''}: callers give it by "
        "recall.feedback.v1, such as `await client.feedback(decision_id=..., used=[...], wrong=[...])`"
    )
