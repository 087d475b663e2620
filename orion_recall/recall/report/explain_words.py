"""The explanation in words: why the first items of an answer came first."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from orion_recall.recall.bundle.selection import Selection
from orion_recall.scoring.candidates import ScoredCandidate
from orion_recall.scoring.parts import REASONS
from orion_recall.text.normal import one_line

MOST_TOLD = 3
_CLOSER = 0.01  # cosines that differ by less are the same to people
_BY: dict[str, str] = {
    "vector": "by meaning",
    "lexical": "by words",
    "rdf": "in the graph",
    "sql_timeline": "in the timeline",
}
_HOUR, _DAY = 3600.0, 86_400.0
# Scores are equal to 1e-6.
_SAME = 5e-7


class PartOfScore(Protocol):
    """One part of a score, as `explain.Part`."""

    @property
    def name(self) -> str: ...
    @property
    def value(self) -> float: ...
    @property
    def share(self) -> float: ...


ScoreShares = Callable[[ScoredCandidate], Sequence[PartOfScore]]


def why_first(
    selection: Selection, score_shares: ScoreShares, layers: Mapping[int, str], *, now: float
) -> list[str]:
    """One sentence or two for each of the first items; `layers` are those of a cascade, by the memory's key.

    Ids, names and statements of memories are in them, on one line: they are data.
    """
    items = [item.scored for item in selection.items]
    told: list[str] = []
    for place, item in enumerate(items[:MOST_TOLD], start=1):
        first = f"{one_line(item.memory.id)} is {ordinal(place)} with {item.score:.3f}: "
        reasons = "; ".join(_reasons(item, layers.get(item.candidate.key), score_shares, now))
        ahead = _ahead(item, items[place], score_shares) if place < len(items) else ""
        told.append(f"{first}{reasons}.{ahead}")
    return told


def _reasons(item: ScoredCandidate, layer: str | None, score_shares: ScoreShares, now: float) -> list[str]:
    values = {part.name: part.value for part in score_shares(item) if part.share > 0}
    said = [f"the graph says {one_line(statement)}" for statement in item.candidate.statements[:1]]
    return [_found(item, layer), *_named(item, values), *said, _age(item.memory.ts, now)]


def _found(item: ScoredCandidate, layer: str | None) -> str:
    """The item's rank in each source, the best first."""
    ranks = sorted(item.candidate.ranks.items(), key=lambda one: (one[1], one[0]))
    found = "found " + ", ".join(f"{ordinal(rank)} {_BY.get(source, f'by {source}')}" for source, rank in ranks)
    if not ranks:
        found = "reached from what was found"
    return found if layer is None else f"{found} in the layer {layer}"


def _named(item: ScoredCandidate, values: dict[str, float]) -> list[str]:
    """Further reasons that count in the score."""
    told: list[str] = []
    if values.get("speaker") == 1.0 and item.memory.speaker:
        told.append(f"said by {one_line(item.memory.speaker)}, whom the question names")
    if (time := values.get("time", 0.0)) > 0:
        told.append("of the time asked about" if time == 1.0 else "close to the time asked about")
    if values.get("tells_time") == 1.0:
        told.append("it tells a time, and the question asks when")
    if values.get("tells_name") == 1.0:
        told.append("it gives a name that the question does not have, and the question asks for one")
    if values.get("tells_number") == 1.0:
        told.append("it gives a number, and the question asks for one")
    if (rerank := values.get("rerank")) is not None:
        told.append(f"the reranker gives it {rerank:.2f}")
    # Without neighbours the part is the memory's own cosine, or the lowest one that the dense search reached.
    if values.get("neighbour", 0.0) > item.candidate.scores.get("vector", 1.0) + _CLOSER:
        told.append("the turn beside it is closer still")
    if (sure := values.get("confidence")) is not None:
        told.append(f"its confidence is {sure:.2f}")
    return told


def _age(ts: float | None, now: float) -> str:
    if ts is None:
        return "undated"
    age = now - ts
    if age < 0:
        return "of a time still to come"
    if age < 2 * _HOUR:
        return f"{age // 60:.0f} minutes old" if age >= 120 else "1 minute old"
    return f"{age // _HOUR:.0f} hours old" if age < 2 * _DAY else f"{age // _DAY:.0f} days old"


def _ahead(item: ScoredCandidate, following: ScoredCandidate, score_shares: ScoreShares) -> str:
    """By how much the item leads the next one, and the part with the largest share of that."""
    lead = item.score - following.score
    if lead < _SAME:
        return " The next scores the same; the newer one comes first, then the smaller id."
    theirs = {part.name: part.share for part in score_shares(following)}
    gains = {part.name: part.share - theirs.get(part.name, 0.0) for part in score_shares(item)}
    most = max(gains, key=lambda name: (gains[name], name))
    return f" It leads the next by {lead:.3f}, most of all by {REASONS.get(most, f'the part {most}')}."


def ordinal(number: int) -> str:
    """first, 2nd, 3rd, 4th …, 11th, 12th, 13th …, 21st."""
    if number == 1:
        return "first"
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"
