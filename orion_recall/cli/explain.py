"""`ask --explain`: why the first items came first, and the trace of the recall as tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, cast

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from orion_recall.cli.output import Table, console, counted, heading, pairs, table, visible
from orion_recall.contracts import BundleStats
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
from orion_recall.text.normal import one_line

Json = Mapping[str, Any]

_SHOWN, _LEFT_OUT, _DIGITS = 15, 12, 3
# From this width on a memory's words stand beside its score.
_WIDE = 120
_TEXT_CHARS = 80
_INDENT = 2
_SHORT: dict[str, str] = {"vector": "meaning", "lexical": "words", "rdf": "graph", "sql_timeline": "timeline"}


def show_trace(stats: BundleStats, trace: Json) -> None:
    """Prints a trace, which may be without texts of memories, most important first."""
    out = console()
    _why(out, stats, trace)
    _understood(out, stats, trace)
    _cascade(out, trace.get("cascade"))
    _ranking(out, trace)
    _left_out(out, stats, trace)
    _sources(out, stats, trace)


def _lines(out: Console, lines: Iterable[str]) -> None:
    for line in lines:
        out.print(Padding(Text(visible(line)), (0, 0, 0, _INDENT)))


def _why(out: Console, stats: BundleStats, trace: Json) -> None:
    out.print(heading("Why these came first"))
    if stats.no_answer is not None:
        looked_at = near_misses(stats)
        _lines(
            out,
            [f"Nothing is returned: {no_answer_words(stats.no_answer)}.{f' {looked_at}.' if looked_at else ''}"],
        )
    elif not (sentences := [*why_sentences(trace)]):
        _lines(out, ["Nothing was found that may be shown."])
    else:
        _lines(out, sentences)
    if stats.confidence is not None and stats.no_answer is None:  # of what is not handed over it says nothing
        _lines(out, [_confidence(stats.confidence, trace)])
    if stats.probability is not None:
        unsure = ", so the answer is unsure" if stats.unsure else ""
        _lines(out, [f"The probability that anything found answers it: {stats.probability:.3f}{unsure}."])


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


def _understood(out: Console, stats: BundleStats, trace: Json) -> None:
    known = dict(trace.get("understood", {}))
    time: Json = known.pop("time", {})
    rows: list[tuple[str, object]] = []
    if stats.sources != {}:
        searched: Json = trace.get("searched", {})
        rows += [(f"searched {name.replace('_', ' ')}", value) for name, value in searched.items()]
        zone = str(trace.get("zone") or "UTC")
        intervals = [("time", interval_words(one, zone)) for one in time.get("intervals", ())]
        rows += intervals or [("time", "no date or period is read in it")]
    rows += [(name.replace("_", " "), value) for name, value in known.items()]
    rows += [(name.replace("_", " "), time.get(name)) for name in ("asks_when", "session")]
    out.print(heading("What was understood"))
    out.print(pairs([(name, _plain(value)) for name, value in rows if value], indent=_INDENT))


def _plain(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(_plain(one) for one in cast("list[object]", value))
    if isinstance(value, Mapping):
        parts = [_plain(one) for one in cast("Json", value).values() if one not in (None, [], {}, "")]
        return f"{parts[0]} ({', '.join(parts[1:])})" if len(parts) > 1 else "".join(parts)
    return visible(value)


def _cascade(out: Console, cascade: Json | None) -> None:
    if cascade is None:
        return
    out.print(heading("The cascade through the layers"))
    out.print(cascade_steps(cascade))
    trigger = trigger_words(cascade)
    _lines(out, [f"{trigger[0].upper()}{trigger[1:]}.", f"It ended because {ended_words(cascade)}."])


def cascade_steps(cascade: Json) -> Table:
    """A row for each layer that the cascade came to; `cascade` is a `CascadeV1` as JSON."""
    rows: list[tuple[object, ...]] = []
    for step in cascade["path"]:
        why = f"too late: {', '.join(step['late'])}" if step["late"] else ""
        if step["not_asked"]:
            why = f"not asked: {NOT_ASKED[step['not_asked']]}"
        sure = _points(step["confidence"], 2)
        rows.append((step["depth"], step["layer"], step["hits"], sure, round(step["ms"], 1), why))
    return table(("depth", "layer", "hits", "sure", "ms", ""), rows)


def source_table(stats: BundleStats) -> Table:
    """Name, status, hits, milliseconds and error of every source."""
    rows = [
        (name, one.status, one.count, round(one.ms, 1), one.error) for name, one in (stats.sources or {}).items()
    ]
    return table(("source", "status", "hits", "ms", "error"), rows)


def _ranking(out: Console, trace: Json) -> None:
    ranked = [one for one in trace.get("candidates", ()) if one.get("place")]
    shown = [one for one in ranked if one["kept"]] or ranked[:_SHOWN]
    if not shown:
        return
    out.print(heading("What was handed over" if shown[0]["kept"] else "What was ranked best"))
    columns = {
        "": [one["place"] for one in shown],
        "memory": [one["id"] for one in shown],
        "score": [_points(one["score"]) for one in shown],
        "made of": [_made_of(one) for one in shown],
        "found by": [_found_by(one, out) for one in shown],
        "sure": [_points(cast("Json", one.get("confidence") or {}).get("overall"), 2) for one in shown],
        "layer": [one.get("layer") for one in shown],
        "what it says": [_text(one) if out.width >= _WIDE else "" for one in shown],
    }
    told = {head: cells for head, cells in columns.items() if any(cells)}
    out.print(table(told, list(zip(*told.values(), strict=True))))


def _made_of(one: Json) -> str:
    parts = [part for part in one["parts"] if part["weight"] > 0]
    shares = apportioned([part["share"] for part in parts], one["score"], _DIGITS)
    told = [f"{_points(share)} {part['part']}" for part, share in zip(parts, shares, strict=True) if share]
    return " + ".join(told)


def _points(value: float | None, digits: int = _DIGITS) -> str:
    return "" if value is None else f"{value:.{digits}f}".removeprefix("0")


def _found_by(one: Json, out: Console) -> str:
    found = sorted(one["sources"].items(), key=lambda each: (each[1]["rank"], each[0]))
    if not found:
        return (one.get("led_by") or "another memory").replace("_", " ")
    return ", ".join(
        f"{_SHORT.get(source, source)} {how['rank']}"
        + (f" ({how['score']:.3g})" if out.width >= _WIDE and "score" in how else "")
        for source, how in found
    )


def _text(one: Json) -> str:
    said = one_line(str(one.get("text") or ""))
    said = said if len(said) <= _TEXT_CHARS else f"{said[: _TEXT_CHARS - 1]}…"
    return f"{one_line(one['speaker'])}: {said}" if one.get("speaker") else said


def _left_out(out: Console, stats: BundleStats, trace: Json) -> None:
    counts = stats.dropped or {}
    if not counts:
        return
    dropped = [one for one in trace.get("candidates", ()) if one["dropped"]]
    best = sorted(dropped, key=lambda one: -(one["score"] or 0.0))[:_LEFT_OUT]
    whole = sum(counts.values())
    of_how_many = f": the best {len(best)} of {whole}" if len(best) < whole else ""
    out.print(heading(f"What was left out{of_how_many}"))
    if best:
        rows = [(one["id"], _points(one["score"]), _found_by(one, out), _reason(one["dropped"])) for one in best]
        out.print(table(("memory", "score", "found by", "because"), rows))
    _lines(out, [f"{count} {dropped_words(reason)} ({reason})" for reason, count in counts.items()])


def _reason(dropped: Json) -> str:
    return dropped_words(str(dropped["reason"]), one_line(str(dropped["for"] or "another")))


def _sources(out: Console, stats: BundleStats, trace: Json) -> None:
    out.print(heading("Where it was searched"))
    if stats.sources == {}:
        _lines(out, ["Nowhere."])
    else:
        out.print(source_table(stats))
    stages = ", ".join(f"{name} {ms:.1f}" for name, ms in trace.get("stage_ms", {}).items())
    _lines(out, [f"Stages, in ms: {stages}."])
