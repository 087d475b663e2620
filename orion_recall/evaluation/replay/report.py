"""The report of a replay: both comparisons, what changed, and the verdict of a gate, as objects and as JSON.

    --fail-under overlap@5=.8,used_kept=1    the mean must not be under the value
    --fail-over empty=+.01,p95_ms=+10%       the mean must not be further above the one before than that

With `strict` the near end of the 95 % interval has to keep to it, not the mean. That of p95_ms has no interval.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any, Literal

from orion_recall.decisions.comparison import Answer, Compared, Mean, Pair, compared
from orion_recall.errors import SettingsError
from orion_recall.evaluation.replay.run import Replayed, ReplayPlan, ReplayRun, why_none

CHANGED_IS_NOT_WORSE = (
    "Overlap says that something changed, not that it is worse: only feedback and judgements say that."
)
LEAST_QUERIES = 50
# The exit codes of a verdict.
PASSED, FAILED, CANNOT_JUDGE = 0, 1, 2

Kind = Literal["under", "over"]
_PART = re.compile(r"([a-z0-9_]+(?:@\d+)?)=([+]?)(\d*\.?\d+)(%?)")
_UNDER = ("overlap@", "same_first", "identical", "used_kept", "wrong_removed")
_OVER = ("empty", "unsure", "degraded", "items", "tokens", "confidence", "ms", "p50_ms", "p95_ms", "flip")


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedQuery:
    """One query that was asked again, with the pair of its answers that is compared, and their overlap."""

    replayed: Replayed
    pair: Pair
    overlap: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """A replay summed up. `drift` is the control against the log; `tried` the tried profile against
    the control.

    `why` counts what may be the reasons where the control is not the logged answer. `changed` are the queries whose
    compared answers differ (without a tried profile, those of the drift), the most different first.
    """

    drift: Compared
    tried: Compared | None
    k: int
    erased: int
    why: Mapping[str, int]
    changed: tuple[ComparedQuery, ...]

    @property
    def compared(self) -> Compared:
        return self.tried if self.tried is not None else self.drift


def summed_up(run: ReplayRun, *, k: int) -> Summary:
    """The summary of a replay, by the measures of `decisions.comparison`."""
    drift = [_compared_query(one, one.logged.answer, one.control, k) for one in run.queries]
    tried = [_compared_query(one, one.control, one.tried, k) for one in run.queries if one.tried is not None]
    shown = tried or drift
    changed = [one for one in shown if not one.pair.likeness(k)["identical"]]
    return Summary(
        drift=compared([one.pair for one in drift], k),
        tried=compared([one.pair for one in tried], k) if tried else None,
        k=k,
        erased=sum(bool(one.erased) for one in run.queries),
        why=Counter(one.why for one in run.queries if one.why is not None),
        changed=tuple(sorted(changed, key=lambda one: one.overlap)),
    )


def _compared_query(one: Replayed, before: Answer, after: Answer, k: int) -> ComparedQuery:
    pair = Pair(before=before, after=after, judged=one.logged.judged)
    return ComparedQuery(replayed=one, pair=pair, overlap=pair.likeness(k)[f"overlap@{k}"])


@dataclass(frozen=True, slots=True, kw_only=True)
class Threshold:
    """One condition: `under` fails below the value, `over` above it; an increase may be `relative`."""

    measure: str
    value: float
    kind: Kind
    relative: bool = False

    @property
    def text(self) -> str:
        sign = "" if self.kind == "under" or self.measure == "flip" else "+"
        return f"{self.measure}={sign}" + (f"{self.value * 100:g}%" if self.relative else f"{self.value:g}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One threshold and what was found: `found` and `passed` are None where no query has the measure."""

    threshold: Threshold
    found: float | None
    queries: int
    passed: bool | None
    words: str

    @property
    def verdict(self) -> Literal["passed", "failed", "not judged"]:
        """In a word."""
        return "not judged" if self.passed is None else "passed" if self.passed else "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The gate's verdict: passed, failed, or not to be judged, and why not."""

    checks: tuple[Check, ...] = ()
    cannot_judge: str | None = None

    @property
    def exit_code(self) -> int:
        """0 passed, 1 failed, 2 cannot judge."""
        if self.cannot_judge is not None:
            return CANNOT_JUDGE
        return PASSED if all(check.passed for check in self.checks) else FAILED


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """What a tried profile has to keep to, and over how many queries at least it is judged."""

    thresholds: tuple[Threshold, ...]
    least_queries: int = LEAST_QUERIES
    strict: bool = False

    @classmethod
    def of(
        cls, under: str | None, over: str | None, k: int, *, min_queries: int | None = None, strict: bool = False
    ) -> Gate | None:
        """The gate that the options ask for; None without thresholds and without a least number of queries.

        SettingsError for what is no threshold, or is measured at another depth than `k`.
        """
        wanted = (*_thresholds(under, "under"), *_thresholds(over, "over"))
        for one in wanted:
            if one.measure.startswith("overlap@") and one.measure != f"overlap@{k}":
                raise SettingsError(f"--fail-under: {one.measure} is measured with --k {one.measure[8:]}, not {k}")
        if not wanted and min_queries is None:
            return None
        return cls(thresholds=wanted, least_queries=min_queries or LEAST_QUERIES, strict=strict)

    def verdict(self, run: ReplayRun, summary: Summary, plan: ReplayPlan) -> Verdict:
        """The verdict; none with too few queries, nor with silent sources, nor without a measure that is wanted."""
        found = summary.compared
        if run.silent:
            return Verdict(cannot_judge=f"sources did not answer: {'; '.join(sorted(run.silent))}")
        if found.queries < self.least_queries:
            why = "" if run.queries else f": {why_none(run, plan.choice)}"
            return Verdict(cannot_judge=f"{found.queries} queries, and {self.least_queries} are wanted{why}")
        checks = tuple(_check(found, one, strict=self.strict) for one in self.thresholds)
        without = [check.threshold.measure for check in checks if check.found is None]
        why_not = f"no query has the measure {', '.join(without)}" if without else None
        return Verdict(checks=checks, cannot_judge=why_not)


