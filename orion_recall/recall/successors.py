"""Successors in a recall: the newer memory before the one that it succeeds, and the older one marked or left out.

Only what was stated counts (`record.successions`); a successor said after the query's clock does not, nor one that
the query may not see. The mark "(until DATE)" of a line follows from `ScoredCandidate.ended`, which is set here and
written by `bundle.select.head`. The profile's key `superseded` is the switch: by `keep` nothing is moved or marked.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from orion_recall.recall.candidates.filters import visible
from orion_recall.recall.candidates.fuse import fetch
from orion_recall.recall.types import Dropped, Pool
from orion_recall.scoring.candidates import Candidate, ScoredCandidate
from orion_recall.values import MemoryView, Question, SuccessionLink, Superseded

MOST_FETCHED: Final = 50
"""Successors that are fetched in one round."""
ROUNDS: Final = 5
"""How far a chain of successors is followed to memories that no search found."""
# Questions about an earlier state need the older memory, even where a profile leaves such memories out.
_BEFORE: Final = re.compile(
    r"\b(before|previous(ly)?|former(ly)?|earlier|original(ly)?|used to|no longer|until)\b", re.I
)


async def add_successors(pool: Pool) -> None:
    """The newer memories that take the place of candidates, where no search found them: those of the scope."""
    if pool.profile.superseded == "keep" or not any(memory.succeeded_by for _, memory in pool.kept):
        return
    known = {candidate.key for candidate, _ in pool.kept} | pool.found.dropped.each.keys()
    timeout_s = pool.left_s
    for _ in range(ROUNDS):
        further: dict[int, Candidate] = {}
        for candidate, memory in pool.kept:
            for link in _in_force(memory, pool.question.now):
                if link.key not in known and len(further) < MOST_FETCHED:
                    known.add(link.key)
                    further[link.key] = Candidate(
                        key=link.key, best_source=candidate.best_source, led_by="succession"
                    )
        if not further:
            break
        unread = [key for key in further if key not in pool.found.memories]
        pool.found.memories = {
            **pool.found.memories,
            **await fetch(unread, pool.sources.readers, timeout_s=timeout_s),
        }
        found = [one for key, one in further.items() if key in pool.found.memories]
        pool.kept = [*pool.kept, *visible(pool, found)]


def successors_first(
    scored: Sequence[ScoredCandidate], switch: Superseded, *, now: float
) -> Sequence[ScoredCandidate]:
    """The candidates, best first, each successor right before the best of what it succeeds.

    A successor that stood lower takes that one's score with its parts: it is as relevant as what it replaces. Items
    are changed in place: `ended` is the link to an item's successor, `succeeds` the one whose place an item took.
    """
    if switch == "keep" or not any(item.memory.succeeded_by for item in scored):
        return scored
    by_key = {item.candidate.key: item for item in scored}
    placed: dict[int, ScoredCandidate] = {}

    def place(item: ScoredCandidate, path: frozenset[int]) -> None:
        key, path = item.candidate.key, path | {item.candidate.key}
        for link in _in_force(item.memory, now):
            newer = by_key.get(link.key)
            if newer is None or link.key in path:  # of a cycle the better one is no older one
                continue
            item.ended = item.ended or link
            if link.key not in placed:
                newer.score, newer.parts, newer.weights = item.score, item.parts, item.weights
                newer.succeeds = link._replace(key=key, id=item.memory.id)
                place(newer, path)
        placed[key] = item

    for item in scored:
        if item.candidate.key not in placed:
            place(item, frozenset())
    return list(placed.values())


def without_superseded(
    scored: Sequence[ScoredCandidate], question: Question, switch: Superseded, dropped: Dropped
) -> list[ScoredCandidate]:
    """The candidates without those that have ended, where the profile leaves them out; for a question about an
    earlier state all of them."""
    if switch != "omit" or question.time.is_past(question.now) or _BEFORE.search(question.text):
        return list(scored)
    there = {item.candidate.key for item in scored}
    kept: list[ScoredCandidate] = []
    for item in scored:
        if item.ended is not None and item.ended.key in there:
            dropped.note("superseded", item.candidate.key, for_key=item.ended.key)
        else:
            kept.append(item)
    return kept


def _in_force(memory: MemoryView, now: float) -> Iterator[SuccessionLink]:
    """The successors that had been said by then, the first to be said first."""
    return (link for link in memory.succeeded_by if link.at <= now)
