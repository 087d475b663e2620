"""`orion-recall ask`: one question over the bus."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

import typer

from orion_recall.cli.addresses import DataFolder, find_started, open_client
from orion_recall.cli.explain import near_misses, show_trace, source_table
from orion_recall.cli.options import with_fields, with_times
from orion_recall.cli.output import JsonFlag, console, counted, note, print_error, print_json, prose, table, visible
from orion_recall.contracts import BundleStats, RecallOptionsV1, RecallQueryV1, RecallReplyV1
from orion_recall.recall.report.sentences import no_answer_words


@with_fields("query", RecallQueryV1, "profile", "verb", "intent", session_id="--session", node_id="--node")
@with_fields(
    "options",
    RecallOptionsV1,
    *("tenant", "scope", "user", "k", "max_tokens", "budget", "min_score", "since", "until", "as_of", "timezone"),
    *("exclude", "cascade", "merge_strategy"),
    agent_id="--agent",
    run_id="--run",
    kinds="--kind",
    tags="--tag",
    confidence_threshold="--threshold",
    max_cascade_depth="--depth",
    no_answer="--no-answer/--any-answer",
)
def ask(
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The question.")],
    query: Any,
    options: Any,
    explain: Annotated[bool, typer.Option("--explain", help="Explain the answer and its scores.")] = False,
    by_layer: Annotated[bool, typer.Option("--by-layer", help="Show the layer of each item.")] = False,
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
    for scope, needed, given in (
        ("session", "session", query.get("session_id")),
        ("user", "user", options.get("user")),
    ):
        if options.get("scope") == scope and given is None:
            raise typer.BadParameter(f"scope {scope} needs --{needed}")
    settings = find_started(data)
    options = with_times(options, timezone=options.get("timezone"))
    if explain or by_layer:
        options["include"] = {"trace": explain, "layers": by_layer}

    async def recall() -> RecallReplyV1:
        async with open_client(settings) as client:
            return await client.recall(text, timeout_s=timeout, **query, options=options)

    reply = asyncio.run(recall())
    if as_json:
        print_json(reply.model_dump(mode="json", exclude_unset=True))
    if reply.error:
        print_error(reply.error.type, f"{reply.error.type}: {reply.error.message}", as_json=False)
        return 1
    used, asked = reply.bundle.stats.profile, query.get("profile")
    if asked not in (None, used):
        note(f"{used} was used: there is no profile {asked}, or its canary answers (`profiles list`, `status`)")
    of_cascade = by_layer or not options.keys().isdisjoint(("confidence_threshold", "max_cascade_depth"))
    if of_cascade and "cascade" not in options and all(item.layer is None for item in reply.bundle.items):
        note("--threshold, --depth and --by-layer are of a cascade, and there was none: add --cascade")
    if not as_json:
        show(reply, explain=explain)
    return 0


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
        show_trace(stats, stats.trace or {})
    else:
        out.print()
        out.print(source_table(stats))
    left_out = ", ".join(f"{count} {reason}" for reason, count in (stats.dropped or {}).items())
    prose(
        f"{stats.outcome}, {counted(len(reply.bundle.items), 'item')}, {counted(stats.tokens or 0, 'token')}, "
        f"{stats.latency_ms:.0f} ms, profile {stats.profile}, decision {stats.decision_id}"
        + (f"; left out: {left_out}" if left_out else "")
    )


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
