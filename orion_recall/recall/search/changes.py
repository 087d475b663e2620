"""Changes of a period: what says in it that something is different from then on, and what each of them succeeds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from orion_recall.memory.told_changes.clauses import heard_in, sentences_of, without_absences
from orion_recall.memory.told_changes.wishes import without_wishes
from orion_recall.memory.told_changes.word_lists import CueKind
from orion_recall.recall.ranking.outdated import links_in_force
from orion_recall.scoring.candidates import Candidate, ScoredCandidate
from orion_recall.scoring.intervals import overlap
from orion_recall.text.normal import is_question, words
from orion_recall.values import Interval, MemoryView
from orion_recall.when.told_start import told_start

Pair = tuple[Candidate, MemoryView]
READ_CHARS: Final = 1000
"""Characters of a memory in which a change is looked for."""
_TELLS: Final[frozenset[CueKind]] = frozenset(("change", "switch", "present", "amount", "shift", "end", "handover"))


def changes_of(within: Sequence[Pair], kept: Iterable[Pair], *, now: float, least: float) -> list[Pair]:
    """Of the memories of a period those that tell a change, and of all that were kept what these succeed.

    All of the period where none does. A succession counts from the confidence `least` on.
    """
    told: list[Pair] = []
    succeeded: set[int] = set()
    for candidate, memory in within:
        links = links_in_force(memory.succeeds, now=now, least=least)
        if links or tells_change(memory):
            told.append((candidate, memory))
            succeeded.update(link.key for link in links)
    if not told:
        return [*within]
    succeeded.difference_update(candidate.key for candidate, _ in told)
    return [*told, *(one for one in kept if one[0].key in succeeded)]


def tells_change(memory: MemoryView) -> bool:
    """Whether its first 1,000 characters say that something is different from now or a told time on.

    A question and a wish do not.
    """
    if memory.chatter:
        return False
    text = memory.text[:READ_CHARS].replace("’", "'")
    stated = [one for one in sentences_of(text) if not is_question(one)]
    if memory.told and memory.ts is not None and stated and told_start(text, memory.ts) is not None:
        return True
    return any(
        not _TELLS.isdisjoint(heard_in(words(without_absences(without_wishes(one.casefold()))))) for one in stated
    )


def order_of_changes(
    items: Sequence[ScoredCandidate], intervals: Sequence[Interval], *, now: float, least: float
) -> Mapping[int, tuple[float, float, str]]:
    """The place of each item, by key: when the change to which it belongs was said, when it was said, and its id.

    What is of another time than the intervals belongs to the first of those that succeed it, with the confidence
    `least` or more.
    """
    newest_first = sorted(items, key=lambda one: (one.memory.ts or 0.0, one.memory.id), reverse=True)
    begun: dict[int, float] = {}
    successors: dict[int, list[float]] = {}
    for item in newest_first:
        key, own = item.candidate.key, item.memory.ts or 0.0
        is_of_time = overlap(intervals, item.memory.ts, item.memory.until, exactly=True)
        begun[key] = own if is_of_time else min(successors.get(key, [own]))
        for link in links_in_force(item.memory.succeeds, now=now, least=least):
            successors.setdefault(link.key, []).append(begun[key])
    return {
        key: (begun[key], item.memory.ts or 0.0, item.memory.id)
        for item in items
        if (key := item.candidate.key) in begun
    }
