"""Repeats among ranked candidates: equal texts are handed over once, with all who said them and all their days."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from orion_recall.recall.pass_result import Dropped
from orion_recall.scoring.candidates import ScoredCandidate

_DAY_S = 86_400.0


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
