"""One run: memories into stores of their own, every query through the recall itself, one line a query.

Every conversation is a tenant, so no search leaves it. The stores are embedded, in a folder that lives as long as
the run; servers and stores that the settings name are left alone, but for the timeline: with a Postgres configured
its table is searched as it is, without one that arm is off.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import tempfile
import time
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import Any, TextIO

from orion_recall.contracts import RecallQueryV1
from orion_recall.errors import EvaluationError
from orion_recall.evaluation.dataset import JudgedQuery
from orion_recall.evaluation.plan import Plan, Progress, RunSummary, timed
from orion_recall.evaluation.prepare import prepared, private_settings
from orion_recall.profile import Profile
from orion_recall.recall.pipeline import Recalled, recall
from orion_recall.settings import Settings
from orion_recall.stores import Opened

# How good recall is must not depend on how busy the machine is: sources get all the time that a profile may give.
_SOURCE_TIMEOUT_MS = 60_000


async def run(plan: Plan, settings: Settings, progress: Progress) -> RunSummary:
    """Runs the plan and puts the file in its place once all of it is there.

    EvaluationError: the files cannot be used. SourceError: the stores could not be opened.
    """
    summary = RunSummary(profile=plan.profile.profile, profile_hash=plan.profile.content_hash)
    with _written_beside(plan.out) as lines, tempfile.TemporaryDirectory(prefix="orion-eval-") as folder:
        private = private_settings(settings, Path(folder) / "data")
        async with prepared(plan, private, progress, summary) as (opened, contents):
            summary.model = opened.embedder.name
            summary.timeline = "sql_timeline" in opened.sources.arms
            with timed(summary, "queries"):
                await _ask_all(plan, opened, contents.newest, lines, progress, summary)
    return summary


async def _ask_all(
    plan: Plan,
    opened: Opened,
    newest: Mapping[str, float],
    lines: TextIO,
    progress: Progress,
    summary: RunSummary,
) -> None:
    """One after the other: queries that are embedded together differ in the last bits."""
    progress.begins("queries", len(plan.queries))
    profile = plan.profile.model_copy(update={"source_timeout_ms": _SOURCE_TIMEOUT_MS})
    began, took = time.time(), list[float]()
    for done, query in enumerate(plan.queries, 1):
        started = time.perf_counter()
        recalled = await recall(
            RecallQueryV1(fragment=query.text),
            profile,
            opened.sources,
            tenant=query.conversation,
            now=newest.get(query.conversation, began) if query.asked_at is None else query.asked_at,
            timeout_s=_SOURCE_TIMEOUT_MS / 1000,
        )
        took.append((time.perf_counter() - started) * 1000)
        _note(recalled, summary)
        lines.write(json.dumps(_line(query, recalled, plan.profile), ensure_ascii=False) + "\n")
        progress.advanced(done)
    took.sort()
    summary.query_ms = {"p50": took[len(took) // 2], "p95": took[math.ceil(len(took) * 0.95) - 1]}


def _line(query: JudgedQuery, recalled: Recalled, profile: Profile) -> dict[str, Any]:
    """Nothing that differs between two runs of the same: they can be compared byte by byte."""
    items = recalled.selection.items
    return {
        "query_id": query.id,
        "category": query.category,
        "profile": profile.profile,
        "outcome": recalled.outcome,
        "ranked": [item.memory.id for item in recalled.ranked],
        "selected": [item.scored.memory.id for item in items],
        "selected_tokens": [item.tokens for item in items],
        "tokens": recalled.selection.tokens,
    }


def _note(recalled: Recalled, summary: RunSummary) -> None:
    summary.queries += 1
    summary.outcomes[recalled.outcome] += 1
    asked = {str(report.source): (report.status, report.error) for report in recalled.reports}
    if (late := recalled.late) is not None:
        asked["late interaction"] = (late.status, late.error)
        if late.status == "off":
            summary.late_off = late.error
    for name, (status, error) in asked.items():
        if status in ("failed", "late"):
            times, first = summary.silent.get(name, (0, error or status))
            summary.silent[name] = (times + 1, first)


@contextlib.contextmanager
def _written_beside(out: Path) -> Generator[TextIO]:
    """A file that takes its place when the block ends well, and is gone when it does not."""
    if out.is_dir():
        raise EvaluationError(f"{out} is a folder: name a file in it")
    if not out.parent.is_dir():
        raise EvaluationError(f"{out.parent} is no folder: make it first")
    part = out.with_name(f".{out.name}.{os.getpid()}.part")
    try:
        with part.open("w", encoding="utf-8") as lines:
            yield lines
            lines.flush()
            os.fsync(lines.fileno())
        part.replace(out)
    finally:
        part.unlink(missing_ok=True)
