"""`orion-recall decisions sample` and `eval review`: decisions for people to judge, and back as judged queries."""

from __future__ import annotations

import asyncio
import contextlib
import json
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer

from orion_recall.atomic_file import whole_text
from orion_recall.cli.connect.addresses import DataFolder, find, open_postgres
from orion_recall.cli.connect.record import with_record
from orion_recall.cli.evaluate.files import refuse_to_replace
from orion_recall.cli.moments import MOMENT_HELP, moment
from orion_recall.cli.output import JsonFlag, counted, note, print_error, print_json
from orion_recall.decisions.sample import SampledDecision, sample_decisions
from orion_recall.evaluation.review import is_csv, read_review, write_review
from orion_recall.evaluation.tuning.feedback import Converted
from orion_recall.settings import Settings


def sample(
    out: Annotated[Path, typer.Option(metavar="REVIEW.csv", help="The file to write: .csv, or .jsonl.")],
    count: Annotated[int, typer.Option("--n", min=1, max=10_000, help="Decisions at most.")] = 100,
    profile: Annotated[str | None, typer.Option(help="Only those under this profile.")] = None,
    since: Annotated[str | None, typer.Option(help=f"Only later ones: {MOMENT_HELP}")] = None,
    tenant: Annotated[str | None, typer.Option(help="Only this tenant's.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Another seed gives other decisions.")] = 0,
    data: DataFolder = None,
    as_json: JsonFlag = False,
) -> int:
    """Write random decisions with question and bundle to a file, for people to judge.

    A row is one memory of one bundle. Its column `judgement` is empty: write relevant or irrelevant there, then
    `eval review` makes judged queries of it. Decisions whose text was not kept whole are left out. The login must
    read memories, such as a worker's. The file holds text of queries and memories: keep it as you keep them.

    Example: `orion-recall decisions sample --n 100 --since P7D --out review.csv`
    """
    as_csv = is_csv(out)

    async def sampled(settings: Settings, after: datetime | None) -> list[SampledDecision]:
        async with contextlib.AsyncExitStack() as stack:
            pool = await stack.enter_async_context(open_postgres(await with_record(settings, stack)))
            return await sample_decisions(pool, count, profile=profile, since=after, tenant=tenant, seed=seed)

    found = asyncio.run(sampled(find(data), moment("--since", since)))
    if not found:
        print_error("NotFound", "no such decision whose text was kept", as_json=as_json)
        return 1
    with whole_text(out) as lines:
        rows = write_review(lines, found, as_csv=as_csv)
    if as_json:
        print_json({"file": out, "decisions": len(found), "rows": rows})
    else:
        note(f"{out}: {counted(len(found), 'decision')}, {counted(rows, 'row')}; fill in the column judgement")
    return 0


def queries_of_review(
    review: Annotated[Path, typer.Argument(metavar="REVIEW.csv", help="A judged file of `decisions sample`.")],
    out: Annotated[Path, typer.Option(metavar="QUERIES.jsonl", help="The file to write; an existing is replaced.")],
    as_json: JsonFlag = False,
) -> int:
    """Make judged queries of a judged review file, for `eval run`, `worst`, `tune` and the others.

    Memories judged relevant are the evidence, irrelevant ones `wrong`; other memories of a bundle were passed over.
    Decisions of which nothing is relevant give no query. Exit code 1 when there is none at all.

    Example: `orion-recall eval review review.csv --out judged.jsonl`
    """
    refuse_to_replace(out, review)
    converted = Converted()
    made = [converted.add(one, 1) for one in read_review(review)]
    queries = [line for line in made if line is not None]
    if not queries:
        print_error("NotFound", f"{review}: no memory of it was judged relevant", as_json=as_json)
        return 1
    with whole_text(out) as lines:
        lines.writelines(json.dumps(line, ensure_ascii=False) + "\n" for line in queries)
    if as_json:
        print_json({"file": out, **asdict(converted)})
        return 0
    told = f"{converted.used} relevant, {converted.wrong} irrelevant, {converted.passed_over} not judged"
    note(f"{out}: {counted(len(queries), 'query')} of {counted(converted.recalls, 'judged decision')}; {told}")
    return 0
