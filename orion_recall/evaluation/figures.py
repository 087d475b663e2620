"""The figures of several runs over the same queries, each compared with one of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from orion_recall.evaluation.dataset import JudgedQuery
from orion_recall.evaluation.measures import Wanted, measure
from orion_recall.evaluation.score import Difference, Scores, compare, score
from orion_recall.evaluation.trials import Run


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """The scores of one run, and by measure its difference to the run it is compared with (B is this one)."""

    name: str
    scores: Scores
    against: Mapping[str, Difference]


def figures_of(
    runs: Mapping[str, Run], queries: Sequence[JudgedQuery], *, against: str, depths: tuple[int, ...]
) -> list[Figures]:
    """The figures of each run, in order; the differences are paired by query.

    The bundle is not measured here: only the ranking is compared, not caps and token budget.
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
