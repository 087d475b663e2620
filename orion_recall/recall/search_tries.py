"""The search tries: a search pass for each reading of a question, until one of them finds something."""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import dataclass

from orion_recall.contracts import RecallQueryV1
from orion_recall.profile import Profile
from orion_recall.recall.pass_result import PassResult
from orion_recall.recall.search.period import is_answered, tries
from orion_recall.recall.search.requests import TimeLimits
from orion_recall.recall.search_pass import SearchPass
from orion_recall.recall.stage_times import StageTimes
from orion_recall.recall.types import Sources
from orion_recall.recall.understand.question import Understanding
from orion_recall.values import Scope


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchTries:
    """The tries of one recall; a cascade runs them once for each layer.

    `applied_position` is the tombstones' position from before the search. `full_s` is the time of a query whose
    caller sets no shorter one. The first pass counts in `stages`.
    """

    query: RecallQueryV1
    understood: Understanding
    sources: Sources
    applied_position: float
    full_s: float
    stages: StageTimes

    async def run(
        self,
        profile: Profile,
        scope: Scope,
        *,
        timeout_s: float,
        is_first: bool = False,
        given: PassResult | None = None,
    ) -> PassResult:
        """The result of the first try that finds something, else of the last one."""
        result: PassResult | None = None
        stages = self.stages if is_first else StageTimes()
        searched = tries(self.understood, scope, self.sources.chronological, own_session=self.query.session_id)
        async with aclosing(searched):  # left to itself, one that is not at its end costs the loop a task
            async for asked, asked_scope in searched:
                one = SearchPass(
                    query=self.query,
                    understood=asked,
                    profile=profile,
                    scope=asked_scope,
                    sources=self.sources,
                    applied_position=self.applied_position,
                    limits=TimeLimits(pass_s=timeout_s, full_s=self.full_s, own_s=profile.source_timeout_ms / 1000),
                    stages=stages,
                )
                result = await one.run(given)
                if is_answered(result):
                    break
        assert result is not None  # there is always a first try
        return result
