"""`orion-recall ask`: one question over the bus."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

import typer

from orion_recall.cli.ask.explain import near_misses, show_explained
from orion_recall.cli.connect.addresses import DataFolder, bus_of, find_started
from orion_recall.cli.moments import MOMENT_HELP, moment
from orion_recall.cli.output import JsonFlag, console, counted, note, print_error, print_json, prose, table, visible
from orion_recall.client import RecallClient
from orion_recall.contracts import BundleStats, RecallReplyV1
from orion_recall.recall.report.sentences import no_answer_words
from orion_recall.settings import Settings

app = typer.Typer(add_completion=False, rich_markup_mode="markdown")


@app.command()
def ask(
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The question.")],
    profile: Annotated[str | None, typer.Option(help="The profile to recall under (see `profiles list`).")] = None,
    session: Annotated[str | None, typer.Option(help="The session in which it is asked.")] = None,
    node: Annotated[str | None, typer.Option(help="The node that asks.")] = None,
    tenant: Annotated[str | None, typer.Option(help="The tenant whose memories are searched.")] = None,
    scope: Annotated[str | None, typer.Option(metavar="session|user|global", help="What may be searched.")] = None,
    user: Annotated[str | None, typer.Option(help="The user, for scope user.")] = None,
    agent: Annotated[str | None, typer.Option(help="Only memories of this agent (their agent_id).")] = None,
    run: Annotated[str | None, typer.Option(help="Only memories of this run (their run_id).")] = None,
    k: Annotated[int | None, typer.Option("--k", help="Items at most.")] = None,
    max_tokens: Annotated[int | None, typer.Option(help="Tokens of the rendered text at most.")] = None,
    budget: Annotated[str | None, typer.Option(metavar="low|mid|high", help="How deep to search.")] = None,
    since: Annotated[str | None, typer.Option(help=f"Only later memories: {MOMENT_HELP}")] = None,
    until: Annotated[str | None, typer.Option(help=f"Only earlier memories: {MOMENT_HELP}")] = None,
    as_of: Annotated[
        str | None, typer.Option(help=f'"Now" for this question: {MOMENT_HELP} --until leaves out later memories.')
    ] = None,
    timezone: Annotated[
        str | None,
        typer.Option(help="Zone of the question's days, and of times given without one: Europe/Berlin, +02:00."),
    ] = None,
    explain: Annotated[
        bool,
        typer.Option("--explain", help="Explain the answer, with every part of the scores."),
    ] = False,
    cascade: Annotated[
        bool | None,
        typer.Option("--cascade/--no-cascade", help="Search further layers while the confidence is too low."),
    ] = None,
    threshold: Annotated[float | None, typer.Option(help="Confidence below which a cascade goes on.")] = None,
    depth: Annotated[int | None, typer.Option(help="How many further layers may be searched.")] = None,
    by_layer: Annotated[
        bool, typer.Option("--by-layer", help="Show which layer of a cascade each item comes from.")
    ] = False,
    context: Annotated[
        str | None,
        typer.Option(help="What was said before: whom a question without a name means by she, it or there."),
    ] = None,
    no_answer: Annotated[
        bool | None,
        typer.Option(
            "--no-answer/--any-answer",
            help="Whether an answer that is not sure enough is withheld (default: the profile's).",
        ),
    ] = None,
    timeout: Annotated[float, typer.Option(min=0.01, help="Seconds to wait for the answer.")] = 10.0,
    data: DataFolder = None,
    as_json: JsonFlag = False,
) -> int:
    """Ask what is remembered, over the bus.

    Prints the bundle as a prompt gets it, and what every source found; with --explain also why these memories came
    first; with --json the whole reply. If an `up` is starting on the data folder, it is waited for.

    Example: `orion-recall ask "What is wrong with the crane?" --since "last week" --k 5`
    """
    # A worker would refuse it as well, and keep it among the messages that failed.
    if scope == "session" and session is None:
        raise typer.BadParameter("scope session needs --session")
    if scope == "user" and user is None:
        raise typer.BadParameter("scope user needs --user")
    settings = find_started(data)
    options: dict[str, Any] = {
        "tenant": tenant,
        "scope": scope,
        "user": user,
        "agent_id": agent,
        "run_id": run,
        "k": k,
        "max_tokens": max_tokens,
        "budget": budget,
        "since": moment("--since", since, timezone=timezone),
        "until": moment("--until", until, timezone=timezone, end=True),
        "as_of": moment("--as-of", as_of, timezone=timezone),
        "timezone": timezone,
        "cascade": cascade,
        "confidence_threshold": threshold,
        "max_cascade_depth": depth,
        "no_answer": no_answer,
        "context": context,
        "include": {"trace": explain, "layers": by_layer} if explain or by_layer else None,
    }
    fields: dict[str, Any] = {"profile": profile, "session_id": session, "node_id": node}
    fields = {name: value for name, value in fields.items() if value is not None}
    fields["options"] = {name: value for name, value in options.items() if value is not None}
    reply = asyncio.run(_recall(settings, text, fields, timeout))
    if as_json:
        print_json(reply.model_dump(mode="json", exclude_unset=True))
    if reply.error:
        print_error(reply.error.type, f"{reply.error.type}: {reply.error.message}", as_json=False)
        return 1
    if profile is not None and reply.bundle.stats.profile != profile:
        used = reply.bundle.stats.profile
        note(f"{used} was used: there is no profile {profile}, or its canary answers (`profiles list`, `status`)")
    of_cascade = by_layer or threshold is not None or depth is not None
    if of_cascade and cascade is None and all(item.layer is None for item in reply.bundle.items):
        note("--threshold, --depth and --by-layer are of a cascade, and there was none: add --cascade")
    if not as_json:
        show(reply, explain=explain)
    return 0


async def _recall(settings: Settings, text: str, fields: dict[str, Any], timeout_s: float) -> RecallReplyV1:
    async with RecallClient.connect(
        bus_of(settings),
        prefix=settings.prefix,
        service="orion-recall-cli",
        max_query_bytes=settings.max_query_bytes,
    ) as client:
        return await client.recall(text, timeout_s=timeout_s, **fields)


def show(reply: RecallReplyV1, *, explain: bool = False) -> None:
    """Prints the bundle, then the sources, or with `explain` everything that led to it."""
    out, stats = console(), reply.bundle.stats
    if reply.bundle.rendered:
        prose(visible(reply.bundle.rendered))
    else:
        note(nothing_of(stats))
    if reply.bundle.layers is not None:
        out.print()
        out.print(table(("layer", "items"), [(name, ", ".join(ids)) for name, ids in reply.bundle.layers.items()]))
    if explain:
        show_explained(reply)
    else:
        out.print()
        out.print(table(("source", "status", "hits", "ms", "error"), source_rows(stats)))
    prose(summary(reply))


def nothing_of(stats: BundleStats) -> str:
    """Why there is nothing to show, in words: it was withheld, nothing was asked, or nothing is there."""
    if (withheld := stats.no_answer) is None:
        left_out = ", ".join(f"{count} {why.replace('_', ' ')}" for why, count in (stats.dropped or {}).items())
        silent = ", ".join(name for name, one in (stats.sources or {}).items() if one.status in ("failed", "late"))
        found = f"nothing was found that may be shown; left out: {left_out}" if left_out else "nothing was found"
        return f"{found}; no answer from {silent}" if silent else found
    if (found := near_misses(stats)) is not None:
        hint = " (--any-answer shows what was found)" if (stats.dropped or {}).get("no_answer") else ""
        return f"nothing seems to answer this: {found}, but {no_answer_words(withheld)}{hint}"
    return f"nothing was searched: {no_answer_words(withheld)}"


def source_rows(stats: BundleStats) -> list[tuple[str, str, int, float, str | None]]:
    """Name, status, hits, milliseconds and error of every source."""
    return [
        (name, source.status, source.count, round(source.ms, 1), source.error)
        for name, source in (stats.sources or {}).items()
    ]


def summary(reply: RecallReplyV1) -> str:
    """One line on the whole answer."""
    stats = reply.bundle.stats
    left_out = ", ".join(f"{count} {reason}" for reason, count in (stats.dropped or {}).items())
    return (
        f"{stats.outcome}, {counted(len(reply.bundle.items), 'item')}, {counted(stats.tokens or 0, 'token')}, "
        f"{stats.latency_ms:.0f} ms, "
        f"profile {stats.profile}, decision {stats.decision_id}" + (f"; left out: {left_out}" if left_out else "")
    )
