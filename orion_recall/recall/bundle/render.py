"""A selected memory as one prompt-ready line: date, source and reference, then what it says."""

from __future__ import annotations

from datetime import UTC, datetime

from orion_recall.scoring.candidates import ScoredCandidate
from orion_recall.text.normal import one_line

_LONGEST_REFERENCE = 80


def head(scored: ScoredCandidate) -> str:
    """`- [2026-03-01 vector mem-17]`, `notes:17` for a memory of the mapped store `notes`.

    Text cannot imitate it: brackets in memory text are shown round. Of a very long id both ends are shown.
    """
    reference = one_line(scored.memory.id)
    if len(reference) > _LONGEST_REFERENCE:
        half = _LONGEST_REFERENCE // 2
        reference = f"{reference[: half - 1]}…{reference[-half:]}"
    return f"- [{_day(scored.memory.ts)} {scored.candidate.best_source} {reference}]"


def body(scored: ScoredCandidate) -> str:
    """The memory's text on one line, with title, speaker and statements, to be cut to a snippet."""
    memory = scored.memory
    text = one_line(memory.text)
    if memory.speaker:
        text = f"{one_line(memory.speaker)}: {text}"
    if memory.title:
        text = f"{one_line(memory.title)}: {text}"
    candidate = scored.candidate
    if candidate.statements and (candidate.best_source == "rdf" or candidate.path > 0):
        return f"{'; '.join(one_line(said) for said in candidate.statements)} ({text})"
    return text


def _day(ts: float | None) -> str:
    if ts is None:
        return "undated"
    try:
        return f"{datetime.fromtimestamp(ts, UTC):%Y-%m-%d}"
    except (OverflowError, ValueError, OSError):
        return "undated"
