"""Tries many profiles over the same judged queries, in stores that are filled once.

Profiles mostly differ in what happens after the search. So every source keeps its hits by request and is searched
again only for another request; the recall itself runs unchanged.
"""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from orion_recall.contracts import RecallOptionsV1, RecallQueryV1
from orion_recall.errors import SourceError
from orion_recall.evaluation.dataset import JudgedQuery, RunLine
from orion_recall.evaluation.run_stores import Contents, Plan, Progress, RunSummary, prepared, private_settings
from orion_recall.interfaces import MemoryReader, Source
from orion_recall.profile import Profile
from orion_recall.recall.pipeline import recall
from orion_recall.recall.ranking.model_scores import Closeness
from orion_recall.recall.types import Recalled, Sources
from orion_recall.serving.backends import Opened
from orion_recall.settings import Settings
from orion_recall.text.passages import FIRST_PASSAGES
from orion_recall.values import Hit, MemoryView, SearchRequest, SourceName

# Figures must not depend on the load of the machine: sources get the longest timeout that a profile may have.
SOURCE_TIMEOUT_MS = 60_000

Run = dict[str, RunLine]


class KeptHits:
    """A source that keeps its hits by request. A failed search is repeated."""

    def __init__(self, source: Source) -> None:
        self.name: SourceName = source.name
        self._source = source
        self._found: dict[SearchRequest, Sequence[Hit]] = {}

    async def search(self, request: SearchRequest) -> Sequence[Hit]:
        asked = replace(request, timeout_s=0.0)  # the timeout does not change the hits
        if (found := self._found.get(asked)) is None:
            found = self._found[asked] = await self._source.search(request)
        return found


class KeptMemories:
    """A reader that reads each memory once."""

    def __init__(self, reader: MemoryReader) -> None:
        self._reader = reader
        self._read: dict[int, MemoryView | None] = {}

    async def fetch(self, keys: Sequence[int]) -> Mapping[int, MemoryView]:
        if missing := [key for key in keys if key not in self._read]:
            self._read |= dict.fromkeys(missing) | dict(await self._reader.fetch(missing))
        return {key: memory for key in keys if (memory := self._read[key]) is not None}


class KeptCloseness:
    """Late interaction that compares a question with each passage once: no score depends on other passages."""

    def __init__(self, closeness: Closeness) -> None:
        self._closeness = closeness
        self._known: dict[str, dict[tuple[int, int], float | None]] = {}

    async def why_off(self) -> str | None:
        return await self._closeness.why_off()

    async def closeness(
        self, text: str, keys: Sequence[int], passages: Mapping[int, int] = FIRST_PASSAGES
    ) -> Mapping[int, float]:
        known = self._known.setdefault(text, {})
        wanted = {key: (key, passages.get(key, 0)) for key in keys}
        if missing := [key for key, one in wanted.items() if one not in known]:
            found = await self._closeness.closeness(text, missing, passages)
            known |= {wanted[key]: found.get(key) for key in missing}
        return {key: value for key, one in wanted.items() if (value := known[one]) is not None}


def keeping(sources: Sources) -> Sources:
    late = sources.late_interaction
    return replace(
        sources,
        by_name={name: KeptHits(source) for name, source in sources.by_name.items()},
        readers=tuple(KeptMemories(reader) for reader in sources.readers),
        late_interaction=None if late is None else KeptCloseness(late),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Asking:
    """Recalls queries over these sources, at the query's time, else at that of its conversation's newest memory."""

    sources: Sources
    newest: Mapping[str, float]
    began: float = field(default_factory=time.time)

    async def recalled(self, query: JudgedQuery, profile: Profile, *, exclude: Sequence[str] = ()) -> Recalled:
        """The recall of the query under the profile, without short timeouts; `exclude` are left out of it."""
        moment = None if query.asked_at is None else datetime.fromtimestamp(query.asked_at, UTC)
        options = None
        if query.scope is not None or query.user_id is not None or exclude or moment is not None:
            options = RecallOptionsV1(scope=query.scope, user=query.user_id, exclude=tuple(exclude), as_of=moment)
        return await recall(
            RecallQueryV1(fragment=query.text, session_id=query.session_id, intent=query.intent, options=options),
            patient(profile),
            self.sources,
            tenant=query.conversation,
            now=self.newest.get(query.conversation, self.began),
            timeout_s=SOURCE_TIMEOUT_MS / 1000,
        )


def patient(profile: Profile) -> Profile:
    """The profile with the longest timeouts for sources and cascade layers."""
    cascade = profile.cascade.model_copy(update={"timeout_ms": SOURCE_TIMEOUT_MS})
    return profile.model_copy(update={"source_timeout_ms": SOURCE_TIMEOUT_MS, "cascade": cascade})


class Trials:
    """Recalls of the plan's queries under any number of profiles; searches are kept from one to the next."""

    def __init__(self, plan: Plan, opened: Opened, contents: Contents, progress: Progress) -> None:
        self.plan, self.opened, self.contents = plan, opened, contents
        self._progress = progress
        self._asking = Asking(sources=keeping(opened.sources), newest=contents.newest)

    async def run(self, profile: Profile, *, what: str, queries: Sequence[JudgedQuery] | None = None) -> Run:
        """The result of every query by its id, or of these. `what` names the trial in the progress."""
        recalls = self.recalls(profile, what=what, queries=queries)
        return {query.id: line_of(recalled) async for query, recalled in recalls}

    async def recalls(
        self, profile: Profile, *, what: str, queries: Sequence[JudgedQuery] | None = None
    ) -> AsyncGenerator[tuple[JudgedQuery, Recalled]]:
        """Every query with its recall, one after the other.

        SourceError when a source or late interaction fails: the figures would be wrong.
        """
        asked = self.plan.queries if queries is None else queries
        self._progress.begins(what, len(asked))
        for done, query in enumerate(asked, 1):
            recalled = await self._asking.recalled(query, profile)
            for name, error in silent_of(recalled).items():
                raise SourceError(f"{name} did not answer {query.id!r}: {error}")
            yield query, recalled
            self._progress.advanced(done)


def silent_of(recalled: Recalled) -> dict[str, str]:
    """The sources, and late interaction, that failed or were late, with the reason."""
    asked = {str(report.source): report for report in recalled.reports}
    if recalled.late_interaction is not None:
        asked |= {"late interaction": recalled.late_interaction}
    return {name: one.error or one.status for name, one in asked.items() if one.status in ("failed", "late")}


def line_of(recalled: Recalled) -> RunLine:
    return RunLine(
        ranked=tuple(item.memory.id for item in recalled.ranked),
        selected=tuple(item.scored.memory.id for item in recalled.selection.items),
        unsure=recalled.is_unsure,
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
