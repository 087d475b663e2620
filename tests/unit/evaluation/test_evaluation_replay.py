"""What is made of a replay: its summary, the verdict of a gate, its report, and why answers differ."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from orion_recall import __version__
from orion_recall.contracts import RecallQueryV1
from orion_recall.decisions.comparison import Answer
from orion_recall.decisions.memories import Judged
from orion_recall.errors import SettingsError
from orion_recall.evaluation.replay.report import CANNOT_JUDGE, FAILED, PASSED, Gate, Summary, as_json, summed_up
from orion_recall.evaluation.replay.run import (
    Choice,
    LoggedQuery,
    Replayed,
    ReplayPlan,
    ReplayRun,
    why_different,
)

NOON = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
PLAN = ReplayPlan(choice=Choice())


def answer(ids: str, *, tokens: int = 10, ms: float = 20.0, confidence: float | None = 0.5) -> Answer:
    """An answer whose memories have one letter each."""
    outcome = "ok" if ids else "empty"
    return Answer(ids=tuple(ids), outcome=outcome, tokens=tokens, confidence=confidence if ids else None, ms=ms)


def replayed(
    name: str, logged: str, control: str, tried: str | None, *, judged: Judged | None = None, text: str = "Who?"
) -> Replayed:
    query = LoggedQuery(
        id=name,
        tenant="acme",
        profile="reflect.v1",
        profile_hash="h",
        query_class="factual" if name < "c" else "temporal",
        query=RecallQueryV1(fragment=text),
        clock=NOON.timestamp(),
        began=NOON,
        read_at={},
        build={},
        answer=answer(logged),
        judged=judged or Judged(),
    )
    why = None if logged == control else "unknown"
    found = None if tried is None else answer(tried, tokens=12, ms=30.0)
    return Replayed(logged=query, control=answer(control), tried=found, why=why)


def summary_of(*queries: Replayed) -> tuple[ReplayRun, Summary]:
    run = ReplayRun(matching=len(queries), queries=list(queries))
    return run, summed_up(run, k=2)


USED_A_WRONG_B = Judged(used=frozenset("a"), wrong=frozenset("b"))
FOUR = (
    replayed("a", "abc", "abc", "abd", judged=USED_A_WRONG_B),
    replayed("b", "ab", "ab", "ba"),
    replayed("c", "a", "b", ""),
    replayed("d", "", "", "x", judged=USED_A_WRONG_B, text="<b>|`who`|</b> @all"),
)


def gate(under: str | None, over: str | None = None, *, least: int = 1, strict: bool = False) -> Gate:
    found = Gate.of(under, over, 2, min_queries=least, strict=strict)
    assert found is not None
    return found


def test_drift_and_profile_are_summed_up_apart() -> None:
    _, summary = summary_of(*FOUR)
    assert (summary.drift.means["identical"][0].mean, summary.why) == (0.75, {"unknown": 1})
    assert summary.tried is not None
    means = {name: mean.mean for name, (mean, _) in summary.tried.means.items()}
    assert (means["identical"], means["same_first"], means["flip"], means["overlap@2"]) == (0.0, 0.25, 0.5, 0.5)
    assert summary.tried.levels["confidence"].queries == 2, "only where both answers have one"
    assert [one.replayed.logged.id for one in summary.changed] == ["c", "d", "a", "b"], "the most different first"


@pytest.mark.parametrize(
    ("under", "over", "code"),
    [
        ("overlap@2=.5", None, PASSED),
        ("overlap@2=.51", None, FAILED),
        ("overlap@2=.5,used_kept=1", None, FAILED),
        (None, "empty=+0,unsure=+0,degraded=+0", PASSED),
        (None, "tokens=+2,ms=+10,flip=.5,p50_ms=+10", PASSED),
        (None, "tokens=+19%", FAILED),
        (None, "tokens=+20%,p95_ms=+50%", PASSED),
        (None, "flip=40%", FAILED),
    ],
)
def test_the_gate_passes_and_fails_by_its_thresholds(under: str | None, over: str | None, code: int) -> None:
    verdict = gate(under, over, least=4).verdict(*summary_of(*FOUR), PLAN)
    assert verdict.exit_code == code, verdict


def test_the_gate_cannot_judge_few_queries_silent_sources_nor_what_no_query_has() -> None:
    run, summary = summary_of(*FOUR)
    few = gate("overlap@2=0", least=5).verdict(run, summary, PLAN)
    assert (few.exit_code, few.cannot_judge) == (CANNOT_JUDGE, "4 queries, and 5 are wanted")
    run.silent["vector: late"] += 1
    assert gate("overlap@2=0").verdict(run, summary, PLAN).cannot_judge == "sources did not answer: vector: late"
    run, summary = summary_of(replayed("a", "ab", "ab", "ab"), replayed("b", "ab", "ab", "cd"))
    verdict = gate("overlap@2=.9,same_first=.5,used_kept=1").verdict(run, summary, PLAN)
    assert (verdict.exit_code, verdict.cannot_judge) == (CANNOT_JUDGE, "no query has the measure used_kept")
    assert [check.verdict for check in verdict.checks] == ["failed", "passed", "not judged"]
    checks = as_json(run, summary, verdict, PLAN, redact=False)["gate"]["checks"]
    assert [(check["threshold"], check["passed"]) for check in checks] == [
        ("overlap@2=0.9", False),
        ("same_first=0.5", True),
        ("used_kept=1", None),
    ]


@pytest.mark.parametrize(
    ("under", "over"),
    [
        ("overlap@2", None),
        ("overlap@5=.8", None),
        ("recall@5=.8", None),
        ("overlap@2=+.8", None),
        ("overlap@2=80%", None),
        ("overlap=.5", None),
        (None, "emptyish=1"),
    ],
)
def test_what_is_no_threshold_is_refused(under: str | None, over: str | None) -> None:
    with pytest.raises(SettingsError, match="--fail-"):
        Gate.of(under, over, 2)


def test_a_report_is_without_the_texts_of_queries_where_they_are_redacted() -> None:
    run, summary = summary_of(replayed("a", "ab", "ab", "ac", text="a secret question", judged=USED_A_WRONG_B))
    (changed,) = as_json(run, summary, None, PLAN, redact=False)["changed"]
    assert (changed["lost"], changed["gained"], changed["unjudged"]) == (["b"], ["c"], ["c"])
    for redact in (True, False):
        assert ("secret" in str(as_json(run, summary, None, PLAN, redact=redact))) != redact


HERE = {"version": __version__, "model": "m"}
AT_NINE = {"index": 9, "graph": 9}


def scored(**scores: float) -> Answer:
    return Answer(ids=tuple(scores), scores=scores)


@pytest.mark.parametrize(
    ("build", "read_at", "changes", "control", "words"),
    [
        (HERE, AT_NINE, {"erased": ("a",)}, scored(a=0.9), "erased since"),
        (HERE | {"version": "0.1"}, AT_NINE, {}, scored(a=0.9), "answered by version 0.1"),
        (HERE | {"model": "old"}, AT_NINE, {}, scored(a=0.9), "answered with the model old, this is m"),
        (HERE, AT_NINE, {"is_of_now": True}, scored(a=0.9), "have changed since"),
        (HERE, AT_NINE, {"copies": {"index": 10}}, scored(a=0.9), "index is further here"),
        (HERE, {}, {}, scored(a=0.9), "does not hold which changes"),
        (HERE, AT_NINE, {"position": 10}, scored(a=0.9), "under way"),
        (HERE, AT_NINE, {}, scored(b=0.5, a=0.5), "equal scores"),
        (HERE, AT_NINE, {}, scored(a=0.7, b=0.5), "unknown"),
        ({}, AT_NINE, {}, scored(a=0.5), "unknown"),
    ],
)
def test_the_first_reason_that_explains_it_is_given(
    build: Mapping[str, str], read_at: Mapping[str, int], changes: Mapping[str, Any], control: Answer, words: str
) -> None:
    logged = replace(FOUR[0].logged, build=build, read_at=read_at, answer=scored(a=0.5, b=0.5))
    told: dict[str, Any] = {"erased": (), "model": "m", "is_of_now": False, "copies": AT_NINE, "position": 9}
    assert words in why_different(logged, control, **told | dict(changes))
