"""The candidates of a recall as the decision log keeps them: ranks, parts of scores, and what was dropped for whom.

They hold ids and numbers, and no text. Memories that may not be seen are counted in `dropped` and not named here.
"""

from __future__ import annotations

from orion_recall.contracts import CandidateV1
from orion_recall.profile import Profile
from orion_recall.recall.report.explain import left_out, succession
from orion_recall.recall.types import Recalled
from orion_recall.scoring.candidates import Candidate, ScoredCandidate
from orion_recall.text.normal import number_of

_WHOLE = float(1 << 63)
_DIGITS = 6
# Those dropped before the final order get this part of the room, where there are so many.
_ROOM_OF_OTHERS = 3


def candidates_to_keep(profile: Profile, corr_id: str, *, is_traced: bool) -> int:
    """How many candidates a decision keeps; 0 for most. The correlation id decides, so that all workers agree."""
    kept = profile.decisions
    is_drawn = kept.share > 0 and number_of("candidates", corr_id) < kept.share * _WHOLE
    return kept.candidates if is_traced or is_drawn else 0


def candidates_of(recalled: Recalled, most: int) -> list[CandidateV1]:
    """The best candidates: those of the final order, then those that were dropped before it."""
    result = recalled.result
    if result is None:
        return []
    others = left_out(result, {item.candidate.key for item in recalled.ranked})
    ranked = recalled.ranked[: most - min(len(others), most // _ROOM_OF_OTHERS)]
    told = _ranked(recalled, ranked)
    names = {item.candidate.key: item.memory.id for item in (*result.scored, *recalled.ranked)}
    for candidate, memory, item, reason, for_key in others[: most - len(ranked)]:
        made = _of(candidate, memory.id, None if _is_of_other_scale(recalled, item) else item)
        told.append(made.model_copy(update={"dropped": reason, "dropped_for": names.get(for_key or 0)}))
    return told


def _ranked(recalled: Recalled, ranked: tuple[ScoredCandidate, ...]) -> list[CandidateV1]:
    kept = {item.scored.candidate.key for item in recalled.selection.items}
    told: list[CandidateV1] = []
    for place, item in enumerate(ranked, start=1):
        key = item.candidate.key
        of_order = {
            "place": place,
            "kept": key in kept,
            "dropped": recalled.selection.left_out.get(key),
            "layer": recalled.cascade.layers[key] if recalled.cascade else None,
        }
        told.append(_of(item.candidate, item.memory.id, item).model_copy(update=of_order))
    return told


def _is_of_other_scale(recalled: Recalled, item: ScoredCandidate | None) -> bool:
    """Whether it is the score of one layer, where those of several were merged."""
    return item is not None and recalled.cascade is not None and recalled.cascade.is_merged


def _of(candidate: Candidate, name: str, item: ScoredCandidate | None) -> CandidateV1:
    return CandidateV1(
        id=name,
        source=candidate.best_source,
        ranks={str(source): rank for source, rank in candidate.ranks.items()},
        fused=round(candidate.fused, _DIGITS),
        score=None if item is None else item.score,
        parts=_weighed(item),
        succeeds=None if item is None else succession(item.succeeds),
        ended_by=None if item is None else succession(item.ended),
        weights={} if item is None else {part: item.weights[part] for part in _weighed(item)},
    )


def _weighed(item: ScoredCandidate | None) -> dict[str, float]:
    """The parts that count: those with a weight."""
    if item is None:
        return {}
    return {name: round(value, _DIGITS) for name, value in item.parts.items() if item.weights.get(name, 0.0) > 0}
