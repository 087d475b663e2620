"""Values of the score parts of the graph: the question's entities that a memory holds, and the evidence for it."""

from __future__ import annotations

import math

from orion_recall.scoring.part_values import Column, PartInputs
from orion_recall.text.normal import words

WHOLE_EVIDENCE = 31
"""The weight of a memory's statements from which it has the whole part `evidence`."""


def overlap(given: PartInputs) -> Column | None:
    """The share of the question's entities that the memory or its statements hold; none without entities.

    An entity is held by its whole name or by a longer one: "Ana" by "Ana Miles"."""
    wanted = [frozenset(words(name)) for name in given.facts.entities]
    if not wanted:
        return None
    column: list[float | None] = []
    for (candidate, memory), _ in zip(given.candidates, given.memories, strict=True):
        if candidate.key in given.facts.unindexed and not memory.entities:
            column.append(None)  # nobody has looked for entities in it
            continue
        held = [frozenset(words(name)) for name in (*memory.entities, *candidate.statements)]
        column.append(sum(any(one <= other for other in held) for one in wanted) / len(wanted))
    return column


def evidence(given: PartInputs) -> Column | None:
    """The weight of the memory's statements: log2(1 + how often they are stated) / 5, at most 1.

    What several memories state weighs more, and so does a memory of several statements."""
    if not (weights := given.facts.evidence):
        return None
    whole = math.log2(1 + WHOLE_EVIDENCE)
    return [
        None
        if candidate.key in given.facts.unindexed
        else min(1.0, math.log2(1 + weights.get(candidate.key, 0.0)) / whole)
        for candidate, _ in given.candidates
    ]
