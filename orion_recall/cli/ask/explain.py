"""`ask --explain`: why the first items came first, and the trace of the recall as tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

from rich.console import Console
from rich.text import Text

from orion_recall.cli.output import console, counted, pairs, table, visible, wrapped
from orion_recall.contracts import BundleStats, RecallReplyV1
from orion_recall.recall.report.explain import apportioned
from orion_recall.recall.report.sentences import (
    NOT_ASKED,
    dropped_words,
    ended_words,
    interval_words,
    no_answer_words,
    trigger_words,
    why_sentences,
)
from orion_recall.text.normal import one_line, words

Json = Mapping[str, Any]

_SHOWN, _LEFT_OUT = 15, 12
_DIGITS = 3
# From this width on a memory's words stand beside its score.
_WIDE = 120
_TEXT_CHARS = 80
_INDENT = "  "
_ASKED = {"name": "a name (of a person, a place or a thing)"}
_FACTORS = {
    "semantic_relevance": "relevance",
    "source_quality": "source quality",
    "recency": "recency",
    "consistency": "consistency",
    "completeness": "completeness",
}
_LED_BY: dict[str, str] = {"succession": "older one", "follow_up": "the first hits", "period": "its time"}
_SHORT: dict[str, str] = {"vector": "meaning", "lexical": "words", "rdf": "graph", "sql_timeline": "timeline"}


def show_explained(reply: RecallReplyV1) -> None:
    """Prints the trace of a reply, most important first."""
    stats = reply.bundle.stats
    show_trace(stats, cast("Json", stats.trace or {}))


def show_trace(stats: BundleStats, trace: Json) -> None:
    """Prints a trace, which may be without texts of memories, most important first."""
    out = console()
    _why(out, stats, trace)
    _understood(out, stats, trace)
    _cascade(out, trace.get("cascade"))
    _ranking(out, trace)
    _left_out(out, stats, trace)
    _sources(out, stats, trace)


def _head(out: Console, title: str) -> None:
    out.print()
    out.print(Text(title, style="bold"))


def _lines(out: Console, lines: Iterable[str]) -> None:
    """Wrapped between words, and indented."""
    for line in lines:
        for part in wrapped(visible(line), max(out.width - len(_INDENT), 20)):
            out.print(Text(f"{_INDENT}{part}"), soft_wrap=True)


def _why(out: Console, stats: BundleStats, trace: Json) -> None:
    _head(out, "Why these came first")
    if stats.no_answer is not None:
        looked_at = near_misses(stats)
        _lines(
            out,
            [f"Nothing is returned: {no_answer_words(stats.no_answer)}.{f' {looked_at}.' if looked_at else ''}"],
        )
    elif not trace.get("why"):
        _lines(out, ["Nothing was found that may be shown."])
    _lines(out, why_sentences(trace.get("why", ())))
    if stats.confidence is not None and stats.no_answer is None:  # of what is not handed over it says nothing
        _lines(out, [_sure(stats.confidence, trace)])
    if stats.answer_probability is not None:
        unsure = ", so the answer is unsure" if stats.unsure else ""
        _lines(out, [f"The probability that anything found answers it: {stats.answer_probability:.3f}{unsure}."])


def near_misses(stats: BundleStats) -> str | None:
    """What was found and is not handed over, as a sentence without its end; None where nothing was searched."""
    if stats.no_answer is None or not (count := stats.no_answer.near_misses):
        return None
    if (stats.dropped or {}).get("no_answer"):
        return f"{counted(count, 'memory', 'memories')} would have been handed over"
    return f"{counted(count, 'memory was', 'memories were')} looked at"


def _sure(overall: float, trace: Json) -> str:
    """The answer's confidence, and the factors of the item that it is of."""
    for one in trace.get("candidates", ()):
        sure = _confidence(one)
        if sure.get("overall") == overall:
            factors = ", ".join(f"{name} {sure[factor]:.2f}" for factor, name in _FACTORS.items())
            return f"How sure it is: {overall:.2f} ({sure['level']}), that of {one_line(one['id'])}: {factors}."
    return f"How sure it is: {overall:.2f}."


def _confidence(one: Json) -> Json:
    return cast("Json", one.get("confidence") or {})


