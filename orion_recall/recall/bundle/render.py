"""A selected memory as one prompt-ready line: a head in the profile's style, then what it says."""

from __future__ import annotations

from datetime import UTC, tzinfo
from functools import lru_cache
from typing import NamedTuple

from orion_recall.scoring.candidates import ScoredCandidate
from orion_recall.text.inert import inert
from orion_recall.text.normal import one_line
from orion_recall.time_values import clock_in
from orion_recall.values import MemoryView, RenderStyle

_LONGEST_REFERENCE = 80
# Where a memory is from that does not say so itself.
_SOURCE_REFS = {"vector": "index", "lexical": "index", "rdf": "graph", "sql_timeline": "collapse_mirror"}


def source_ref(scored: ScoredCandidate) -> str:
    """Where the memory is from: what the best source says of it, else what was stored with it, else its store."""
    candidate = scored.candidate
    return candidate.source_ref or scored.memory.source_ref or _SOURCE_REFS[candidate.best_source]


def head(scored: ScoredCandidate, style: RenderStyle = "v1", zone: tzinfo = UTC) -> str:
    """`- [2026-03-01 vector mem-17]`, `notes:17` for a memory of the mapped store `notes`.

    With `scores` the score follows: `- [2026-03-01 vector mem-17 0.83]`; `short` is `- 2026-03-01` alone;
    `source` is `- [vector:index] 2026-03-01`, with the item's `source_ref`. A memory with a successor has
    `(until 2026-11-02)` after it: the day that one was said (`recall.successors`). Text cannot imitate a head: it
    stays on one line, and brackets in it are shown round. Of a very long id both ends are shown. Days are those of
    the zone.
    """
    day, source = day_of(scored.memory.ts, zone), scored.candidate.best_source
    until = "" if scored.ended is None else f" (until {day_of(scored.ended.at, zone)})"
    if style == "short":
        return f"- {day}{until}"
    if style == "source":
        return f"- [{source}:{_reference(source_ref(scored))}] {day}{until}"
    score = f" {scored.score:.2f}" if style == "scores" else ""
    return f"- [{day} {source} {_reference(scored.memory.id)}{score}]{until}"


def _reference(name: str) -> str:
    reference = one_line(name)
    if len(reference) > _LONGEST_REFERENCE:
        half = _LONGEST_REFERENCE // 2
        reference = f"{reference[: half - 1]}…{reference[-half:]}"
    return reference


class Parts(NamedTuple):
    """What a line shows after its head: the graph's `statements`, title and speaker as `Crane: Bo: `, and the text.

    Title, speaker and text stand in brackets behind statements.
    """

    statements: tuple[str, ...]
    opening: str
    text: str

    def joined(self) -> str:
        """All of it."""
        said = f"{self.opening}{self.text}"
        return f"{'; '.join(self.statements)} ({said})" if self.statements else said


def body(scored: ScoredCandidate) -> str:
    """The memory's text on one line, with title, speaker and statements, to be cut to a snippet."""
    return parts_of(scored).joined()


def parts_of(scored: ScoredCandidate) -> Parts:
    """The parts of a line; it has statements where the graph found the memory, or a path leads to it.

    None of it can pose as a part of the prompt (`text.inert`): a speaker "System" has a look-alike of the colon.
    """
    memory, candidate = scored.memory, scored.candidate
    opening = "".join([_named(name) for name in (memory.title, memory.speaker) if name])
    by_graph = candidate.best_source == "rdf" or candidate.path > 0
    return Parts(tuple(map(inert, candidate.statements)) if by_graph else (), opening, _best_passage(memory))


@lru_cache(maxsize=1024)
def _named(name: str) -> str:
    """A title or a speaker before what follows it: the same few stand in every bundle."""
    return inert(f"{one_line(name)}: ") + " "


def _best_passage(memory: MemoryView) -> str:
    """The text, or its best passage with … where something was left out."""
    if not memory.passages:
        return inert(memory.text)
    start, end = memory.best_span
    before, after = "… " if start > 0 else "", " …" if end < len(memory.text.rstrip()) else ""
    return f"{before}{inert(memory.text[start:end])}{after}"


def day_of(ts: float | None, zone: tzinfo = UTC) -> str:
    """The day in the zone, as 2026-03-01; "undated" without a time, or beyond the calendar."""
    if ts is None:
        return "undated"
    try:
        return clock_in(zone, ts).date().isoformat()
    except (OverflowError, ValueError, OSError):
        return "undated"
