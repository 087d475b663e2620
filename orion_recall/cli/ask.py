"""`orion-recall ask`: one question over the bus, and its explanation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, cast

import typer
from rich.padding import Padding
from rich.text import Text

from orion_recall.cli.addresses import DataFolder, find_started, open_client, within
from orion_recall.cli.options import with_fields, with_times
from orion_recall.cli.output import (
    Remark,
    Shown,
    Table,
    console,
    counted,
    heading,
    note,
    pairs,
    print_error,
    show,
    visible,
    wants_json,
)
from orion_recall.contracts import BundleStats, RecallOptionsV1, RecallQueryV1, RecallReplyV1
from orion_recall.recall.report.reply import apportioned
from orion_recall.recall.report.sentences import (
    NOT_ASKED,
    dropped_words,
    ended_words,
    interval_words,
    no_answer_words,
    trigger_words,
    why_sentences,
)
from orion_recall.source_specs import by_name
from orion_recall.text.normal import one_line

Json = Mapping[str, Any]

_SHOWN, _LEFT_OUT, _DIGITS = 15, 12, 3
# From this width on a memory's words stand beside its score.
_WIDE = 120
_TEXT_CHARS = 80
_INDENT = 2


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
    explain: Annotated[bool, typer.Option("--explain", help="Also show sources, scores and reasons.")] = False,
    by_layer: Annotated[bool, typer.Option("--by-layer", help="Show the layer of each item.")] = False,
    timeout: Annotated[float, typer.Option(min=0.01, help="Seconds to wait for the answer.")] = 10.0,
    data: DataFolder = None,
) -> int:
    """Ask what is remembered, over the bus.

    Prints what a prompt gets, and then one line of figures; with --explain also sources and scores, and why these
    memories came first; with --json the whole reply. If an `up` is starting on the data folder, it is waited for.

    Example: `orion-recall ask "What is wrong with the crane?" --since "last week" --k 5`
    """
    # A worker would refuse it as well, and keep it among the messages that failed.
    for scope, given in (("session", query.get("session_id")), ("user", options.get("user"))):
        if options.get("scope") == scope and given is None:
            raise typer.BadParameter(f"scope {scope} needs --{scope}")
    settings = find_started(data)
    options = with_times(options, timezone=options.get("timezone"))
    if explain or by_layer:
        options["include"] = {"trace": explain, "layers": by_layer}
    reply = within(
        open_client(settings), lambda client: client.recall(text, timeout_s=timeout, **query, options=options)
    )
    value = reply.model_dump(mode="json", exclude_unset=True)
    if reply.error:
        show(value)
        print_error(f"{reply.error.type}: {reply.error.message}")
        return 1
    used, asked = reply.bundle.stats.profile, query.get("profile")
    if asked not in (None, used):
        note(f"{used} was used: there is no profile {asked}, or its canary answers (`profiles list`, `status`)")
    of_cascade = by_layer or not options.keys().isdisjoint(("confidence_threshold", "max_cascade_depth"))
    if of_cascade and "cascade" not in options and all(item.layer is None for item in reply.bundle.items):
        note("--threshold, --depth and --by-layer are of a cascade, and there was none: add --cascade")
    # Made for the eye alone: a trace of another version may lack what its sentences need.
    show(value, *(() if wants_json() else answer_shown(reply, explain=explain)))
    return 0


def answer_shown(reply: RecallReplyV1, *, explain: bool) -> Iterator[Shown]:
    """What the prompt gets, a line of figures, and with `explain` everything that led to it."""
    stats = reply.bundle.stats
    yield f"{reply.bundle.rendered}\n" if reply.bundle.rendered else Remark(nothing_of(stats))
    yield figures_of(stats, len(reply.bundle.items))
    if reply.bundle.layers is not None:
        yield ""
        yield Table(("layer", "items"), [(name, ", ".join(ids)) for name, ids in reply.bundle.layers.items()])
    if explain:
        yield from trace_shown(stats, stats.trace or {})


def figures_of(stats: BundleStats, items: int) -> str:
    """One line: how it ended, items, tokens, milliseconds, what was wrong if anything, profile and decision."""
    wrong = ["unsure"] if stats.unsure else []
    wrong += [f"no answer from {silent}"] if (silent := _silent(stats)) else []
    figures = counted(items, "item"), counted(stats.tokens or 0, "token"), f"{stats.latency_ms:.0f} ms"
    by = f"profile {stats.profile}, decision {stats.decision_id}"
    return ", ".join([f"{stats.outcome}", *figures, *wrong, by])


def _silent(stats: BundleStats) -> str:
    return ", ".join(name for name, one in (stats.sources or {}).items() if one.status in ("failed", "late"))


def nothing_of(stats: BundleStats) -> str:
    """Why there is nothing to show, in words: it was withheld, nothing was asked, or nothing is there."""
    if (withheld := stats.no_answer) is None:
        left_out = ", ".join(f"{count} {why.replace('_', ' ')}" for why, count in (stats.dropped or {}).items())
        found = f"nothing was found that may be shown; left out: {left_out}" if left_out else "nothing was found"
        return f"{found}; no answer from {silent}" if (silent := _silent(stats)) else found
    if (found := near_misses(stats)) is not None:
        hint = " (--any-answer shows what was found)" if (stats.dropped or {}).get("no_answer") else ""
        return f"nothing seems to answer this: {found}, but {no_answer_words(withheld)}{hint}"
    return f"nothing was searched: {no_answer_words(withheld)}"


def trace_shown(stats: BundleStats, trace: Json) -> Iterator[Shown]:
    """A trace, which may be without texts of memories, most important first."""
    is_wide = console().width >= _WIDE
    yield heading("Why these came first")
    yield from _lines(_why(stats, trace))
    yield heading("What was understood")
    yield pairs(_understood(stats, trace), indent=_INDENT)
    if (cascade := trace.get("cascade")) is not None:
        yield heading("The cascade through the layers")
        yield cascade_steps(cascade)
        trigger = trigger_words(cascade)
        yield from _lines([f"{trigger[0].upper()}{trigger[1:]}.", f"It ended because {ended_words(cascade)}."])
    candidates = trace.get("candidates", ())
    ranked = [one for one in candidates if one.get("place")]
    if shown := [one for one in ranked if one["kept"]] or ranked[:_SHOWN]:
        yield heading("What was handed over" if shown[0]["kept"] else "What was ranked best")
        yield _ranking(shown, is_wide=is_wide)
    if counts := stats.dropped or {}:
        dropped = [one for one in candidates if one["dropped"]]
        best, whole = sorted(dropped, key=lambda one: -(one["score"] or 0.0))[:_LEFT_OUT], sum(counts.values())
        yield heading(f"What was left out{f': the best {len(best)} of {whole}' if len(best) < whole else ''}")
        if best:
            rows = [
                (one["id"], _points(one["score"]), _found_by(one, is_wide=is_wide),
                 dropped_words(str(one["dropped"]["reason"]), one_line(str(one["dropped"]["for"] or "another"))))
                for one in best
            ]  # fmt: skip
            yield Table(("memory", "score", "found by", "because"), rows)
        yield from _lines(f"{count} {dropped_words(reason)} ({reason})" for reason, count in counts.items())
    yield heading("Where it was searched")
    yield from _lines(["Nowhere."]) if stats.sources == {} else [source_table(stats)]
    stages = ", ".join(f"{name} {ms:.1f}" for name, ms in trace.get("stage_ms", {}).items())
    yield from _lines([f"Stages, in ms: {stages}."])


def _lines(lines: Iterable[str]) -> Iterator[Padding]:
    return (Padding(Text(visible(line)), (0, 0, 0, _INDENT)) for line in lines)


def _why(stats: BundleStats, trace: Json) -> Iterator[str]:
    if stats.no_answer is not None:
        looked_at = near_misses(stats)
        yield f"Nothing is returned: {no_answer_words(stats.no_answer)}.{f' {looked_at}.' if looked_at else ''}"
    else:
        yield from [*why_sentences(trace)] or ["Nothing was found that may be shown."]
        if stats.confidence is not None:  # of what is not handed over it says nothing
            yield _confidence(stats.confidence, trace)
    if stats.probability is not None:
        unsure = ", so the answer is unsure" if stats.unsure else ""
        yield f"The probability that anything found answers it: {stats.probability:.3f}{unsure}."


def near_misses(stats: BundleStats) -> str | None:
    """What was found and is not handed over, as a sentence without its end; None where nothing was searched."""
    if stats.no_answer is None or not (count := stats.no_answer.near_misses):
        return None
    if (stats.dropped or {}).get("no_answer"):
        return f"{counted(count, 'memory', 'memories')} would have been handed over"
    return f"{counted(count, 'memory was', 'memories were')} looked at"


def _confidence(overall: float, trace: Json) -> str:
    for one in trace.get("candidates", ()):
        parts = dict(cast("Json", one.get("confidence") or {}))
        if parts.pop("overall", None) == overall:
            level = parts.pop("level", "")
            factors = ", ".join(f"{name.replace('_', ' ')} {value:.2f}" for name, value in parts.items())
            return f"How sure it is: {overall:.2f} ({level}), that of {one_line(one['id'])}: {factors}."
    return f"How sure it is: {overall:.2f}."


def _understood(stats: BundleStats, trace: Json) -> list[tuple[str, object]]:
    known = dict(trace.get("understood", {}))
    time: Json = known.pop("time", {})
    rows: list[tuple[str, object]] = []
    if stats.sources != {}:
        rows += [(f"searched {name}", value) for name, value in trace.get("searched", {}).items()]
        zone = str(trace.get("zone") or "UTC")
        intervals = [("time", interval_words(one, zone)) for one in time.get("intervals", ())]
        rows += intervals or [("time", "no date or period is read in it")]
    rows += [*known.items(), *((name, time.get(name)) for name in ("asks_when", "session"))]
    return [(name.replace("_", " "), _plain(value)) for name, value in rows if value]


def _plain(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(_plain(one) for one in cast("list[object]", value))
    if isinstance(value, Mapping):
        parts = [_plain(one) for one in cast("Json", value).values() if one not in (None, [], {}, "")]
        return f"{parts[0]} ({', '.join(parts[1:])})" if len(parts) > 1 else "".join(parts)
    return visible(value)


def cascade_steps(cascade: Json) -> Table:
    """A row for each layer that the cascade came to; `cascade` is a `CascadeV1` as JSON."""
    rows: list[tuple[object, ...]] = []
    for step in cascade["path"]:
        why = f"too late: {', '.join(step['late'])}" if step["late"] else ""
        if step["not_asked"]:
            why = f"not asked: {NOT_ASKED[step['not_asked']]}"
        sure = _points(step["confidence"], 2)
        rows.append((step["depth"], step["layer"], step["hits"], sure, round(step["ms"], 1), why))
    return Table(("depth", "layer", "hits", "sure", "ms", ""), rows)


def source_table(stats: BundleStats) -> Table:
    """Name, status, hits, milliseconds and error of every source."""
    rows = [
        (name, one.status, one.count, round(one.ms, 1), one.error) for name, one in (stats.sources or {}).items()
    ]
    return Table(("source", "status", "hits", "ms", "error"), rows)


def _ranking(shown: Sequence[Json], *, is_wide: bool) -> Table:
    columns = {
        "": [one["place"] for one in shown],
        "memory": [one["id"] for one in shown],
        "score": [_points(one["score"]) for one in shown],
        "made of": [_made_of(one) for one in shown],
        "found by": [_found_by(one, is_wide=is_wide) for one in shown],
        "sure": [_points(cast("Json", one.get("confidence") or {}).get("overall"), 2) for one in shown],
        "layer": [one.get("layer") for one in shown],
        "what it says": [_text(one) if is_wide else "" for one in shown],
    }
    told = {head: cells for head, cells in columns.items() if any(cells)}
    return Table(told, list(zip(*told.values(), strict=True)))


def _made_of(one: Json) -> str:
    parts = [part for part in one["parts"] if part["weight"] > 0]
    shares = apportioned([part["share"] for part in parts], one["score"], _DIGITS)
    told = [f"{_points(share)} {part['part']}" for part, share in zip(parts, shares, strict=True) if share]
    return " + ".join(told)


def _points(value: float | None, digits: int = _DIGITS) -> str:
    return "" if value is None else f"{value:.{digits}f}".removeprefix("0")


def _found_by(one: Json, *, is_wide: bool) -> str:
    found = sorted(one["sources"].items(), key=lambda each: (each[1]["rank"], each[0]))
    if not found:
        return (one.get("led_by") or "another memory").replace("_", " ")
    return ", ".join(
        f"{by_name()[source].found_in if source in by_name() else source} {how['rank']}"
        + (f" ({how['score']:.3g})" if is_wide and "score" in how else "")
        for source, how in found
    )


def _text(one: Json) -> str:
    said = one_line(str(one.get("text") or ""))
    said = said if len(said) <= _TEXT_CHARS else f"{said[: _TEXT_CHARS - 1]}…"
    return f"{one_line(one['speaker'])}: {said}" if one.get("speaker") else said