def _understood(out: Console, stats: BundleStats, trace: Json) -> None:
    has_searched = stats.sources != {}  # a greeting has no source: what would have been searched for says nothing
    searched: Json = trace.get("searched", {}) if has_searched else {}
    known = dict(trace.get("understood", {}))
    time = known.pop("time", {})
    by_meaning = _without_people(searched.get("by_meaning"), known.get("people"))
    rows = (
        [("searched by meaning", by_meaning), ("searched by words", searched.get("by_words"))] if searched else []
    )
    if searched.get("named_speaker"):
        rows.append(("names", searched["named_speaker"]))
    intervals: Sequence[Json] = time.get("intervals", ()) if has_searched else ()
    zone = str(trace.get("zone") or "UTC")
    rows += [("time", visible(interval_words(one, zone))) for one in intervals]
    if has_searched and not intervals:
        rows.append(("time", "no date or period is read in it"))
    asks_for = [*(["time"] if time.get("asks_when") else []), *(known.pop("asks_for", None) or ())]
    if asks_for:
        rows.append(("asks for", " and ".join(_ASKED.get(kind, f"a {kind}") for kind in asks_for)))
    if time.get("session"):
        rows.append(("session", f"the {time['session']} one"))
    rows += _said_by(known.pop("said_by", None))
    rows += _named(known, trace.get("strategy"))
    if rendered := trace.get("render"):
        dates = ", with the dates of relative times" if rendered.get("relative_dates") else ""
        rows.append(("lines", f"in the style {rendered.get('style')}{dates}"))
    rows += [
        (name.replace("_", " "), _plain(value)) for name, value in known.items() if value not in (None, [], {}, "")
    ]
    _head(out, "What was understood")
    out.print(pairs(rows, indent=len(_INDENT)))


def _said_by(said: Json | None) -> Iterator[tuple[str, str]]:
    """Whose words are asked for, and what their topic does: of a known speaker's words it decides the order."""
    if not said:
        return
    by, about = " or ".join(said["speakers"]) or said["name"], said["about"]
    if not said["only"]:
        yield "said by", f"what was said by {by} first; others may answer, too"
        return
    if said.get("role"):
        yield (
            "said by",
            f"{by}, under which name nobody speaks: what reads as a report of it, else all that was found",
        )
        return
    then = ", in the time asked about" if said.get("then") else ""
    yield "said by", f"only what was said by {by}, or what reads as a report of it{then}"
    if said["speakers"]:
        yield (
            "ranks",
            f"by words and by meaning what {by} said is ranked by itself, what others said among everything",
        )
    if not about:
        return
    if not said["speakers"]:
        yield "about", f"{about}: a memory must have a word of it, as nobody of that name speaks"
    elif then:
        yield "about", f"{about}: it decides the order and leaves nothing out"
    else:
        yield (
            "about",
            f"{about}: it decides the order; where nothing that {by} said seems to be about it, there is no answer",
        )


def _without_people(by_meaning: str | None, people: Sequence[str] | None) -> str | None:
    """What is searched for by meaning, and that names are left out of it where they are."""
    if by_meaning is None or not people:
        return by_meaning
    there = set(words(by_meaning))
    left_out = [name for name in people if there.isdisjoint(words(name))]
    return f"{by_meaning} (without {', '.join(left_out)}: names are searched by words)" if left_out else by_meaning


def _named(known: dict[str, Any], strategy: object) -> Iterator[tuple[str, str]]:
    """The class with the words that decided it, whom and what the question names; taken out of what is known."""
    told, why = known.pop("class", None), known.pop("class_words", None) or ()
    people, entities = known.pop("people", None) or (), known.pop("entities", None) or ()
    if told is not None:
        telling = ", ".join(f'"{word}"' for word in why)
        by = f' (the profile has a strategy for it, "{strategy}")' if strategy is not None else ""
        yield "class", f"{told}{f': {telling}' if telling else ''}{by}"
    if people:
        yield "people", ", ".join(map(str, people))
    if entities:
        yield "entities", _plain(entities)


def _plain(value: object) -> str:
    """A list as words with commas, what has a name as its name and what else there is in brackets."""
    if isinstance(value, list):
        return ", ".join(_plain(one) for one in cast("list[object]", value))
    if isinstance(value, Mapping):
        parts = [visible(one) for one in cast("Json", value).values()]
        return f"{parts[0]} ({', '.join(parts[1:])})" if len(parts) > 1 else "".join(parts)
    return visible(value)


