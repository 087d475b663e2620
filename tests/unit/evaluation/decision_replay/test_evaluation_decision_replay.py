"""Measures of two answers, worked out by hand, and what is made of them: summary, gate, reports."""

from __future__ import annotations

import json
import math
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from orion_recall.contracts import RecallQueryV1
from orion_recall.errors import SettingsError
from orion_recall.evaluation.decision_replay.gate import (
    CANNOT_JUDGE,
    FAILED,
    LEAST_QUERIES,
    PASSED,
    Gate,
    gate_of,
    judge,
    thresholds,
)
from orion_recall.evaluation.decision_replay.logged import Answer, Choice, Chosen, Judged, LoggedQuery, why_none
from orion_recall.evaluation.decision_replay.measures import change, overlap, rank_biased_overlap
from orion_recall.evaluation.decision_replay.plan import ReplayPlan
from orion_recall.evaluation.decision_replay.report_files import ReportFiles
from orion_recall.evaluation.decision_replay.reports import as_json, junit, lines, markdown
from orion_recall.evaluation.decision_replay.run import Replayed, ReplayRun
from orion_recall.evaluation.decision_replay.summary import Summary, summed_up

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
    run = ReplayRun(chosen=Chosen(matching=len(queries)), queries=list(queries))
    return run, summed_up(run, k=2)


USED_A_WRONG_B = Judged(used=frozenset("a"), wrong=frozenset("b"))
FOUR = (
    replayed("a", "abc", "abc", "abd", judged=USED_A_WRONG_B),
    replayed("b", "ab", "ab", "ba"),
    replayed("c", "a", "b", ""),
    replayed("d", "", "", "x", judged=USED_A_WRONG_B, text="<b>|`who`|</b> @all"),
)


@pytest.mark.parametrize(
    ("a", "b", "jaccard", "rbo"),
    [
        ("abc", "abc", 1.0, 1.0),
        ("", "", 1.0, 1.0),
        ("abc", "", 0.0, 0.0),
        ("abc", "xyz", 0.0, 0.0),
        # Depths 1 and 2 share nothing, then both: 0.1 / 0.9 * (0 + 2/2 * 0.81) + 2/2 * 0.81.
        ("ab", "ba", 1.0, 0.1 / 0.9 * 0.81 + 0.81),
        # Of unequal lengths: X is 1, 1, 2 at the depths 1 to 3, and 1 at the end of the shorter one, depth 2:
        # 0.1 / 0.9 * (0.9 + 1/2 * 0.81 + 2/3 * 0.729 + 1 * (3 - 2) / (2 * 3) * 0.729) + ((2 - 1)/3 + 1/2) * 0.729.
        ("ac", "abc", 2 / 3, 0.1 / 0.9 * (0.9 + 0.405 + 0.486 + 0.1215) + (1 / 3 + 1 / 2) * 0.729),
    ],
)
def test_overlap_and_rank_biased_overlap_are_those_worked_out_by_hand(
    a: str, b: str, jaccard: float, rbo: float
) -> None:
    assert math.isclose(overlap(tuple(a), tuple(b)), jaccard)
    assert math.isclose(rank_biased_overlap(tuple(a), tuple(b)), rbo)
    assert rank_biased_overlap(tuple(a), tuple(b)) == rank_biased_overlap(tuple(b), tuple(a))


@pytest.mark.parametrize(
    ("before", "after", "gained", "lost", "used_lost", "wrong_removed"),
    [
        ("abc", "abc", "", "", "", ""),
        ("abc", "acb", "", "", "", ""),
        ("abc", "bcd", "d", "a", "a", ""),
        ("abc", "acd", "d", "b", "", "b"),
        ("abc", "", "", "abc", "a", "b"),
        ("", "xy", "xy", "", "", ""),
    ],
)
def test_gains_and_losses_are_named(
    before: str, after: str, gained: str, lost: str, used_lost: str, wrong_removed: str
) -> None:
    found = change(answer(before), answer(after), 5, USED_A_WRONG_B)
    assert ("".join(found.gained), "".join(found.lost)) == (gained, lost)
    assert ("".join(found.used_lost), "".join(found.wrong_removed)) == (used_lost, wrong_removed)
    assert "".join(found.unjudged) == gained
    assert found.values["used_kept"] == float("a" in after)
    assert found.values["wrong_removed"] == float("b" not in after)


