"""Measures of two answers to one query. They say that something changed; only feedback says whether it is worse.

With A and B the ids of the two bundles in order, and U and W what callers used and what they called wrong:

    overlap@k       |A[:k] and B[:k]| / |A[:k] or B[:k]| (Jaccard); 1 where both are empty
    same_first      1 if both begin with the same memory, or both are empty
    rbo             rank-biased overlap, extrapolated, with p = 0.9: the first places weigh most (Webber, Moffat and
                    Zobel 2010, "A similarity measure for indefinite rankings", equation 32)
    identical       1 if A and B are the same ids in the same order
    flip            1 if one of them is empty and the other is not
    used_kept       |U and B| / |U|, where callers used something of the logged answer
    wrong_removed   |W, not in B| / |W|, where callers called something of the logged answer wrong
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from orion_recall.evaluation.decision_replay.logged import Answer, Judged

PERSISTENCE = 0.9


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """How the second of two answers differs from the first: `values` by measure, for those that apply.

    `used_lost` and `wrong_removed` are judged memories among the lost, `unjudged` is what nobody has judged of an
    answer that has judgements: the gained.
    """

    gained: tuple[str, ...]
    lost: tuple[str, ...]
    used_lost: tuple[str, ...]
    wrong_removed: tuple[str, ...]
    unjudged: tuple[str, ...]
    values: dict[str, float]


def change(before: Answer, after: Answer, k: int, judged: Judged) -> Change:
    """The change from one answer to the other."""
    a, b = before.ids, after.ids
    held, found = set(a), set(b)
    gained, lost = tuple(name for name in b if name not in held), tuple(name for name in a if name not in found)
    values = {
        f"overlap@{k}": overlap(a[:k], b[:k]),
        "same_first": float(a[:1] == b[:1]),
        "rbo": rank_biased_overlap(a, b),
        "identical": float(a == b),
        "flip": float(bool(a) != bool(b)),
    }
    if judged.used:
        values["used_kept"] = len(judged.used & found) / len(judged.used)
    if judged.wrong:
        values["wrong_removed"] = len(judged.wrong - found) / len(judged.wrong)
    return Change(
        gained=gained,
        lost=lost,
        used_lost=tuple(name for name in lost if name in judged.used),
        wrong_removed=tuple(name for name in lost if name in judged.wrong),
        unjudged=gained if judged.used or judged.wrong else (),
        values=values,
    )


def levels(answer: Answer) -> dict[str, float]:
    """What is measured of one answer alone: empty (1 or 0), items, tokens, ms, and its confidence if it has one."""
    found = {"empty": float(not answer.ids), "items": float(len(answer.ids)), "tokens": float(answer.tokens)}
    if answer.confidence is not None:
        found["confidence"] = answer.confidence
    return found | {"ms": answer.ms}


def overlap(a: Sequence[str], b: Sequence[str]) -> float:
    """The share of what either has that both have; 1 for two empty lists."""
    either = {*a, *b}
    return len({*a} & {*b}) / len(either) if either else 1.0


def rank_biased_overlap(a: Sequence[str], b: Sequence[str], p: float = PERSISTENCE) -> float:
    """Extrapolated rank-biased overlap of two lists without repetitions; 1 for two empty ones."""
    short, long = sorted((a, b), key=len)
    s, l = len(short), len(long)  # noqa: E741 (the names of the paper)
    if not l:
        return 1.0
    if not s:
        return 0.0
    seen_short, seen_long = set[str](), set[str]()
    common: list[int] = [0]
    for depth in range(l):
        seen_long.add(long[depth])
        if depth < s:
            seen_short.add(short[depth])
        common.append(len(seen_short & seen_long))
    total = sum(common[d] / d * p**d for d in range(1, l + 1))
    total += sum(common[s] * (d - s) / (s * d) * p**d for d in range(s + 1, l + 1))
    rest = ((common[l] - common[s]) / l + common[s] / s) * p**l
    return (1 - p) / p * total + rest