def _thresholds(text: str | None, kind: Kind) -> list[Threshold]:
    return [_threshold(part.strip(), kind) for part in (text or "").split(",") if part.strip()]


def _threshold(part: str, kind: Kind) -> Threshold:
    option = f"--fail-{kind}"
    known = _UNDER if kind == "under" else _OVER
    match = _PART.fullmatch(part)
    if match is None or not (match[1] in known or (match[1].startswith("overlap@") and "overlap@" in known)):
        names = ", ".join(name.replace("@", "@K") for name in known)
        example = "overlap@5=.8" if kind == "under" else "empty=+.01 or p95_ms=+10%"
        gone = "; rbo is not measured any more: overlap@K is" if part.startswith("rbo") else ""
        raise SettingsError(f"{option}: {part!r} is no threshold such as {example}; there are {names}{gone}")
    if kind == "under" and (match[2] or match[4]):
        raise SettingsError(f"{option}: {part!r}: a mean is compared with a number, such as {match[1]}=.8")
    relative = bool(match[4]) and match[1] != "flip"  # that is a share itself, and was none before
    value = float(match[3]) / (100 if match[4] else 1)
    return Threshold(measure=match[1], value=value, kind=kind, relative=relative)


def _check(between: Compared, one: Threshold, *, strict: bool) -> Check:
    """The mean is compared, or with `strict` the near end of its interval."""

    def near(mean: Mean) -> float:
        return mean.mean if not strict else mean.low if one.kind == "under" else mean.high

    queries, base = between.queries, 0.0
    if (level := between.levels.get(one.measure)) is not None:
        found, queries, base = near(level.difference), level.queries, level.before
    elif one.measure in ("p50_ms", "p95_ms"):
        base, after = between.p50_ms if one.measure == "p50_ms" else between.p95_ms
        found = after - base
    elif (mean := between.means.get(one.measure)) is not None:
        found, queries = near(mean[0]), mean[1]
    else:
        return Check(threshold=one, found=None, queries=0, passed=None, words="no query has it")
    if one.kind == "under":
        passed, words = found >= one.value, f"{found:.4f}, at least {one.value:g}"
    else:
        most = one.value * base if one.relative else one.value
        passed, words = found <= most, f"{found:+.4f}, at most {most:+.4g}"
    return Check(threshold=one, found=found, queries=queries, passed=passed, words=words)


def as_json(
    run: ReplayRun, summary: Summary, verdict: Verdict | None, plan: ReplayPlan, *, redact: bool
) -> dict[str, Any]:
    """The whole replay as one object; with `redact` without the texts of queries."""
    choice = plan.choice
    return {
        "made_at": datetime.now(UTC).isoformat(),
        "tried_profile": None if plan.tried is None else plan.tried.profile,
        "as_of": plan.as_of,
        "since": None if choice.since is None else choice.since.isoformat(),
        "until": None if choice.until is None else choice.until.isoformat(),
        "profile_of": choice.profile,
        "tenant": choice.tenant,
        "class": choice.query_class,
        "sample": choice.sample,
        "seed": choice.seed,
        "queries": len(run.queries),
        "matching": run.matching,
        "apart": dict(run.apart),
        "not_replayable": dict(run.not_replayable),
        "with_erased_memories": summary.erased,
        "silent_sources": dict(run.silent),
        "seconds": round(run.seconds, 2),
        "k": summary.k,
        "control_against_logged": compared_json(summary.drift),
        "why_control_differs": dict(summary.why),
        "tried": None if summary.tried is None else compared_json(summary.tried),
        "changed": [_changed_json(one, redact=redact) for one in summary.changed],
        "note": CHANGED_IS_NOT_WORSE,
        "gate": None
        if verdict is None
        else {
            "exit_code": verdict.exit_code,
            "cannot_judge": verdict.cannot_judge,
            "checks": [asdict(check) | {"threshold": check.threshold.text} for check in verdict.checks],
        },
    }


def compared_json(between: Compared) -> dict[str, Any]:
    """A comparison as an object, as every report of a tried profile has it."""
    return {
        "queries": between.queries,
        "answers": {"before": between.answers[0], "after": between.answers[1]},
        "means": {name: asdict(mean) | {"queries": queries} for name, (mean, queries) in between.means.items()},
        "levels": {name: asdict(one) for name, one in between.levels.items()},
        "p50_ms": {"before": between.p50_ms[0], "after": between.p50_ms[1]},
        "p95_ms": {"before": between.p95_ms[0], "after": between.p95_ms[1]},
    }


def _changed_json(one: ComparedQuery, *, redact: bool) -> dict[str, Any]:
    logged, judged = one.replayed.logged, one.replayed.logged.judged
    return {
        "decision_id": logged.id,
        "at": logged.began.isoformat(),
        "tenant": logged.tenant,
        "profile": logged.profile,
        "class": logged.query_class,
        **({} if redact else {"query": logged.query.fragment}),
        "overlap": round(one.overlap, 4),
        "gained": list(one.pair.gained),
        "lost": list(one.pair.lost),
        "used_lost": [name for name in one.pair.lost if name in judged.used],
        "wrong_removed": [name for name in one.pair.lost if name in judged.wrong],
        "unjudged": list(one.pair.gained) if judged.used or judged.wrong else [],
    }
