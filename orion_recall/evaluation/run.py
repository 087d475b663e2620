"""One evaluation run: fills temporary stores with the memories, recalls every query, gives a line for each.

Every conversation is a tenant, so no search leaves it. The stores are embedded, in a folder deleted after the run.
Servers in the settings are not used, except for the timeline: with a Postgres its table is searched as it is,
without one that source is off.
"""

from __future__ import annotations

import json
import math
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, TextIO

from orion_recall.atomic_file import whole_text
from orion_recall.evaluation.answers.excluded import Excluded
from orion_recall.evaluation.dataset import JudgedQuery
from orion_recall.evaluation.plan import Plan, Progress, RunSummary, timed
from orion_recall.evaluation.run_stores import prepared, private_settings
from orion_recall.evaluation.trials import Asking
from orion_recall.recall.types import Recalled
from orion_recall.settings import Settings


async def run(plan: Plan, out: Path, settings: Settings, progress: Progress) -> RunSummary:
    """Runs the plan and writes the file `out`, atomically at the end.

    EvaluationError: the files cannot be used. SourceError: the stores could not be opened.
    """
    summary = RunSummary(profile=plan.profile.profile, profile_hash=plan.profile.content_hash)
    with whole_text(out) as lines, tempfile.TemporaryDirectory(prefix="orion-eval-") as folder:
        private = private_settings(settings, Path(folder) / "data")
        async with prepared(plan, private, progress, summary) as (opened, contents):
            summary.model = opened.embedder.name
            summary.timeline = "sql_timeline" in opened.sources.by_name
            with timed(summary, "queries"):
                sources = opened.sources
                if plan.baseline is not None:
                    sources = replace(sources, by_name=await plan.baseline.sources(opened, contents))
                asking = Asking(sources=sources, newest=contents.newest)
                exclude = Excluded(ids=contents.ids if plan.without_evidence else {})
                await _ask_all(plan, asking, lines, progress, summary, exclude)
    return summary


async def _ask_all(
    plan: Plan,
    asking: Asking,
    lines: TextIO,
    progress: Progress,
    summary: RunSummary,
    exclude: Excluded,
) -> None:
    """Recalls the queries one after the other: vectors embedded in one batch differ in the last bits."""
    progress.begins("queries", len(plan.queries))
    took: list[float] = []
    stages: dict[str, list[float]] = {}
    searched: dict[str, list[float]] = {}
    for done, query in enumerate(plan.queries, 1):
        started = time.perf_counter()
        recalled = await asking.recalled(query, plan.profile, exclude=exclude.of(query))
        took.append((time.perf_counter() - started) * 1000)
        for stage, ms in recalled.stage_ms.items():
            stages.setdefault(stage, []).append(ms)
        for report in recalled.reports:
            if report.status != "off":
                searched.setdefault(report.source, []).append(report.ms)
        _note(recalled, summary)
        lines.write(json.dumps(_line(query, recalled, plan), ensure_ascii=False) + "\n")
        progress.advanced(done)
    summary.query_ms = _percentiles(took)
    summary.stage_ms = {stage: _percentiles(ms) for stage, ms in stages.items()}
    summary.source_ms = {source: _percentiles(ms) for source, ms in searched.items()}


def _percentiles(values: list[float]) -> dict[str, float]:
    """p50, p95 and p99: the smallest value that the share of them does not exceed."""
    values.sort()
    return {f"p{share}": values[max(math.ceil(len(values) * share / 100) - 1, 0)] for share in (50, 95, 99)}


def _line(query: JudgedQuery, recalled: Recalled, plan: Plan) -> dict[str, Any]:
    """A line of the run file, without anything that differs between equal runs: they can be compared bytewise."""
    items, found = recalled.selection.items, recalled.confidence.answerable
    return {
        "query_id": query.id,
        "category": query.category,
        "profile": plan.profile.profile,
        "outcome": recalled.outcome,
        "ranked": [item.memory.id for item in recalled.ranked],
        "selected": [item.scored.memory.id for item in items],
        "selected_tokens": [item.tokens for item in items],
        "tokens": recalled.selection.tokens,
        "conversation_id": query.conversation,
        "answerable": False if plan.without_evidence else query.is_answerable,
        "answer_probability": found.probability,
        "answer_signals": dict(found.signals),
        "withheld": recalled.withheld.reason if recalled.withheld else None,
    }


def _note(recalled: Recalled, summary: RunSummary) -> None:
    summary.queries += 1
    summary.outcomes[recalled.outcome] += 1
    asked = {str(report.source): (report.status, report.error) for report in recalled.reports}
    if (late := recalled.late_interaction) is not None:
        asked["late interaction"] = (late.status, late.error)
        if late.status == "off":
            summary.late_off = late.error
    for name, (status, error) in asked.items():
        if status in ("failed", "late"):
            times, first = summary.silent.get(name, (0, error or status))
            summary.silent[name] = (times + 1, first)
