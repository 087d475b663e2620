"""Filters: which candidates a query may see, and which cannot answer its question, whatever their score."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from orion_recall.contracts import RecallQueryV1
from orion_recall.interfaces import in_scope
from orion_recall.recall.candidates.fuse import read_of
from orion_recall.recall.search.period import in_period
from orion_recall.recall.types import Dropped, Pairs, Pool
from orion_recall.recall.understand.people import SaidBy
from orion_recall.scoring.candidates import Candidate
from orion_recall.scoring.intervals import is_told_of, overlap, told_ranges
from orion_recall.text.normal import memory_key, normal_form
from orion_recall.text.reported import reports
from orion_recall.values import MemoryView, Question, Scope

OWN_TURN_S = 120.0
_ACTIVE_TURN_S = 180.0
# Of a longer text only the beginning is compared; that excludes no fewer memories.
_MOST_CHARS = 4000
# A shorter text is part of many others: it is the turn only where it is the whole text.
_FEWEST_WORDS, _FEWEST_CHARS = 3, 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Exclusions:
    """Memories that a query excludes: by id, or by their `text` (in normal form) near the time `ts`. `is_cut`: the
    text is the beginning of a longer one, and may end inside a word."""

    ids: frozenset[str]
    text: str = ""
    ts: float = 0.0
    is_cut: bool = False

    @classmethod
    def of(cls, query: RecallQueryV1, now: float) -> Exclusions:
        """The exclusions of the options and of the hint about the active turn."""
        ids, turn = frozenset(query.options.exclude if query.options else ()), query.exclude
        if turn is None:
            return cls(ids=ids)
        return cls(
            ids=ids.union(turn.active_turn_ids),
            text=normal_form(turn.active_turn_text[:_MOST_CHARS]),
            is_cut=len(turn.active_turn_text) > _MOST_CHARS,
            ts=now if turn.active_turn_ts is None else turn.active_turn_ts,
        )

    def is_turn(self, memory: MemoryView) -> bool:
        """Whether the memory is the active turn: the same text at about the same time."""
        if not self.text or memory.ts is None or abs(self.ts - memory.ts) > _ACTIVE_TURN_S:
            return False
        said = normal_form(memory.text)
        is_short = len(self.text) < _FEWEST_CHARS or self.text.count(" ") < _FEWEST_WORDS - 1
        if is_short and not self.is_cut:
            return self.text == said
        return f" {self.text}{'' if self.is_cut else ' '}" in f" {said} "


# The same memories are found again and again, and to hash a hundred ids takes longer than to rank them.
_kept_key = lru_cache(maxsize=16_384)(memory_key)


def visible(pool: Pool, candidates: Sequence[Candidate]) -> Pairs:
    """The candidates that the query may see, with their memories: none that was changed or deleted after the
    position of the searched copies. While there are such memories, candidates lose their statements of the graph,
    which may come from any memory."""
    tombstones, position = pool.sources.tombstones, pool.applied_position
    if tombstones.any_above(position):
        live = [candidate for candidate in candidates if not tombstones.hides(candidate.key, position)]
        for candidate in live:
            candidate.statements, candidate.path = (), 0.0
        pool.found.dropped["deleted"] += len(candidates) - len(live)
        candidates = live
    scope, question, memories, dropped = pool.scope, pool.question, pool.found.memories, pool.found.dropped
    exclusions = Exclusions.of(pool.query, question.now)
    kept: list[tuple[Candidate, MemoryView]] = []
    # What can hold for no memory is not asked of each of a hundred.
    is_whole_tenant = scope == Scope(tenant=scope.tenant)
    excluded, has_turn, own_hash = exclusions.ids, bool(exclusions.text), question.text_hash
    for candidate in candidates:
        key = candidate.key
        if (memory := memories.get(key) or read_of(candidate)) is None:
            dropped.note("missing", key)
        elif not (is_whole_tenant or in_scope(memory, scope)) or (
            # A server, or a source of another package, may give any key.
            key in memories and _kept_key(scope.tenant, memory.id) != key
        ):
            dropped.note("filtered", key)
        elif excluded and memory.id in excluded:
            dropped.note("excluded", key)
        elif (memory.text_hash == own_hash and _is_own_turn(memory, question)) or (
            has_turn and exclusions.is_turn(memory)
        ):
            dropped.note("own_turn", key)
        else:
            kept.append((candidate, memory))
    return kept


def _is_own_turn(memory: MemoryView, question: Question) -> bool:
    return (
        memory.session_id is not None
        and memory.session_id == question.session_id
        and memory.ts is not None
        and abs(question.now - memory.ts) <= OWN_TURN_S
    )


async def keep_answering(pool: Pool) -> None:
    """The candidates that can answer: of whose words, of what time and of what period the question is."""
    kept, dropped = pool.kept, pool.found.dropped
    if (said := pool.understood.said_by) is not None and said.is_strict:
        kept = _said(kept, said, dropped)
    if pool.profile.time.filter:
        kept = _in_asked_time(kept, pool.question, dropped)
    pool.kept = in_period(kept, pool.understood, dropped) if pool.is_recap else kept


def _said(kept: Pairs, said: SaidBy, dropped: Dropped) -> Pairs:
    """The candidates that this person said, or that report it, of the time asked about; all where none is."""
    own = [
        (candidate, memory)
        for candidate, memory in kept
        if (memory.speaker in said.speakers or reports(memory.text[:_MOST_CHARS], said.names))
        and (not said.intervals or overlap(said.intervals, memory.ts, exactly=True))
    ]
    return dropped.others("not_said_by", kept, own) if own else kept


def _in_asked_time(kept: Pairs, question: Question, dropped: Dropped) -> Pairs:
    """The candidates of the time that the question names, where it names one; undated memories are dropped.

    They were said then, or tell of it, whichever the question means; what happened is told of afterwards.
    """
    intervals, ranges = question.time.intervals, told_ranges(question.time, question.now)

    def is_within(memory: MemoryView) -> bool:
        if question.time.of != "told" and overlap(intervals, memory.ts, memory.until):
            return True
        return bool(memory.told) and is_told_of(memory, ranges, ahead=question.time.ahead)

    return dropped.others("other_time", kept, [one for one in kept if is_within(one[1])]) if intervals else kept