def test_drift_and_profile_are_summed_up_apart() -> None:
    _, summary = summary_of(*FOUR)
    assert (summary.drift.means["identical"].mean.mean, summary.why) == (0.75, {"unknown": 1})
    assert summary.profile is not None
    means = {name: one.mean.mean for name, one in summary.profile.means.items()}
    assert (means["identical"], means["same_first"], means["flip"]) == (0.0, 0.25, 0.5)
    assert means["overlap@2"] == (1 + 1 + 0 + 0) / 4
    assert summary.profile.means["used_kept"].queries == 2
    empty = summary.profile.levels["empty"]
    assert (empty.before, empty.after, empty.difference.mean) == (0.25, 0.25, 0.0)
    assert summary.profile.levels["confidence"].queries == 2, "only where both answers have one"
    judged = summary.profile.judged
    assert judged is not None
    # a: the wrong b is there as before. d: nothing judged in either answer.
    assert (judged.wins, judged.ties, judged.losses, judged.p) == (0, 2, 0, 1.0)
    assert {name: one.queries for name, one in summary.by_class.items()} == {"factual": 2, "temporal": 2}
    assert [one.replayed.logged.id for one in summary.changed] == ["c", "d", "a", "b"], "the most different first"


def test_without_a_tried_profile_the_drift_is_what_is_told_of() -> None:
    _, summary = summary_of(replayed("a", "ab", "ab", None), replayed("b", "ab", "ac", None))
    assert summary.profile is None
    assert summary.compared is summary.drift
    assert [one.pair.change.gained for one in summary.changed] == [("c",)]


@pytest.mark.parametrize(
    ("under", "over", "code"),
    [
        ("overlap@2=.5", None, 0),
        ("overlap@2=.51", None, 1),
        ("overlap@2=.5,used_kept=1", None, 1),
        (None, "empty=+0", 0),
        (None, "tokens=+2,ms=+10,flip=.5", 0),
        (None, "tokens=+19%", 1),
        (None, "tokens=+20%,p95_ms=+50%", 0),
        (None, "flip=.4", 1),
    ],
)
def test_the_gate_passes_and_fails_by_its_thresholds(under: str | None, over: str | None, code: int) -> None:
    _, summary = summary_of(*FOUR)
    verdict = judge(summary.compared, thresholds(under, over, 2), least_queries=4)
    assert verdict.exit_code == code, verdict


def test_the_gate_cannot_judge_few_queries_nor_what_no_query_has() -> None:
    _, summary = summary_of(*FOUR)
    few = judge(summary.compared, thresholds("overlap@2=0", None, 2), least_queries=5)
    assert (few.exit_code, few.cannot_judge) == (2, "4 queries, and 5 are wanted")
    _, unjudged = summary_of(replayed("a", "ab", "ab", "ab"))
    none = judge(unjudged.compared, thresholds("used_kept=1", None, 2), least_queries=1)
    assert (none.exit_code, none.cannot_judge) == (2, "no query has the measure used_kept")


def test_what_cannot_be_judged_is_not_called_failed() -> None:
    run, summary = summary_of(replayed("a", "ab", "ab", "ab"), replayed("b", "ab", "ab", "cd"))
    verdict = judge(
        summary.compared, thresholds("overlap@2=.9,same_first=.5,used_kept=1", None, 2), least_queries=1
    )
    assert [check.verdict for check in verdict.checks] == ["failed", "passed", "not judged"]
    told = markdown(run, summary, verdict, title="Replay of reflect.v1", redact=False)
    assert "| overlap@2=0.9 | 0.5000, at least 0.9 | **failed** |" in told
    assert "| used_kept=1 | no query has it | not judged |" in told
    checks = as_json(run, summary, verdict, PLAN, redact=False)["gate"]["checks"]
    assert [check["passed"] for check in checks] == [False, True, None]


@pytest.mark.parametrize(
    ("choice", "chosen", "hints"),
    [
        (Choice(profile="new.v1", since=NOON), Chosen(), ("under new.v1", "--profile-of", "--since")),
        (Choice(profile="new.v1"), Chosen(), ("under new.v1", "--profile-of")),
        (Choice(since=NOON), Chosen(), ("--since",)),
        (Choice(), Chosen(), ()),
        (Choice(since=NOON), Chosen(matching=2, apart=Counter(degraded=2)), ("2 degraded",)),
    ],
)
def test_a_gate_without_a_query_of_the_log_hints_at_the_options_that_take_more(
    choice: Choice, chosen: Chosen, hints: tuple[str, ...]
) -> None:
    _, summary = summary_of()
    why = why_none(chosen, choice)
    verdict = judge(summary.compared, thresholds("used_kept=1", None, 2), least_queries=50, why_none=why)
    told = verdict.cannot_judge or ""
    assert (verdict.exit_code, told.startswith("0 queries, and 50 are wanted: no ")) == (2, True), told
    known = ("under new.v1", "--profile-of", "--since", "2 degraded")
    assert tuple(hint for hint in known if hint in told) == hints


