"""`orion-recall eval feedback`: converts callers' feedback to judged queries."""

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
from orion_recall.cli.moments import MOMENT_HELP, moment
from orion_recall.cli.output import JsonFlag, console, counted, note, print_error, print_json
from orion_recall.decisions.feedback import FeedbackLog
from orion_recall.evaluation.feedback import Converted, LeftOut
from orion_recall.settings import Settings

_WHY: dict[LeftOut, str] = {
    "no_decision": "the decision is not in the log, or is another tenant's",
    "text_not_kept": "the query's text was not kept whole (ORION_QUERY_TEXT, or more than 4,000 characters)",
    "nothing_used": "nothing that was returned was used, so what should have been returned is unknown",
    "used_is_gone": "what was used is no memory of the record (any more)",
}


class _Nothing(Exception):
    """There is no query to write, and an existing file stays as it was."""


def judged_by_feedback(
    out: Annotated[
        Path,
        typer.Option(metavar="QUERIES.jsonl", help="The file to write; an existing one is replaced at the end."),
    ],
    since: Annotated[str | None, typer.Option(help=f"Only feedback that came later: {MOMENT_HELP}")] = None,
    tenant: Annotated[str | None, typer.Option(help="Only this tenant's.")] = None,
    data: DataFolder = None,
    as_json: JsonFlag = False,
) -> int:
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
        f"{out}: {counted(converted.queries, 'query')} of {counted(converted.messages, 'message')}; "
        f"{counted(converted.used, 'memory')} used, {converted.wrong} wrong, {converted.passed_over} passed over",
        markup=False,
        soft_wrap=True,
    )
    for line in _remarks(converted):
        note(line)
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
