"""The order of a recap: each session's best in turn, what matters first, chatter last.

No word of the question says which memory of a day is better. So a recap has score parts of its own: how much a text
tells, and its place among those of its session.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from orion_recall.recall.ranking.score import in_order
from orion_recall.scoring.candidates import Candidate, ScoredCandidate
from orion_recall.scoring.part_values import READ_CHARS
from orion_recall.text.normal import is_question
from orion_recall.values import MemoryView

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
