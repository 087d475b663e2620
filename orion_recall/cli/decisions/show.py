"""`orion-recall decisions show`: everything about one decision."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Annotated, cast

import typer
from rich.text import Text

from orion_recall.cli.connect.addresses import DataFolder, find, open_postgres
from orion_recall.cli.connect.ids import PREFIX_HELP, full_id
from orion_recall.cli.output import JsonFlag, console, pairs, print_error, print_json, prose, table, visible
from orion_recall.contracts import CascadeV1, RecallDecisionV1
from orion_recall.decisions.log import DecisionLog
from orion_recall.decisions.texts import SelectedTexts, selected_texts
from orion_recall.recall.report.sentences import NOT_ASKED, ended_words, trigger_words
from orion_recall.settings import Settings

# What has a part of its own.
_APART = {
    "sources",
    "selected",
    "stage_ms",
    "dropped",
    "selected_ids",
    "cascade",
    "candidates",
    "asked",
    "read_at",
    "build",
    "not_replayable",
}
_TEXT_CHARS = 300
Shown = tuple[RecallDecisionV1, SelectedTexts]


def show_decision(
    decision_id: Annotated[
        str, typer.Argument(metavar="ID", help=f"A correlation id, or a decision's id, {PREFIX_HELP}.")
    ],
    data: DataFolder = None,
    as_json: JsonFlag = False,
) -> int:
    """Show everything about one decision, by its own id or its correlation id.

    The texts of its memories are shown as they are now, where the login of ORION_POSTGRES_DSN may read them.

    Example: `orion-recall decisions show 875a5172`
    """

    async def get(settings: Settings) -> list[Shown]:
        async with open_postgres(settings) as pool:
            log = DecisionLog(pool)
            found = await log.get(decision_id)
            if not found and (name := await full_id("decision", decision_id, log.ids_starting)) is not None:
                found = await log.get(name)
            return [(one, await selected_texts(pool, one.id)) for one in found]

    found = asyncio.run(get(find(data)))
    if not found:
        print_error(
            "NotFound", f"there is no decision {decision_id!r} (the newest may be a moment late)", as_json=as_json
        )
        return 1
    if as_json:
        print_json(
            {
                "decisions": [decision.model_dump(mode="json") for decision, _ in found],
                "texts": {decision.id: asdict(texts) for decision, texts in found},
            }
        )
        return 0
    for decision, texts in found:
        _show(decision, texts)
    return 0


def _show(decision: RecallDecisionV1, texts: SelectedTexts) -> None:
    out = console()
    fields = decision.model_dump(mode="json", exclude=_APART)
    told = [(name, value) for name, value in fields.items() if value not in (None, "")]
    out.print(pairs(told))
    out.print(Text("\nWhat was asked, of which data, by which build", style="bold"))
    out.print(pairs(_taken_on(decision)))
    sources = [
        (name, one.status, one.count, one.stood_in, one.ms, one.error) for name, one in decision.sources.items()
    ]
    columns = ("source", "status", "hits", "hits are from", "ms", "error")
    out.print(table(columns, sources, title="\nWhat every source found"))
    kept = [
        (
            rank,
            one.id,
            one.source,
            round(one.score, 4),
            round(one.confidence.overall, 4) if one.confidence else None,
            ", ".join(f"{name} {part:.3f}" for name, part in one.parts.items()),
            ", ".join(f"{name} {rank}" for name, rank in one.ranks.items()),
        )
        for rank, one in enumerate(decision.selected, 1)
    ]
    columns = ("", "kept", "source", "score", "sure", "parts of the score", "ranks")
    out.print(table(columns, kept, title="\nWhat was kept"))
    if decision.selected_ids:
        _show_texts(texts)
    if decision.cascade is not None:
        _show_cascade(decision.cascade)
    out.print(table(("dropped because", "hits"), list(decision.dropped.items()), title="\nWhat was left out"))
    out.print(table(("stage", "ms"), list(decision.stage_ms.items()), title="\nWhere the time went"))
    out.print(Text())


def _taken_on(decision: RecallDecisionV1) -> Iterator[tuple[str, object]]:
    """What was asked beside the text, the positions read, the build, and whether it can be asked again."""
    asked = decision.asked or {}
    for name in ("options", "scope", "turn", "limits"):
        if value := asked.get(name):
            yield name, _told(value)
    for name in ("lane", "clock", "zone"):
        if value := asked.get(name):
            yield name, value
    if decision.read_at:
        yield "read at", _told(decision.read_at)
    if decision.build:
        yield "build", _told(decision.build)
    if decision.not_replayable is not None:
        yield "ask again", f"not possible as it was: {decision.not_replayable}"
    elif decision.asked is None:
        yield "ask again", "not known: a version that did not keep what was asked"
    else:
        yield "ask again", "possible as it was"


def _told(value: object) -> str:
    """`k 5, tags ["a", "b"]` of what has names, else the value itself."""
    if not isinstance(value, Mapping):
        return visible(value)
    parts = cast("Mapping[str, object]", value)
    return ", ".join(f"{name} {visible(part)}" for name, part in parts.items())


def _show_texts(texts: SelectedTexts) -> None:
    out = console()
    if texts.why_not is not None:
        out.print(Text("\nWhat they say", style="bold"))
        prose(f"not shown: {texts.why_not}")
        return
    rows: Sequence[tuple[object, ...]] = [
        (one.rank, one.memory_id, one.state, one.speaker, _cut(one.text)) for one in texts.items
    ]
    out.print(table(("", "memory", "since then", "speaker", "text"), rows, title="\nWhat they say now"))


def _cut(text: str | None) -> str | None:
    if text is None or len(text) <= _TEXT_CHARS:
        return text
    return f"{text[:_TEXT_CHARS]}…"


def _show_cascade(cascade: CascadeV1) -> None:
    steps = [
        (
            step.depth,
            step.layer,
            step.hits,
            step.confidence,
            step.ms,
            ", ".join(step.late),
            NOT_ASKED.get(step.not_asked or ""),
        )
        for step in cascade.path
    ]
    columns = ("depth", "layer", "hits", "sure", "ms", "too late", "not asked because")
    console().print(table(columns, steps, title="\nThe cascade through the layers"))
    told = cascade.model_dump()
    prose(visible(f"{trigger_words(told)}; {ended_words(told)}"))
