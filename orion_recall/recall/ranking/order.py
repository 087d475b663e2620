"""The order of what may be shown: recaps session by session, each text once, low scores out."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from orion_recall.profile import Profile
from orion_recall.recall.pass_result import Dropped, PassResult
from orion_recall.recall.ranking.score import in_order
from orion_recall.recall.successors import without_superseded
from orion_recall.scoring.candidates import Candidate, ScoredCandidate
from orion_recall.scoring.part_values import READ_CHARS
from orion_recall.text.instructing import instructs_reader
from orion_recall.text.normal import is_question
from orion_recall.values import MemoryView, Question, ReaderInstructions

SUBSTANCE, TURN = "substance", "turn"
WEIGHTS: Final = {SUBSTANCE: 2.0, TURN: 1.0}
_WHOLE_LENGTH: Final = 160
_DAY_S: Final = 86_400.0
_NAME: Final = re.compile(r"(?<=[a-z,] )[A-Z]\w")


def in_recap(kept: Sequence[tuple[Candidate, MemoryView]]) -> list[ScoredCandidate]:
    """The candidates, scored as a recap needs them, best first."""
    told = [(substance(memory), candidate, memory) for candidate, memory in kept]
    told.sort(key=lambda one: (-one[0], one[2].ts or 0.0, one[2].id))
    places: dict[str | float, int] = {}
    scored: list[ScoredCandidate] = []
    for value, candidate, memory in told:
        session = memory.session_id or (memory.ts or 0.0) // _DAY_S
        places[session] = place = places.get(session, 0) + 1
        parts = {SUBSTANCE: value, TURN: 0.0 if memory.chatter else 1 / place}
        score = round(sum(WEIGHTS[name] * part for name, part in parts.items()) / sum(WEIGHTS.values()), 6)
        scored.append(
            ScoredCandidate(candidate=candidate, memory=memory, score=score, parts=parts, weights=WEIGHTS)
        )
    return in_order(scored)


def substance(memory: MemoryView) -> float:
    """How much a text tells, in [0, 1]: its length, and whether it has a number, a time or a name in it.

    A question tells half of that, chatter nothing.
    """
    if memory.chatter:
        return 0.0
    text = memory.text[:READ_CHARS]
    value = 0.5 * min(1.0, len(text) / _WHOLE_LENGTH)
    value += 0.25 * (bool(memory.told) or any(one.isdigit() for one in text)) + 0.25 * bool(_NAME.search(text))
    return value / 2 if is_question(text) else value


def said_once(ranked: Sequence[ScoredCandidate], dropped: Dropped) -> list[ScoredCandidate]:
    """The candidates, each text once: the first of equal ones, with those of other speakers or days as its `same`.

    Texts are equal when their normal forms are (case, spacing and punctuation do not count). One that the same
    speaker said on the same day says nothing more: it is dropped as a near-duplicate.
    """
    groups: dict[str, dict[tuple[str | None, float | None], ScoredCandidate]] = {}
    for item in ranked:
        memory = item.memory
        group = groups.setdefault(memory.text_hash, {})
        first = group.setdefault((memory.speaker, None if memory.ts is None else memory.ts // _DAY_S), item)
        if first is not item:
            dropped.note("near_duplicate", item.candidate.key, for_key=first.candidate.key)
    kept: list[ScoredCandidate] = []
    for group in groups.values():
        first, *others = group.values()
        kept.append(replace(first, same=tuple(others)) if others else first)
    return kept


def instructs(memory: MemoryView) -> bool:
    """Whether text or title of a memory has an instruction to whoever reads it."""
    return instructs_reader(memory.text) or instructs_reader(memory.title or "")


def with_instructing(result: PassResult, use: ReaderInstructions) -> PassResult:
    """The result with memories that instruct their reader held, or down; else as it is."""
    if use not in ("down", "hold"):
        return result
    instructing = {item.candidate.key for item in result.ranked if instructs(item.memory)}
    if not instructing:
        return result
    others = [item for item in result.ranked if item.candidate.key not in instructing]
    if use == "hold":
        for key in instructing:
            result.dropped.note("instructs_reader", key)
        return replace(result, ranked=tuple(others))
    down = [item for item in result.ranked if item.candidate.key in instructing]
    return replace(result, ranked=(*others, *down))


def reduced(
    scored: Sequence[ScoredCandidate],
    question: Question,
    profile: Profile,
    *,
    least: float,
    dropped: Dropped,
) -> list[ScoredCandidate]:
    """The candidates, best first, that score `least` or more, each said once.

    Memories that have a successor are left out where the profile omits them. `dropped` notes each reason.
    """
    kept: list[ScoredCandidate] = []
    for item in scored:
        if item.score >= least:
            kept.append(item)
        else:
            dropped.note("below_min_score", item.candidate.key)
    return said_once(without_superseded(kept, question, profile.superseded, dropped), dropped)
