"""`orion-recall decisions`: the log as a list and by SQL, one decision and why its answer is as it is, deleting."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from functools import partial
from typing import Annotated

import typer

from orion_recall.cli.addresses import DataFolder, analyst_of, find, open_postgres, with_record
from orion_recall.cli.decisions.replay import compare_profiles, replay_decisions
from orion_recall.cli.evaluate.output import progress_bars
from orion_recall.cli.explain import cascade_steps, show_trace
from orion_recall.cli.options import MOMENT_HELP, moment
from orion_recall.cli.output import (
    JsonFlag,
    NotFound,
    Shown,
    counted,
    document,
    heading,
    limited,
    listed,
    note,
    show,
)
from orion_recall.cli.signals import interrupted_once
from orion_recall.contracts import RecallDecisionV1
from orion_recall.decisions.log import SQL_MOST_BYTES, DecisionLog, SqlResult
from orion_recall.decisions.memories import SelectedTexts, selected_texts
from orion_recall.decisions.retention import Deleted, count_older, purge_older
from orion_recall.errors import SettingsError
from orion_recall.evaluation.replay.run import AsOf, as_of_decision
from orion_recall.evaluation.vectors import VectorCache, default_folder
from orion_recall.postgres.pool import Pool
from orion_recall.recall.report.explain import stats_of
from orion_recall.recall.report.sentences import ended_words, trigger_words, why_not_sentence
from orion_recall.serving.explain import decision_named, explain_decision, why_not
from orion_recall.settings import Settings
from orion_recall.values import OUTCOMES

_MIN_PREFIX, _SHOWN, _TEXT_CHARS = 4, 5, 300
_ID_CHARS, _QUERY_CHARS = 8, 80
DecisionId = Annotated[
    str,
    typer.Argument(
        metavar="ID",
        help=f"A correlation id, or a decision's id, or its first {_MIN_PREFIX} or more characters, where no other "
        "begins so.",
    ),
]
_FIGURES = {"profile", "profile_hash", "outcome", "selected_ids", "dropped", "sources", "confidence", "tokens"}


app = typer.Typer(
    add_completion=False,
    rich_markup_mode="markdown",
    help="""Look into the decision log.

    It has one row for each query: what was found, kept and dropped, why, by which source, in how many ms, under
    which profile. The table is recall_decisions; its views are recall_queries, recall_selected,
    recall_candidates, recall_layers, recall_stage_ms, recall_trials, recall_follow_ups, recall_by_profile_hour,
    recall_by_source, recall_dropped, recall_memory_usage and recall_feedback_by_profile; recall_texts and
    recall_never_selected are for orion_reader; the profiles behind the hashes are in recall_profiles.

    Example: `orion-recall decisions sql "SELECT profile, count(*) FROM recall_decisions GROUP BY 1"`
    """,
)
app.command("replay")(replay_decisions)
app.command("compare")(compare_profiles)


@app.command("show")
def show_decision(decision_id: DecisionId, data: DataFolder = None, as_json: JsonFlag = False) -> None:
    """Show everything about one decision, by its own id or its correlation id.

    The texts of its memories are shown as they are now, where the login of ORION_POSTGRES_DSN may read them.

    Example: `orion-recall decisions show 875a5172`
    """

    async def get(settings: Settings) -> list[tuple[RecallDecisionV1, SelectedTexts]]:
        async with open_postgres(settings) as pool:
            log = DecisionLog(pool)
            found = await log.get(decision_id) or await log.get(await whole_id(decision_id, log.ids_starting))
            return [(one, await selected_texts(pool, one.id)) for one in found]

    found = asyncio.run(get(find(data)))
    show(
        {
            "decisions": [decision.model_dump(mode="json") for decision, _ in found],
            "texts": {decision.id: texts for decision, texts in found},
        },
        *(part for decision, texts in found for part in _parts(decision, texts)),
        as_json=as_json,
    )


@app.command("explain")
def explain_logged_decision(
    decision_id: DecisionId,
    memory: Annotated[str | None, typer.Option("--why-not", help="Why this memory is not in the answer.")] = None,
    tenant: Annotated[str | None, typer.Option(help="Only a decision of this tenant.")] = None,
    as_of: Annotated[AsOf, typer.Option(help="Ask again on the data of now, or of the decision.")] = "now",
    data: DataFolder = None,
    as_json: JsonFlag = False,
) -> None:
    """Explain a logged answer as `ask --explain` does, or say why a memory is not in it.

    It is told from the candidates that the decision kept (profile key `decisions`). Where it kept none, or they do
    not name the memory, the question is asked again on the data as they are now, which is said: with the decision's
    options, scope, clock and profile; nothing of that is counted or logged. With `--as-of decision` it is asked on
    an index and a graph that are built as they were, as `decisions replay` does. `--why-not` names the first stage
    that lost the memory, and by how much. Texts of memories are shown as they are now, where the login of
    ORION_POSTGRES_DSN may read them. Exit code 1: there is no such decision, or no such memory of its tenant.

    Example: `orion-recall decisions explain 875a5172 --why-not crane-05`
    """
    asyncio.run(_explain(find(data), decision_id, memory, tenant, as_of=as_of, as_json=as_json))


async def _explain(
    settings: Settings, name: str, memory: str | None, tenant: str | None, *, as_of: str, as_json: bool
) -> None:
    async with contextlib.AsyncExitStack() as stack:
        stack.enter_context(interrupted_once())
        settings = await with_record(settings, stack)
        pool = await stack.enter_async_context(open_postgres(settings))
        decision = await _named(pool, name, tenant)
        asker = None
        if as_of == "decision":
            asker = as_of_decision(VectorCache(default_folder()), stack.enter_context(progress_bars()))
        if memory is None:
            told = await explain_decision(pool, settings, decision, asker=asker)
            texts = await selected_texts(pool, decision.id)
        else:
            lost = await why_not(pool, settings, decision, memory, asker=asker)
            if lost is None:
                raise NotFound(f"there is no memory {memory!r} that the decision could have found")
            words = why_not_sentence(lost)
            value = {"decision": decision.id, "memory": memory, **asdict(lost), "words": words}
            show(value, f"{lost.stage}: {words}", as_json=as_json, remarks=lost.notes)
            return
    figures = told.decision.model_dump(mode="json", include=_FIGURES)
    document = {"decision": decision.id, "basis": told.basis, "notes": told.notes, **figures}
    show({**document, "trace": told.trace, "texts": texts}, as_json=as_json, remarks=told.notes)
    if not as_json:
        said = {one.memory_id: {"text": one.text, "speaker": one.speaker} for one in texts.items}
        candidates = [{**one, **said.get(one["id"], {})} for one in told.trace["candidates"]]
        show_trace(stats_of(told.decision), {**told.trace, "candidates": candidates})


async def _named(pool: Pool, name: str, tenant: str | None) -> RecallDecisionV1:
    if (decision := await decision_named(pool, name, tenant=tenant)) is not None:
        return decision
    whole = await whole_id(name, partial(DecisionLog(pool).ids_starting, tenant=tenant))
    if (decision := await decision_named(pool, whole, tenant=tenant)) is None:
        raise _no_decision(name)
    return decision


async def whole_id(given: str, starting: Callable[[str, int], Awaitable[Sequence[str]]]) -> str:
    """The one id that begins so, told on standard error. NotFound for none, SettingsError for several.

    `starting` gives up to so many ids that begin with a prefix.
    """
    found = await starting(given, _SHOWN + 1) if len(given) >= _MIN_PREFIX else ()
    if not found:
        raise _no_decision(given)
    if len(found) > 1:
        shown = ", ".join(found[:_SHOWN]) + (", and more" if len(found) > _SHOWN else "")
        raise SettingsError(f"{given!r} is the beginning of several decision ids: {shown}; give more characters")
    note(f"{given} is {found[0]}")
    return found[0]


def _no_decision(name: str) -> NotFound:
    return NotFound(f"there is no decision {name!r} (the newest may be a moment late)")


def _parts(decision: RecallDecisionV1, texts: SelectedTexts) -> Iterator[Shown]:
    left_out = {"candidates", "cascade", "selected_ids", "asked", "not_replayable"}
    told = decision.model_dump(mode="json", exclude=left_out)
    told |= {f"asked {name}": value for name, value in (decision.asked or {}).items()}
    is_known = "possible as it was" if decision.asked else "not known: what was asked was not kept"
    told["ask again"] = f"not possible as it was: {why}" if (why := decision.not_replayable) else is_known
    said = [asdict(one) | {"text": (one.text or "")[:_TEXT_CHARS]} for one in texts.items]
    yield from document(told | {"texts now": f"not shown, {texts.why_not}" if texts.why_not else said})
    if decision.cascade is not None:
        cascade = decision.cascade.model_dump()
        yield heading("The cascade through the layers")
        yield cascade_steps(cascade)
        yield f"{trigger_words(cascade)}; {ended_words(cascade)}"


@app.command("list")
def list_decisions(
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="Decisions at most.")] = 20,
    outcome: Annotated[str | None, typer.Option(help=f"Only these: {', '.join(OUTCOMES)}.")] = None,
    profile: Annotated[str | None, typer.Option(help="Only those under this profile.")] = None,
    since: Annotated[str | None, typer.Option(help=f"Only later ones: {MOMENT_HELP}")] = None,
    data: DataFolder = None,
    as_json: JsonFlag = False,
) -> None:
    """List the latest decisions, newest first.

    Ids are shortened to their first characters, which `decisions show` takes; --json has them whole.

    Example: `orion-recall decisions list --outcome empty --since P1D`
    """
    if outcome is not None and outcome not in OUTCOMES:
        raise SettingsError(f"--outcome: {outcome!r} is none of {', '.join(OUTCOMES)}")
    after = moment("--since", since)

    async def latest(settings: Settings) -> tuple[list[RecallDecisionV1], int]:
        async with open_postgres(settings) as pool:
            return await DecisionLog(pool).latest(limit, outcome=outcome, profile=profile, since=after)

    decisions, left_out = asyncio.run(latest(find(data)))
    rows = [
        (f"{one.created_at:%Y-%m-%d %H:%M}", one.id[:_ID_CHARS], one.profile, one.outcome, round(one.latency_ms, 1),
         len(one.selected_ids), one.query[:_QUERY_CHARS])
        for one in decisions
    ]  # fmt: skip
    of_others = f"{counted(left_out, 'decision')} left out: another version's, which this one cannot read"
    listed(
        {"decisions": [one.model_dump(mode="json") for one in decisions], "left_out": left_out},
        ("at (UTC)", "id", "profile", "outcome", "ms", "kept", "query"),
        rows,
        as_json=as_json,
        nothing="there is no such decision",
        remarks=[of_others if left_out else None],
    )


@app.command("sql")
def run_sql(
    sql: Annotated[str, typer.Argument(metavar="SQL", help="One statement that only reads.")],
    limit: Annotated[int, typer.Option(min=1, max=100_000, help="Rows at most.")] = 1000,
    data: DataFolder = None,
    as_json: JsonFlag = False,
) -> None:
    """Run a SELECT over the decision log, read-only, for up to 30 s and up to 8 MiB of rows.

    Example: `orion-recall decisions sql "SELECT * FROM recall_by_source ORDER BY hour DESC" --limit 8`
    """

    async def run(settings: Settings) -> SqlResult:
        async with open_postgres(analyst_of(settings), name="sql") as pool:
            return await DecisionLog(pool).run_sql(sql, limit)

    result = asyncio.run(run(find(data)))
    size = (
        f"limited to {SQL_MOST_BYTES >> 20} MiB, which are {counted(len(result.rows), 'row')}: name fewer columns, "
    )
    listed(
        {"columns": result.columns, "rows": result.rows, "truncated": result.truncated},
        result.columns if result.rows else ("columns of the result",),
        result.rows or [(name,) for name in result.columns],
        as_json=as_json,
        remarks=[
            None if result.rows else "there is no row; these are the columns that a row would have",
            size + "or shorten them, as left(query, 200)" if result.is_too_large else None,
            limited(limit + 1, limit, "row") if result.truncated and not result.is_too_large else None,
        ],
    )


@app.command("purge")
def purge_decisions(
    older_than: Annotated[str, typer.Option(help="Decisions older than this: 30d, 2 months ago, 2026-03-01.")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count what would be deleted.")] = False,
    data: DataFolder = None,
    as_json: JsonFlag = False,
) -> None:
    """Delete old decisions from the log, and print how many, from when to when.

    Decisions on the bus are not touched: they stay there for ORION_DECISIONS_KEEP_S after they were written here.
    Workers purge by themselves where ORION_DECISIONS_RETENTION_DAYS is set.

    Example: `orion-recall decisions purge --older-than 30d --dry-run`
    """
    before = moment("--older-than", older_than)
    if before is None or before > datetime.now(UTC):
        raise SettingsError(f"--older-than: {older_than!r} is in the future: that would be every decision")

    async def purge(settings: Settings) -> Deleted:
        async with open_postgres(settings) as pool:
            return await (count_older if dry_run else purge_older)(pool, before)

    gone = asyncio.run(purge(find(data)))
    what = "would be deleted" if dry_run else "deleted"
    listed(
        {"older_than": before, "dry_run": dry_run, **asdict(gone)},
        ("decisions", "oldest (UTC)", "newest (UTC)"),
        [(gone.count, gone.oldest or "", gone.newest or "")],
        as_json=as_json,
        remarks=[f"{counted(gone.count, 'decision')} from before {before:%Y-%m-%d %H:%M:%S} UTC {what}"],
    )
