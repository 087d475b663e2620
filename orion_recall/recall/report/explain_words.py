"""The explanation in words: why the first items of an answer came first."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import UTC, tzinfo
from typing import Protocol

from orion_recall.recall.bundle.lines import day_of
from orion_recall.recall.bundle.selection import Selection
from orion_recall.recall.search.all_sources import INDEX_SOURCES
from orion_recall.scoring.candidates import LedBy, ScoredCandidate
from orion_recall.scoring.parts import REASONS
from orion_recall.text.normal import one_line
from orion_recall.values import SuccessionReason

MOST_TOLD = 3
_CLOSER = 0.01  # cosines that differ by less are the same to people
FOUND_BY: dict[str, str] = {
    "vector": "by meaning",
    "lexical": "by words",
    "rdf": "in the graph",
    "sql_timeline": "in the timeline",
}
LED_BY: dict[LedBy, str] = {
    "succession": "fetched with a memory that it succeeds",
    "follow_up": "fetched with the first hits, as they name it or stand beside it",
    "period": "listed as one of the time asked about",
    "": "fetched with what was found",
}
"""How a memory that no search found has come among the candidates."""
_STATED: dict[SuccessionReason, str] = {
    "supersedes": "a message said so",
    "by_person": "a person said so",
    "by_extractor": "the extractor read it so",
}
_HOUR, _DAY = 3600.0, 86_400.0
# Scores are equal to 1e-6.
_SAME = 5e-7
# Scores are shown to three digits.
_SHOWN = 5e-4


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
    selection: Selection,
    score_shares: ScoreShares,
    layers: Mapping[int, str],
    *,
    now: float,
    may_name: Callable[[int], bool],
    asker: str | None = None,
    names_time: bool = True,
    searched_of: Collection[str] = (),
    zone: tzinfo = UTC,
) -> list[str]:
    """One sentence or two for each of the first items; `layers` are those of a cascade, by the memory's key.

    `may_name` says of a memory's key whether the query may learn of it. `asker` is the speaker who asks, where the
    question does not name them. `names_time`: the question names a time; else a told time counts for being ahead.
    `searched_of`: the speakers whose words alone the index was searched for, in a search of their own. Days are
    those of the zone.

    Ids, names and statements of memories are in them, on one line: they are data.
    """
    items = [item.scored for item in selection.items]
    told: list[str] = []
    for place, item in enumerate(items[:MOST_TOLD], start=1):
        first = f"{one_line(item.memory.id)} is {ordinal(place)} with {item.score:.3f}: "
        layer = layers.get(item.candidate.key)
        reasons = "; ".join(
            [
                _found(item, layer, searched_of),
                *_reasons(
                    item, score_shares, now, may_name=may_name, asker=asker, names_time=names_time, zone=zone
                ),
            ]
        )
        ahead = _ahead(item, items[place], score_shares) if place < len(items) else ""
        told.append(f"{first}{reasons}.{ahead}")
    return told


def why_recap(selection: Selection, *, of_session: bool, is_widened: bool) -> list[str]:
    """What a recap holds, and in which order."""
    items = [item.scored.memory for item in selection.items]
    if not items:
        return []
    sessions = len({memory.session_id for memory in items} - {None})
    of = f"{len(items)} {'memory' if len(items) == 1 else 'memories'}"
    if sessions:
        of += f" of {sessions} session{'s'[: sessions != 1]}"
    times = [memory.ts or 0.0 for memory in items if not memory.chatter]
    order = (
        "in the order of time"
        if times == sorted(times)
        else "the best of each session before its further ones, and what tells more before what tells less"
    )
    chatter = ", chatter last" if any(memory.chatter for memory in items) else ""
    named = "session" if of_session else "time"
    of_it = "from a day before to a day after it, as nothing was found of it itself" if is_widened else "of it"
    taken = f"The question is taken as one about a {named} as a whole, so this is a recap"
    return [f"{taken}: {of} {of_it}, {order}{chatter}."]


def _reasons(
    item: ScoredCandidate,
    score_shares: ScoreShares,
    now: float,
    *,
    may_name: Callable[[int], bool],
    asker: str | None,
    names_time: bool,
    zone: tzinfo,
) -> list[str]:
    values = {part.name: part.value for part in score_shares(item) if part.share > 0}
    # Of a path all steps are told: the first alone may have nothing to do with the memory at its end.
    steps = item.candidate.statements[: 5 if item.candidate.path > 0 else 1]
    said = [f"read in texts for the graph: {', then '.join(map(one_line, steps))}"] if steps else []
    return [
        *_named(item, values, now, asker, names_time=names_time),
        *said,
        *_successions(item, may_name, zone),
        _age(item.memory.ts, now),
    ]


def _successions(item: ScoredCandidate, may_name: Callable[[int], bool], zone: tzinfo) -> list[str]:
    """What it succeeds with its score, and since when another one succeeds it; who says so."""
    told: list[str] = []
    if (older := item.succeeds) is not None:
        name = one_line(older.id) if may_name(older.key) else "another memory"
        told.append(f"it takes the place and the score of {name}, which it succeeds ({_STATED[older.reason]})")
    if (newer := item.ended) is not None:
        name = f" by {one_line(newer.id)}" if may_name(newer.key) else ""
        told.append(f"succeeded{name} on {day_of(newer.at, zone)} ({_STATED[newer.reason]})")
    return told


def _found(item: ScoredCandidate, layer: str | None, searched_of: Collection[str]) -> str:
    """The item's rank in each source, the best first; what led to it where no source found it.

    The index ranks the words of those in `searched_of` among their own, others among all.
    """
    ranks = sorted(item.candidate.ranks.items(), key=lambda one: (one[1], one[0]))
    speaker = item.memory.speaker
    own = f" among what {one_line(speaker)} said" if speaker and speaker in searched_of else ""
    if own and len(searched_of) > 1:
        own = " among what those said who are named"
    told = [
        f"{ordinal(rank)} {FOUND_BY.get(source, f'by {source}')}{own if source in INDEX_SOURCES else ''}"
        for source, rank in ranks
    ]
    found = f"found {', '.join(told)}"
    if not ranks:
        found = f"found by no search itself: {LED_BY[item.candidate.led_by]}"
    return found if layer is None else f"{found} in the layer {layer}"


def _named(
    item: ScoredCandidate, values: dict[str, float], now: float, asker: str | None, *, names_time: bool
) -> list[str]:
    """Further reasons that count in the score."""
    told: list[str] = []
    if (values.get("speaker") == 1.0 or values.get("asker") == 1.0) and (who := item.memory.speaker):
        if who == asker:
            told.append(f"said by {one_line(who)}, who asks")
        elif values.get("speaker") == 1.0:
            told.append(f"said by {one_line(who)}, whom the question names")
    if values.get("asker") == 1.0 and item.memory.speaker != asker:
        told.append("it addresses somebody, or has the name of the one who asks")
    if (time := values.get("time", 0.0)) > 0:
        told.append(
            "said in the time or session asked about"
            if time == 1.0
            else "said near the time asked about, or it names such a time"
        )
    if values.get("told", 0.0) > 0 and item.ended is None:  # a time of what was replaced is to come no more
        told.append(
            "a time that it names may be one that the question is about"
            if names_time
            else "a time that it names may still be to come, and the question names none"
        )
    if values.get("tells_time") == 1.0:
        told.append("it names a time, and the question asks when")
    if (rerank := values.get("rerank")) is not None:
        told.append(f"the reranker gives it {rerank:.2f}")
    # Without neighbours the part is the memory's own cosine, or the lowest one that the dense search reached.
    if values.get("neighbour", 0.0) > item.candidate.scores.get("vector", 1.0) + _CLOSER:
        told.append("a turn beside it in the talk is closer in meaning to the question than it is itself")
    if (sure := values.get("confidence")) is not None:
        told.append(f"its confidence is {sure:.2f}")
    return told


def _age(ts: float | None, now: float) -> str:
    if ts is None:
        return "undated"
    age = now - ts
    if age < 0:
        return f"{length(-age)} later than the time of the question"
    return f"{length(age)} old"


def length(age: float) -> str:
    """So many seconds in the unit that one would say."""
    if age < 2 * _HOUR:
        return f"{age // 60:.0f} minutes" if age >= 120 else "less than 2 minutes"
    return f"{age // _HOUR:.0f} hours" if age < 2 * _DAY else f"{age // _DAY:.0f} days"


def _ahead(item: ScoredCandidate, following: ScoredCandidate, score_shares: ScoreShares) -> str:
    """By how much the item leads the next one, and the part with the largest share of that."""
    lead = item.score - following.score
    if lead < -_SAME:
        return ""  # a calendar is in the order of its times
    if lead < _SAME:
        if following.ended is not None and following.ended.key == item.candidate.key:
            return ""
        return " The next scores the same; the newer one comes first, then the smaller id."
    if lead < _SHOWN:
        return " The next has nearly the same score: less than 0.001 lies between them."
    theirs = {part.name: part.share for part in score_shares(following)}
    gains = {part.name: part.share - theirs.get(part.name, 0.0) for part in score_shares(item)}
    most = max(gains, key=lambda name: (gains[name], name))
    reason = REASONS.get(most, f"the part {most}")
    if most == "session" and item.memory.session_id is None:
        reason = "how well it was found"  # it is a session of its own
    return f" It leads the next by {lead:.3f}, most of all by {reason}."


def ordinal(number: int) -> str:
    """first, 2nd, 3rd, 4th …, 11th, 12th, 13th …, 21st."""
    if number == 1:
        return "first"
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"