def test_a_gate_is_asked_for_by_thresholds_or_a_least_number_of_queries() -> None:
    assert gate_of(None, None, 2, strict=True) is None
    least = gate_of(None, None, 2, min_queries=3)
    assert least is not None
    assert (least.thresholds, least.least_queries) == ((), 3)
    gate = gate_of("overlap@2=.5", "flip=.5", 2)
    assert gate is not None
    assert (len(gate.thresholds), gate.least_queries, gate.strict) == (2, LEAST_QUERIES, False)


def test_the_verdict_on_a_run_counts_its_silent_sources_and_says_why_it_has_no_query() -> None:
    gate = Gate(thresholds=thresholds("overlap@2=.5", None, 2), least_queries=4)
    run, summary = summary_of(*FOUR)
    assert gate.verdict(run, summary, PLAN).exit_code == PASSED
    assert replace(gate, strict=True).verdict(run, summary, PLAN).exit_code == FAILED
    run.silent["vector: late"] += 1
    assert gate.verdict(run, summary, PLAN).cannot_judge == "sources did not answer: vector: late"
    none = gate.verdict(*summary_of(), ReplayPlan(choice=Choice(since=NOON)))
    assert (none.exit_code, "--since" in (none.cannot_judge or "")) == (CANNOT_JUDGE, True)


def test_a_strict_gate_goes_by_the_near_end_of_the_interval() -> None:
    _, summary = summary_of(*FOUR)
    wanted = thresholds("overlap@2=.5", None, 2)
    assert judge(summary.compared, wanted, least_queries=1).exit_code == 0
    assert judge(summary.compared, wanted, least_queries=1, strict=True).exit_code == 1


@pytest.mark.parametrize("text", ["overlap@2", "overlap@5=.8", "recall@5=.8", "overlap@2=+.8", "overlap@2=80%"])
def test_what_is_no_threshold_is_refused(text: str) -> None:
    with pytest.raises(SettingsError, match="--fail-under"):
        thresholds(text, None, 2)


def test_reports_name_what_changed_and_texts_are_data() -> None:
    run, summary = summary_of(*FOUR)
    verdict = judge(summary.compared, thresholds("overlap@2=.9,rbo=.1", None, 2), least_queries=1)
    told = markdown(run, summary, verdict, title="Replay of reflect.v1", redact=False)
    assert "**Failed: 1 of 2 thresholds**" in told
    assert "not that it is worse" in told
    assert "<b>" not in told
    assert "@all" not in told
    xml = ET.fromstring(junit(summary, verdict, name="replay", seconds=1.0))
    assert (xml.get("tests"), xml.get("failures"), xml.get("errors")) == ("2", "1", "0")
    assert [case.get("name") for case in xml.iter("testcase")] == ["overlap@2=0.9", "rbo=0.1"]
    listed = list(lines(run, summary, redact=False))
    assert [one["decision_id"] for one in listed] == ["a", "b", "c", "d"]
    assert listed[0]["answers"]["tried"]["ids"] == ["a", "b", "d"]
    assert listed[2]["why_control_differs"] == "unknown"


def test_redacted_reports_have_no_text_of_a_query() -> None:
    run, summary = summary_of(replayed("a", "ab", "ab", "ac", text="a secret question"))
    told = [
        str(as_json(run, summary, None, PLAN, redact=True)),
        str(list(lines(run, summary, redact=True))),
        markdown(run, summary, None, title="Replay", redact=True),
    ]
    assert not [one for one in told if "secret" in one]
    assert "secret" in str(as_json(run, summary, None, PLAN, redact=False))


def test_a_report_is_written_to_the_files_that_are_named_and_no_others(tmp_path: Path) -> None:
    run, summary = summary_of(*FOUR)
    verdict = judge(summary.compared, thresholds("overlap@2=.5", None, 2), least_queries=1)
    out, xml = tmp_path / "lines.jsonl", tmp_path / "gate.xml"
    ReportFiles(out=out, junit=xml, markdown=None).write(run, summary, verdict, PLAN, redact=False)
    assert [json.loads(line)["decision_id"] for line in out.read_text("utf-8").splitlines()] == list("abcd")
    assert "replay of control" in xml.read_text("utf-8")
    assert sorted(tmp_path.iterdir()) == [xml, out]


def test_a_share_of_replies_is_a_share_also_in_percent() -> None:
    (flip,) = thresholds(None, "flip=10%", 5)
    assert flip == thresholds(None, "flip=.1", 5)[0]


@pytest.mark.parametrize(("under", "over"), [("rbofoo=.5", None), (None, "emptyish=1"), ("overlap=.5", None)])
def test_a_measure_is_named_in_full(under: str | None, over: str | None) -> None:
    with pytest.raises(SettingsError, match="is no threshold"):
        thresholds(under, over, 5)
