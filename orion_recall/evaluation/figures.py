"""How good several ways to recall are over the same queries, each against one of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from orion_recall.evaluation.dataset import JudgedQuery
from orion_recall.evaluation.measures import Wanted, measure
from orion_recall.evaluation.score import Difference, Scores, compare, score
from orion_recall.evaluation.trials import Run


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """How good one way is, and what it does that the one it is held against does not (B is this one)."""

    name: str
    scores: Scores
    against: Mapping[str, Difference]


def figures_of(
    runs: Mapping[str, Run], queries: Sequence[JudgedQuery], *, against: str, depths: tuple[int, ...]
) -> list[Figures]:
    """A line for each run, in order; the differences are paired, query by query.

    What the bundle kept is not measured here: caps and token budget are another question.
    """
    wanted = Wanted(depths=depths)
    measured = {
        name: measure({key: replace(line, selected=None) for key, line in run.items()}, queries, wanted)
        for name, run in runs.items()
    }
    return [
        Figures(name=name, scores=score(one)[0], against=compare(measured[against], one, permutations=1000))
        for name, one in measured.items()
    ]
