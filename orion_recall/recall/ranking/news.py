"""Newer memories that tell a change come first, for a question that says "now", "these days" or the like.

Who asks "Which recorder do I take these days?" knows that it may have changed, and wants "All interviews go
through the new one from now on", though a text that tells the older one at length has more of the question's words.
It counts more only where it is newer than the best one, was found nearly as well, and says that something has
changed in words of the question, or of their kind; where an amount or a time is asked for it tells one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from orion_recall.recall.ranking.newer import asked_kinds, speaks_less_of, states
from orion_recall.recall.ranking.reading import Said, reading_of
from orion_recall.recall.ranking.score import in_order
from orion_recall.recall.ranking.successions import moved
from orion_recall.recall.understand.tenses import says_now
from orion_recall.scoring.candidates import NewerThan, ScoredCandidate
from orion_recall.text.normal import words
from orion_recall.values import Question

_MOST: Final = 16
"""Candidates, from the best, that may tell it."""
_LEAST_SHARE: Final = 0.4
"""Of the best score: what was found worse than this is about something else."""
_LIFT: Final = 0.3
"""What it counts more, as a share of the best score."""


def with_news(ranked: Sequence[ScoredCandidate], question: Question) -> Sequence[ScoredCandidate]:
    """The candidates, best first; those that tell a change of what is asked about have a higher score."""
    if question.tense != "now" or len(ranked) < 2 or not says_now(words(question.text.casefold())):
        return ranked
    first = ranked[0]
    if (since := first.memory.ts) is None:
        return ranked
    asked, kinds = Said(question.text), asked_kinds(question)
    found: dict[int, ScoredCandidate] = {}
    for item in ranked[1:_MOST]:
        if item.score < _LEAST_SHARE * first.score or not states(item, since=since, until=question.now):
            continue
        if not speaks_less_of(first, item) and _tells_change(item, asked, kinds):
            why = NewerThan(first.candidate.key, first.memory.id, "news")
            found[item.candidate.key] = moved(item, item.score + _LIFT * first.score, why)
    return in_order(found.get(item.candidate.key, item) for item in ranked) if found else ranked


def _tells_change(item: ScoredCandidate, asked: Said, kinds: frozenset[str]) -> bool:
    """Whether it tells a change of what is asked about, with a value of these types where there are any."""
    said = reading_of(item.memory)
    whole = said.whole
    if not whole.is_new or whole.is_wish or (kinds and kinds.isdisjoint(whole.kinds)):
        return False
    return not (
        whole.telling.isdisjoint(asked.telling)
        and whole.families.isdisjoint(asked.families)
        and said.names.isdisjoint(asked.telling)
    )
