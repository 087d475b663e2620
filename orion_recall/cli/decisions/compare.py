"""`orion-recall decisions compare`: profiles that are tried in service beside those that answer; and its tables."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer

from orion_recall.cli.connect.addresses import DataFolder, find, open_postgres
from orion_recall.cli.evaluate.output import interval
from orion_recall.cli.moments import MOMENT_HELP, moment
from orion_recall.cli.output import JsonFlag, console, counted, note, print_json, table
from orion_recall.decisions.comparison import Compared, Trial, compared_trials
from orion_recall.evaluation.replay.report import CHANGED_IS_NOT_WORSE, compared_json
from orion_recall.settings import Settings


def compare_profiles(
    profile: Annotated[str | None, typer.Option(help="Only those tried beside this profile.")] = None,
    since: Annotated[str | None, typer.Option(help=f"Only later answers: {MOMENT_HELP}")] = None,
    k: Annotated[int, typer.Option(min=1, max=100, help="Depth of the overlap.")] = 5,
    data: DataFolder = None,
    as_json: JsonFlag = False,
) -> None:
    """Compare profiles that are tried in service, as shadows or canaries, with those that answer.

    A shadow recalls the same queries after the reply, so its answers are paired; a canary answers a share of the
    sessions, so each side has queries of its own. The measures are those of `decisions replay`, over
    the newest 20,000 answers: shares of empty, unsure and degraded answers, times, overlap, and hit and MRR where
    callers gave feedback. A shadow reuses the vector of the question, so its times compare only roughly. For single
    answers: the view recall_trials.

    Example: `orion-recall decisions compare --since P7D`
    """
    after = moment("--since", since)

    async def compare(settings: Settings) -> list[Trial]:
        async with open_postgres(settings) as pool:
            return await compared_trials(pool, profile=profile, since=after, k=k)

    found = asyncio.run(compare(find(data)))
    if as_json:
        listed = [
            {
                "kind": one.kind,
                "profile": one.profile,
                "tried_profile": one.tried_profile,
                **compared_json(one.compared),
            }
            for one in found
        ]
        print_json({"k": k, "trials": listed})
        return
    for one in found:
        show_compared(one.compared, f"{one.tried_profile} as a {one.kind} of {one.profile}")
    note(CHANGED_IS_NOT_WORSE if found else "no query was answered under a shadow or beside a canary")


def show_compared(between: Compared, title: str) -> None:
    """A comparison as two tables: what each side is, and how alike they are where both answered."""
    out, (before, after) = console(), between.answers
    rows = [
        ("answers", before, after, "", ""),
        *(
            (
                name,
                f"{one.before:.4g}",
                f"{one.after:.4g}",
                f"{one.difference.mean:+.4g}",
                interval(one.difference),
            )
            for name, one in between.levels.items()
        ),
        *(
            (name, f"{times[0]:.4g}", f"{times[1]:.4g}", f"{times[1] - times[0]:+.4g}", "")
            for name, times in (("p50_ms", between.p50_ms), ("p95_ms", between.p95_ms))
        ),
    ]
    out.print(table(("", "before", "after", "difference", "95% interval"), rows, title=title))
    if between.means:
        alike = [
            (name, f"{one.mean.mean:.4f}", interval(one.mean), one.queries) for name, one in between.means.items()
        ]
        out.print(table(("both", "mean", "95% interval", "queries"), alike))
    if (judged := between.judged) is not None:
        count = judged.wins + judged.ties + judged.losses
        note(
            f"{title}: of {counted(count, 'query', 'queries')} with feedback {judged.wins} better, "
            f"{judged.losses} worse, {judged.ties} as good (p {judged.p:.3f})"
        )
