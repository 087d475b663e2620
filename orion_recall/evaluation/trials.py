"""Tries many profiles over the same judged queries, in stores that are filled once."""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from orion_recall.contracts import RecallOptionsV1, RecallQueryV1
from orion_recall.errors import SourceError
from orion_recall.evaluation.dataset import JudgedQuery, RunLine
from orion_recall.evaluation.plan import Plan, Progress, RunSummary
from orion_recall.evaluation.replay import replayed
from orion_recall.evaluation.run_stores import prepared, private_settings
from orion_recall.evaluation.snapshots import Contents
from orion_recall.interfaces import Source
from orion_recall.profile import Profile
from orion_recall.recall.pipeline import recall
from orion_recall.recall.types import Recalled, Sources
from orion_recall.serving.backends import Opened
from orion_recall.settings import Settings
from orion_recall.values import SourceName

# Figures must not depend on the load of the machine: sources get the longest timeout that a profile may have.
SOURCE_TIMEOUT_MS = 60_000

TrialSources = Mapping[SourceName, Source]
Run = dict[str, RunLine]


@dataclass(frozen=True, slots=True, kw_only=True)
class Asking:
    """Recalls queries over these sources, at the query's time, else at that of its conversation's newest memory."""

    sources: Sources
    newest: Mapping[str, float]
    began: float = field(default_factory=time.time)

    async def recalled(self, query: JudgedQuery, profile: Profile, *, exclude: Sequence[str] = ()) -> Recalled:
        """The recall of the query under the profile, without short timeouts; `exclude` are left out of it."""
        options = None
        if query.scope is not None or query.user_id is not None or exclude:
            options = RecallOptionsV1(scope=query.scope, user=query.user_id, exclude=tuple(exclude))
        return await recall(
            RecallQueryV1(fragment=query.text, session_id=query.session_id, intent=query.intent, options=options),
            patient(profile),
            self.sources,
            tenant=query.conversation,
            now=self.newest.get(query.conversation, self.began) if query.asked_at is None else query.asked_at,
            timeout_s=SOURCE_TIMEOUT_MS / 1000,
        )


def patient(profile: Profile) -> Profile:
    """The profile with the longest timeouts for sources and cascade layers."""
    cascade = profile.cascade.model_copy(update={"timeout_ms": SOURCE_TIMEOUT_MS})
    return profile.model_copy(update={"source_timeout_ms": SOURCE_TIMEOUT_MS, "cascade": cascade})


class Trials:
    """Recalls of the plan's queries under any number of profiles; searches are cached from one to the next.

    `given` replaces the sources of the stores.
    """

    def __init__(
        self, plan: Plan, opened: Opened, contents: Contents, progress: Progress, given: TrialSources | None = None
    ) -> None:
        self.plan, self.opened, self.contents = plan, opened, contents
        self._progress = progress
        sources = opened.sources if given is None else replace(opened.sources, by_name=given)
        self._asking = Asking(sources=replayed(sources), newest=contents.newest)

    @property
    def sources(self) -> TrialSources:
        """The sources, with their cached hits."""
        return self._asking.sources.by_name

    async def run(self, profile: Profile, *, what: str) -> Run:
        """The result of every query by its id. `what` names the trial in the progress."""
        return {query.id: line_of(recalled) async for query, recalled in self.recalls(profile, what=what)}

    def of_queries(self, queries: Sequence[JudgedQuery]) -> Trials:
        """Trials with only these of the plan's queries, and the hits cached so far."""
        plan = replace(self.plan, queries=queries)
        return Trials(plan, self.opened, self.contents, self._progress, self.sources)

    async def recalls(self, profile: Profile, *, what: str) -> AsyncGenerator[tuple[JudgedQuery, Recalled]]:
        """Every query with its recall, one after the other.

        SourceError when a source or late interaction fails: the figures would be wrong.
        """
        self._progress.begins(what, len(self.plan.queries))
        for done, query in enumerate(self.plan.queries, 1):
            recalled = await self._asking.recalled(query, profile)
            for report in recalled.reports:
                if report.status in ("failed", "late"):
                    raise SourceError(f"{report.source} did not answer {query.id!r}: {report.error}")
            if recalled.late_interaction is not None and recalled.late_interaction.status in ("failed", "late"):
                raise SourceError(
                    f"late interaction did not answer {query.id!r}: {recalled.late_interaction.error}"
                )
            yield query, recalled
            self._progress.advanced(done)

    def with_sources(self, sources: TrialSources) -> Trials:
        """The same queries over these sources only."""
        return Trials(self.plan, self.opened, self.contents, self._progress, sources)


def line_of(recalled: Recalled) -> RunLine:
    """A recall as a line of a run."""
    return RunLine(
        ranked=tuple(item.memory.id for item in recalled.ranked),
        selected=tuple(item.scored.memory.id for item in recalled.selection.items),
        line=0,
    )


@contextlib.asynccontextmanager
async def trials(plan: Plan, settings: Settings, progress: Progress) -> AsyncGenerator[Trials]:
    """The plan's memories in stores of their own, as for a run, until the end of the block.

    EvaluationError: the files cannot be used. SourceError: the stores could not be opened.
    """
    summary = RunSummary(profile=plan.profile.profile, profile_hash=plan.profile.content_hash)
    with tempfile.TemporaryDirectory(prefix="orion-eval-") as folder:
        private = private_settings(settings, Path(folder) / "data")
        async with prepared(plan, private, progress, summary) as (opened, contents):
            yield Trials(plan, opened, contents, progress)
