"""The gate: thresholds that a tried profile has to keep to, as a command of a pipeline asks it.

    --fail-under overlap@5=.8,used_kept=1    the mean must not be under the value
    --fail-over empty=+.01,p95_ms=+10%       the mean must not be further above the one before than that

With `strict` the near end of the 95 % interval has to keep to it, not the mean. That of p95_ms has no interval.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal

from orion_recall.errors import SettingsError
from orion_recall.evaluation.decision_replay.logged import why_none
from orion_recall.evaluation.decision_replay.plan import ReplayPlan
from orion_recall.evaluation.decision_replay.run import ReplayRun
from orion_recall.evaluation.decision_replay.summary import Compared, Summary
from orion_recall.evaluation.score import Mean

_PART = re.compile(r"([a-z0-9_]+(?:@\d+)?)=([+]?)(\d*\.?\d+)(%?)")
LEAST_QUERIES = 50
# The exit codes of a verdict.
PASSED, FAILED, CANNOT_JUDGE = 0, 1, 2
LEVELS = ("empty", "items", "tokens", "confidence", "ms", "p95_ms")
_UNDER = ("overlap@", "same_first", "rbo", "identical", "used_kept", "wrong_removed")
_OVER = (*LEVELS, "flip")


@dataclass(frozen=True, slots=True, kw_only=True)
class Threshold:
    """One condition: `under` fails below the value, `over` above it; an increase may be `relative`."""

    measure: str
    value: float
    kind: Literal["under", "over"]
    relative: bool = False

    @property
    def text(self) -> str:
        """As on the command line."""
        sign = "" if self.kind == "under" or self.measure == "flip" else "+"
        value = f"{self.value * 100:g}%" if self.relative else f"{self.value:g}"
        return f"{self.measure}={sign}{value}"


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
        if self.passed is None:
            return "not judged"
        return "passed" if self.passed else "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The gate's verdict: passed, failed, or not to be judged, and why not."""

    checks: tuple[Check, ...]
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

    def verdict(self, run: ReplayRun, summary: Summary, plan: ReplayPlan) -> Verdict:
        """The verdict on a replay; a run without a query says why there is none."""
        return judge(
            summary.compared,
            self.thresholds,
            least_queries=self.least_queries,
            strict=self.strict,
            silent=run.silent,
            why_none=None if run.queries else why_none(run.chosen, plan.choice),
        )


def gate_of(
    under: str | None, over: str | None, k: int, *, min_queries: int | None = None, strict: bool = False
) -> Gate | None:
    """The gate that the options ask for; None without thresholds and without a least number of queries.

    SettingsError for what is no threshold, or is measured at another depth than `k`.
    """
    wanted = thresholds(under, over, k)
    if not wanted and min_queries is None:
        return None
    return Gate(thresholds=wanted, least_queries=min_queries or LEAST_QUERIES, strict=strict)


def thresholds(under: str | None, over: str | None, k: int) -> tuple[Threshold, ...]:
    """The thresholds of both options. SettingsError for what is none, or is measured at another depth."""
    found = [_threshold("--fail-under", part, "under") for part in _parts(under)]
    found += [_threshold("--fail-over", part, "over") for part in _parts(over)]
    for one in found:
        if one.measure.startswith("overlap@") and one.measure != f"overlap@{k}":
            raise SettingsError(f"--fail-under: {one.measure} is measured with --k {one.measure[8:]}, not {k}")
    return tuple(found)


def judge(
    compared: Compared,
    wanted: Sequence[Threshold],
    *,
    least_queries: int,
    strict: bool = False,
    silent: Collection[str] = (),
    why_none: str | None = None,
) -> Verdict:
    """The verdict on a comparison; none with fewer queries than `least_queries`, nor with silent sources.

    `why_none` says why there is no query at all, where that is so.
    """
    if silent:
        return Verdict(checks=(), cannot_judge=f"sources did not answer: {'; '.join(sorted(silent))}")
    if compared.queries < least_queries:
        few = f"{compared.queries} queries, and {least_queries} are wanted"
        return Verdict(checks=(), cannot_judge=f"{few}: {why_none}" if why_none else few)
    checks = tuple(_check(compared, one, strict=strict) for one in wanted)
    without = [check.threshold.measure for check in checks if check.found is None]
    if without:
        return Verdict(checks=checks, cannot_judge=f"no query has the measure {', '.join(without)}")
    return Verdict(checks=checks)


def _parts(text: str | None) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()] if text else []


def _threshold(option: str, part: str, kind: Literal["under", "over"]) -> Threshold:
    known = _UNDER if kind == "under" else _OVER
    match = _PART.fullmatch(part)
    if match is None or not (match[1] in known or (match[1].startswith("overlap@") and "overlap@" in known)):
        names = ", ".join(name.replace("@", "@K") for name in known)
        example = "overlap@5=.8" if kind == "under" else "empty=+.01 or p95_ms=+10%"
        raise SettingsError(f"{option}: {part!r} is no threshold such as {example}; there are {names}")
    if kind == "under" and (match[2] or match[4]):
        raise SettingsError(f"{option}: {part!r}: a mean is compared with a number, such as {match[1]}=.8")
    value = float(match[3]) / (100 if match[4] else 1)
    relative = bool(match[4]) and match[1] != "flip"  # that is a share itself, and was none before
    return Threshold(measure=match[1], value=value, kind=kind, relative=relative)


def _check(compared: Compared, one: Threshold, *, strict: bool) -> Check:
    found, queries, base = _found(compared, one, strict=strict)
    if found is None:
        return Check(threshold=one, found=None, queries=0, passed=None, words="no query has it")
    if one.kind == "under":
        passed, words = found >= one.value, f"{found:.4f}, at least {one.value:g}"
    else:
        most = one.value * base if one.relative else one.value
        passed, words = found <= most, f"{found:+.4f}, at most {most:+.4g}"
    return Check(threshold=one, found=found, queries=queries, passed=passed, words=words)


def _found(compared: Compared, one: Threshold, *, strict: bool) -> tuple[float | None, int, float]:
    """What is compared with the threshold, over how many queries, and what it was before."""

    def near(mean: Mean) -> float:
        if not strict:
            return mean.mean
        return mean.low if one.kind == "under" else mean.high

    if one.measure in compared.levels:
        level = compared.levels[one.measure]
        return (near(level.difference) if level.queries else None), level.queries, level.before
    if one.measure == "p95_ms":
        before, after = compared.p95_ms
        return after - before, compared.queries, before
    found = compared.means.get(one.measure)
    return (None, 0, 0.0) if found is None else (near(found.mean), found.queries, 0.0)
