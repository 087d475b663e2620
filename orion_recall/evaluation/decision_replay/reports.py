"""Reports of a replay: as JSON, a JSON line for each query, Markdown for a pull request, and JUnit XML."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any
from xml.etree import ElementTree as ET

from orion_recall.evaluation.decision_replay.gate import Check, Verdict
from orion_recall.evaluation.decision_replay.logged import Answer
from orion_recall.evaluation.decision_replay.plan import ReplayPlan
from orion_recall.evaluation.decision_replay.run import ReplayRun
from orion_recall.evaluation.decision_replay.summary import ChangedQuery, Compared, Summary

CHANGED_IS_NOT_WORSE = (
    "Overlap says that something changed, not that it is worse: only feedback and judgements say that."
)
_MOST_ROWS, _QUERY_CHARS = 20, 80


def as_json(
    run: ReplayRun,
    summary: Summary,
    verdict: Verdict | None,
    plan: ReplayPlan,
    *,
    redact: bool,
    made_at: datetime | None = None,
) -> dict[str, Any]:
    """The whole replay as one object, made now by default; with `redact` without the texts of queries."""
    told: dict[str, Any] = {
        "made_at": (made_at or datetime.now(UTC)).isoformat(),
        **_plan_json(plan),
        "queries": len(run.queries),
        "matching": run.chosen.matching,
        "apart": dict(run.chosen.apart),
        "not_replayable": dict(run.chosen.not_replayable),
        "with_erased_memories": summary.erased,
        "silent_sources": dict(run.silent),
        "seconds": round(run.seconds, 2),
        "k": summary.k,
        "control_against_logged": _compared_json(summary.drift),
        "why_control_differs": dict(summary.why),
        "against": summary.against,
        "tried": None if summary.profile is None else _compared_json(summary.profile),
        **{
            f"by_{what}": {name: _compared_json(one) for name, one in groups.items()}
            for what, groups in groups_of(summary).items()
        },
        "changed": [changed_json(one, redact=redact) for one in summary.changed],
        "note": CHANGED_IS_NOT_WORSE,
    }
    if verdict is not None:
        told["gate"] = {
            "exit_code": verdict.exit_code,
            "cannot_judge": verdict.cannot_judge,
            "checks": [_check_json(check) for check in verdict.checks],
        }
    return told


def _plan_json(plan: ReplayPlan) -> dict[str, Any]:
    """What was replayed: None means that the option was not given."""
    choice = plan.choice
    return {
        "tried_profile": None if plan.tried is None else plan.tried.profile,
        "as_of": plan.as_of,
        "since": None if choice.since is None else choice.since.isoformat(),
        "until": None if choice.until is None else choice.until.isoformat(),
        "profile_of": choice.profile,
        "tenant": choice.tenant,
        "class": choice.query_class,
        "sample": choice.sample,
        "seed": choice.seed,
    }


def groups_of(summary: Summary) -> dict[str, Mapping[str, Compared]]:
    """The comparison by class, profile and tenant."""
    return {"class": summary.by_class, "profile": summary.by_profile, "tenant": summary.by_tenant}


def lines(run: ReplayRun, summary: Summary, *, redact: bool) -> Iterator[dict[str, Any]]:
    """An object for each query, in the order in which they were asked: its answers, and what changed in them."""
    compared = {one.replayed.logged.id: one for one in summary.pairs}
    for one in run.queries:
        found = compared[one.logged.id]
        answers = {"logged": one.logged.answer, "control": one.control, "tried": one.tried}
        yield changed_json(found, redact=redact) | {
            "values": found.pair.change.values,
            "answers": {name: _answer_json(answer) for name, answer in answers.items() if answer is not None},
            "erased": list(one.erased),
            "why_control_differs": one.why,
        }


def means_json(compared: Compared) -> dict[str, Any]:
    """The means by measure, each with its interval and over how many queries."""
    return {name: asdict(one.mean) | {"queries": one.queries} for name, one in compared.means.items()}


def changed_json(one: ChangedQuery, *, redact: bool) -> dict[str, Any]:
    """One query, and what was gained and lost."""
    logged, change = one.replayed.logged, one.pair.change
    told: dict[str, Any] = {
        "decision_id": logged.id,
        "at": logged.began.isoformat(),
        "tenant": logged.tenant,
        "profile": logged.profile,
        "class": logged.query_class,
        "query": logged.query.fragment,
        "rbo": round(change.values["rbo"], 4),
        "gained": list(change.gained),
        "lost": list(change.lost),
        "used_lost": list(change.used_lost),
        "wrong_removed": list(change.wrong_removed),
        "unjudged": list(change.unjudged),
    }
    return {name: value for name, value in told.items() if not (redact and name == "query")}


def markdown(run: ReplayRun, summary: Summary, verdict: Verdict | None, *, title: str, redact: bool) -> str:
    """The report for a pull request: verdict, measures, and what changed most."""
    compared = summary.compared
    words = _verdict_words(verdict)
    parts = [f"### {title}", *([f"**{words}**"] if words else []), _checks_table(verdict.checks if verdict else ())]
    names = ("tried profile", summary.against) if summary.profile is not None else ("control", "log")
    if compared.queries:
        parts += [
            f"{names[0].capitalize()} against {names[1]}, {compared.queries} queries:",
            _means_table(compared),
        ]
        parts += [_levels_table(compared)]
    if summary.profile is not None:
        identical = summary.drift.means["identical"].mean.mean if summary.drift.queries else 0.0
        parts.append(f"The logged profile gives the logged answer again for {identical:.1%} of the queries.")
    if summary.changed:
        parts += [f"What changed most ({len(summary.changed)} queries in all):", _changed_table(summary, redact)]
    left_out = [*run.chosen.apart.items(), *run.chosen.not_replayable.items()]
    if left_out:
        parts.append("Left out: " + "; ".join(f"{count} {_escaped(why)}" for why, count in left_out) + ".")
    parts.append(f"_{CHANGED_IS_NOT_WORSE}_")
    return "\n\n".join(part for part in parts if part) + "\n"


def junit(summary: Summary, verdict: Verdict, *, name: str, seconds: float) -> str:
    """JUnit XML: a test case for each threshold."""
    failed = [check for check in verdict.checks if not check.passed and verdict.cannot_judge is None]
    counts = {
        "tests": str(max(len(verdict.checks), 1)),
        "failures": str(len(failed)),
        "errors": str(int(verdict.cannot_judge is not None)),
        "time": f"{seconds:.2f}",
    }
    root = ET.Element("testsuites", counts)
    suite = ET.SubElement(root, "testsuite", {"name": name, **counts})
    if verdict.cannot_judge is not None:
        case = ET.SubElement(suite, "testcase", {"classname": name, "name": "enough queries"})
        ET.SubElement(case, "error", {"message": f"it cannot be judged: {verdict.cannot_judge}"})
        return _xml(root)
    for check in verdict.checks:
        case = ET.SubElement(suite, "testcase", {"classname": name, "name": check.threshold.text})
        if not check.passed:
            failure = ET.SubElement(case, "failure", {"message": f"{check.threshold.measure}: {check.words}"})
            failure.text = f"{CHANGED_IS_NOT_WORSE}\n{len(summary.changed)} queries have another answer."
    return _xml(root)


def _xml(root: ET.Element) -> str:
    ET.indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def _verdict_words(verdict: Verdict | None) -> str:
    if verdict is None or (not verdict.checks and verdict.cannot_judge is None):
        return ""
    if verdict.cannot_judge is not None:
        return f"It cannot be judged: {verdict.cannot_judge}"
    failed = sum(not check.passed for check in verdict.checks)
    return f"Failed: {failed} of {len(verdict.checks)} thresholds" if failed else "Passed"


def _checks_table(checks: tuple[Check, ...]) -> str:
    rows = [
        (check.threshold.text, check.words, f"**{check.verdict}**" if check.passed is False else check.verdict)
        for check in checks
    ]
    return _table(("threshold", "found", ""), rows) if rows else ""


def _means_table(compared: Compared) -> str:
    rows = [
        (name, f"{one.mean.mean:.4f}", f"{one.mean.low:.4f} to {one.mean.high:.4f}", str(one.queries))
        for name, one in compared.means.items()
    ]
    return _table(("measure", "mean", "95% interval", "queries"), rows)


def _levels_table(compared: Compared) -> str:
    rows = [
        (name, f"{one.before:.4g}", f"{one.after:.4g}", f"{one.difference.mean:+.4g}",
         f"{one.difference.low:+.4g} to {one.difference.high:+.4g}")
        for name, one in compared.levels.items()
    ]  # fmt: skip
    return _table(("", "before", "after", "difference", "95% interval"), rows)


def _changed_table(summary: Summary, redact: bool) -> str:
    rows = [
        (
            one.replayed.logged.id[:8] if redact else _escaped(one.replayed.logged.query.fragment[:_QUERY_CHARS]),
            f"{one.pair.change.values['rbo']:.3f}",
            _ids(one.pair.change.gained),
            _ids(one.pair.change.lost),
            _ids(one.pair.change.used_lost),
        )
        for one in summary.changed[:_MOST_ROWS]
    ]
    return _table(("decision" if redact else "query", "rbo", "gained", "lost", "used and lost"), rows)


def _ids(names: tuple[str, ...]) -> str:
    shown = ", ".join(_escaped(name) for name in names[:5])
    return shown + (f" and {len(names) - 5} more" if len(names) > 5 else "")


def _table(columns: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    head = [columns, tuple("---" for _ in columns)]
    return "\n".join(f"| {' | '.join(row)} |" for row in (*head, *rows))


def _escaped(text: str) -> str:
    """Text of a query or an id is no Markdown and no HTML."""
    flat = " ".join(text.split())
    for sign in "\\`*_[]|<>#&@":
        flat = flat.replace(sign, f"&#{ord(sign)};" if sign in "|<>&@" else f"\\{sign}")
    return flat


def _answer_json(answer: Answer) -> dict[str, Any]:
    return {
        "ids": list(answer.ids),
        "outcome": answer.outcome,
        "tokens": answer.tokens,
        "confidence": answer.confidence,
        "ms": round(answer.ms, 3),
    }


def _compared_json(compared: Compared) -> dict[str, Any]:
    levels = {name: asdict(one) for name, one in compared.levels.items()}
    before, after = compared.p95_ms
    return {
        "queries": compared.queries,
        "means": means_json(compared),
        "levels": levels,
        "p95_ms": {"before": before, "after": after},
        "judged": None if compared.judged is None else asdict(compared.judged),
    }


def _check_json(check: Check) -> dict[str, Any]:
    return {
        "threshold": check.threshold.text,
        "found": check.found,
        "queries": check.queries,
        "passed": check.passed,
        "words": check.words,
    }
