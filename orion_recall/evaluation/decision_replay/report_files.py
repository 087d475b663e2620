"""The files of a replay's report: a JSON line for each query, JUnit XML, Markdown."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from orion_recall.atomic_file import whole_text
from orion_recall.errors import SettingsError
from orion_recall.evaluation.decision_replay.gate import Verdict
from orion_recall.evaluation.decision_replay.plan import ReplayPlan
from orion_recall.evaluation.decision_replay.reports import junit, lines, markdown
from orion_recall.evaluation.decision_replay.run import ReplayRun
from orion_recall.evaluation.decision_replay.summary import Summary


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportFiles:
    """The files to write; None: not that one. The JUnit file needs a verdict."""

    out: Path | None
    junit: Path | None
    markdown: Path | None

    def write(
        self, run: ReplayRun, summary: Summary, verdict: Verdict | None, plan: ReplayPlan, *, redact: bool
    ) -> None:
        """Write each of them as a whole. SettingsError: it cannot be written."""
        if self.out is not None:
            with _report(self.out) as file:
                for line in lines(run, summary, redact=redact):
                    file.write(json.dumps(line, ensure_ascii=False) + "\n")
        if self.junit is not None and verdict is not None:
            with _report(self.junit) as file:
                file.write(junit(summary, verdict, name=f"replay of {plan.name}", seconds=run.seconds))
        if self.markdown is not None:
            with _report(self.markdown) as file:
                file.write(markdown(run, summary, verdict, title=f"Replay of {plan.name}", redact=redact))


@contextlib.contextmanager
def _report(target: Path) -> Generator[TextIO]:
    try:
        with whole_text(target) as file:
            yield file
    except OSError as error:
        raise SettingsError(f"{target} cannot be written: {error.strerror}") from error
