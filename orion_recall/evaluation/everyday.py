"""The everyday pass: whether a bundle meets all conditions that its query states.

    none      the query says that nothing answers it: nothing is selected, or at most three and the run says unsure
    evidence  otherwise all evidence is selected; in the categories recap, list, future and history at least 0.7 of
              it, or 10 ids, whichever is fewer
    first     where stated: the first selected is one of these
    stale     where stated: no stale id stands before the best-placed id of `first` (else, of the evidence that is
              not stale); with none of these selected, no stale id stands there at all
    outside   where true: at least 0.7 of what is selected is evidence, or allowed

A query without a line in the run fails as `missing`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from orion_recall.evaluation.dataset import JudgedQuery, RunLine

MOST_NEAREST = 3
_MEANS = ("recall", "first", "stale", "precision", "size")
_PARTIAL = ("recap", "list", "future", "history")
_ENOUGH, _SHARE_TENTHS = 10, 7


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """One query: the conditions that it violates, and what its bundle is apart from them.

    `recall`, `first`, `stale` (a stale id stood before the new) and `precision` are None where they do not apply.
    """

    query: JudgedQuery
    violated: tuple[str, ...]
    size: int
    unsure: bool = False
    recall: float | None = None
    first: bool | None = None
    stale: bool | None = None
    precision: float | None = None

    @property
    def passed(self) -> bool:
        return not self.violated


def is_everyday(queries: Sequence[JudgedQuery]) -> bool:
    return any(query.none or query.first or query.stale or query.outside for query in queries)


def judge(query: JudgedQuery, line: RunLine | None) -> Judgement:
    """The judgement on one query (`line` None: the run has none). A repeated id counts at its first place."""
    chosen = tuple(dict.fromkeys((line.selected or ()) if line is not None else ()))
    unsure = line is not None and line.unsure
    violated = ["missing"] if line is None else []
    if query.none:
        if chosen and not (unsure and len(chosen) <= MOST_NEAREST):
            violated.append("none")
        return Judgement(query=query, violated=tuple(violated), size=len(chosen), unsure=unsure)
    evidence, fine = query.evidence, query.evidence | query.allowed
    hits, kept = len(evidence.intersection(chosen)), sum(name in fine for name in chosen)
    if evidence and not _is_enough(query, hits):
        violated.append("evidence")
    first = chosen[:1] != () and chosen[0] in query.first if query.first else None
    if first is False:
        violated.append("first")
    stale = None
    if query.stale:
        new = query.first or evidence - query.stale
        best = min((chosen.index(name) for name in new.intersection(chosen)), default=len(chosen))
        stale = not query.stale.isdisjoint(chosen[:best])
        if stale:
            violated.append("stale")
    if query.outside and (not chosen or 10 * kept < _SHARE_TENTHS * len(chosen)):
        violated.append("outside")
    return Judgement(
        query=query,
        violated=tuple(violated),
        size=len(chosen),
        unsure=unsure,
        recall=hits / len(evidence) if evidence else None,
        first=first,
        stale=stale,
        precision=kept / len(chosen) if chosen else None,
    )


def _is_enough(query: JudgedQuery, hits: int) -> bool:
    if query.category in _PARTIAL:
        return hits >= _ENOUGH or 10 * hits >= _SHARE_TENTHS * len(query.evidence)
    return hits == len(query.evidence)


def judge_run(queries: Sequence[JudgedQuery], run: Mapping[str, RunLine]) -> list[Judgement]:
    return [judge(query, run.get(query.id)) for query in queries if query.scored]


def summary(judgements: Sequence[Judgement]) -> dict[str, float | int | None]:
    """The figures over some queries; a mean is None where it applies to none.

    `false` counts queries that nothing answers and that were answered as if something did, `empty` and `unsure` the
    others that were answered with nothing, or as unsure.
    """
    others = [one for one in judgements if not one.query.none]
    return {
        "n": len(judgements),
        "pass": _mean([one.passed for one in judgements]),
        **{name: _mean([getattr(one, name) for one in judgements]) for name in _MEANS},
        "false": sum("none" in one.violated for one in judgements),
        "empty": sum(one.size == 0 for one in others),
        "unsure": sum(one.unsure for one in others),
    }


def by_category(judgements: Sequence[Judgement]) -> dict[str, list[Judgement]]:
    names = sorted({one.query.category for one in judgements})
    return {name: [one for one in judgements if one.query.category == name] for name in names}


def _mean(values: Sequence[float | None]) -> float | None:
    told = [float(value) for value in values if value is not None]
    return sum(told) / len(told) if told else None