def _cascade(out: Console, cascade: Json | None) -> None:
    if cascade is None:
        return
    _head(out, "The cascade through the layers")
    rows = [
        (step["depth"], step["layer"], step["hits"], _share(step["confidence"]), round(step["ms"], 1), _step(step))
        for step in cascade["path"]
    ]
    out.print(table(("depth", "layer", "hits", "sure", "ms", ""), rows))
    trigger = trigger_words(cascade)
    _lines(out, [f"{trigger[0].upper()}{trigger[1:]}.", f"It ended because {ended_words(cascade)}."])


def _step(step: Json) -> str:
    if step["not_asked"]:
        return f"not asked: {NOT_ASKED[step['not_asked']]}"
    return f"too late: {', '.join(step['late'])}" if step["late"] else ""


def _ranking(out: Console, trace: Json) -> None:
    ranked = [one for one in trace.get("candidates", ()) if one.get("place")]
    shown = [one for one in ranked if one["kept"]] or ranked[:_SHOWN]
    if not shown:
        return
    _head(out, "What was handed over" if shown[0]["kept"] else "What was ranked best")
    is_wide = out.width >= _WIDE and any(one.get("text") for one in shown)
    columns = ["", "memory", "score", "made of", "found by", "sure"]
    has_layers = any(one.get("layer") for one in shown)
    rows: list[list[object]] = []
    for one in shown:
        row: list[object] = [
            one["place"], one["id"], _points(one["score"]), _made_of(one), _found_by(one, out),
            _share(_confidence(one).get("overall")),
        ]  # fmt: skip
        row += [one.get("layer")] if has_layers else []
        row += [_text(one)] if is_wide else []
        rows.append(row)
    out.print(table([*columns, *(["layer"] if has_layers else []), *(["what it says"] if is_wide else [])], rows))


def _made_of(one: Json) -> str:
    """The shares, which add up to the score as it is printed."""
    parts = [part for part in one["parts"] if part["weight"] > 0]
    shares = apportioned([part["share"] for part in parts], one["score"], _DIGITS)
    told = [f"{_points(share)} {part['part']}" for part, share in zip(parts, shares, strict=True) if share]
    return " + ".join(told)


def _points(value: float | None) -> str:
    """.782, as there is no score above 1; nothing where there is none."""
    return "" if value is None else f"{value:.{_DIGITS}f}".removeprefix("0")


def _share(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}".removeprefix("0")


def _found_by(one: Json, out: Console) -> str:
    """The rank in every source that found it; with the source's own score where there is room."""
    found = sorted(one["sources"].items(), key=lambda each: (each[1]["rank"], each[0]))
    if not found:
        return _LED_BY.get(one.get("led_by") or "", "another memory")
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
    """The best of them one by one, then how many of each reason there are."""
    counts = stats.dropped or {}
    if not counts:
        return
    dropped = [one for one in trace.get("candidates", ()) if one["dropped"]]
    best = sorted(dropped, key=lambda one: -(one["score"] or 0.0))[:_LEFT_OUT]
    rows = [(one["id"], _points(one["score"]), _found_by(one, out), _reason(one["dropped"])) for one in best]
    whole = sum(counts.values())
    _head(out, f"What was left out: the best {len(rows)} of {whole}" if len(rows) < whole else "What was left out")
    if rows:
        out.print(table(("memory", "score", "found by", "because"), rows))
    _lines(out, [f"{count} {dropped_words(reason)} ({reason})" for reason, count in counts.items()])


def _reason(dropped: Json) -> str:
    return dropped_words(str(dropped["reason"]), one_line(str(dropped["for"] or "another")))


def _sources(out: Console, stats: BundleStats, trace: Json) -> None:
    _head(out, "Where it was searched")
    if stats.sources == {}:
        _lines(out, ["Nowhere."])
    rows: Sequence[Sequence[object]] = [
        (name, one.status, one.count, round(one.ms, 1), one.error) for name, one in (stats.sources or {}).items()
    ]
    if rows or stats.sources is None:
        out.print(table(("source", "status", "hits", "ms", "error"), rows))
    stages = ", ".join(f"{name} {ms:.1f}" for name, ms in trace.get("stage_ms", {}).items())
    _lines(out, [f"Stages, in ms: {stages}."])
