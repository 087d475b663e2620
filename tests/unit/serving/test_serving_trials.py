from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from orion_recall.contracts import RecallOptionsV1, RecallQueryV1
from orion_recall.models.tokenizer import TokenCounter
from orion_recall.profile import Profile
from orion_recall.profile.watch import LoadedProfile
from orion_recall.recall.report.decision import RequestFacts
from orion_recall.recall.types import Sources
from orion_recall.serving.trials import Shadows, ShadowTask, canary_for, shadow_for
from orion_recall.settings import Settings
from orion_recall.telemetry import LOG_WORKER
from orion_recall.text.normal import memory_key, text_hash
from orion_recall.values import Hit, MemoryView, SearchRequest, SourceName

TOKENS = TokenCounter()
QUERY = RecallQueryV1(fragment="Who feeds the gulls?")


def loaded(name: str, **values: Any) -> LoadedProfile:
    required: dict[str, Any] = {
        "profile": name, "vector_top_k": 5, "rdf_top_k": 0, "max_per_source": 5, "max_total_items": 5,
        "render_budget_tokens": 100, "source_retries": 0,
    }  # fmt: skip
    return LoadedProfile(profile=Profile.model_validate(required | values), content_hash=f"hash of {name}")


OTHER = loaded("other.v1", max_total_items=1)


def facts(corr_id: str = "c-1") -> RequestFacts:
    return RequestFacts(
        decision_id="875a5172-46c0-4014-94f6-ee2cdfb0d3b0",
        corr_id=corr_id,
        entry_id="17-0",
        query=QUERY,
        tenant="default",
        profile="test.v1",
        profile_hash="h-1",
        profile_requested="unknown.v1",
        profile_fallback=True,
        reply_to="recall.reply.v1:me",
        worker="w-1",
    )


class Gulls:
    """Finds two memories once it is let; counts who asks at once."""

    name: SourceName = "vector"

    def __init__(self, error: Exception | None = None) -> None:
        self.go = asyncio.Event()
        self.go.set()
        self.error, self.at_once, self.most_at_once = error, 0, 0

    async def search(self, request: SearchRequest) -> Sequence[Hit]:
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            await self.go.wait()
        finally:
            self.at_once -= 1
        if self.error is not None:
            raise self.error
        texts = ("The keeper feeds the gulls.", "The gulls are fed by a boy.")
        found = [MemoryView(id=f"m-{n}", text=text, text_hash=text_hash(text)) for n, text in enumerate(texts)]
        return [
            Hit(key=memory_key("default", memory.id), score=0.9 - n / 10, read=lambda memory=memory: memory)
            for n, memory in enumerate(found)
        ]


class Stage:
    """Shadows with all around them in reach."""

    def __init__(self, source: Gulls, **settings: Any) -> None:
        self.source = source
        self.sent: list[dict[str, Any]] = []
        self.shadows = Shadows(Settings(**settings), Sources(by_name={"vector": source}, tokens=TOKENS), self._send)

    async def _send(self, message: bytes) -> None:
        self.sent.append(json.loads(message))

    def note(self, count: int = 1, profile: LoadedProfile = OTHER, query: RecallQueryV1 = QUERY) -> None:
        for _ in range(count):
            self.shadows.add(ShadowTask(facts(), query, "default", profile, 1.0, bytes))

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        before = asyncio.all_tasks()
        running = asyncio.create_task(self.shadows.run())
        try:
            yield
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            # Services of other tests live in the same loop.
            left = [repr(task) for task in asyncio.all_tasks() - before]
            assert not [one for one in left if "Shadows." in one or "orion_recall/recall/" in one]

    async def until_asked(self, at_once: int) -> None:
        async with asyncio.timeout(30):
            while self.source.at_once < at_once:
                await asyncio.sleep(0.002)

    async def until_ended(self, count: int) -> None:
        async with asyncio.timeout(30):
            while self.shadows.done + self.shadows.failed < count:
                await asyncio.sleep(0.002)


async def test_no_more_run_at_once_than_the_settings_say_and_what_does_not_fit_is_left_out() -> None:
    stage = Stage(Gulls(), shadows_at_once=2)
    stage.source.go.clear()
    async with stage.running():
        stage.note(40)
        await stage.until_asked(2)
        assert stage.shadows.left_out == 8
        stage.source.go.set()
        await stage.until_ended(32)
    assert stage.source.most_at_once == 2
    assert len(stage.sent) == 32


async def test_what_is_wrong_with_one_costs_the_next_nothing(caplog: pytest.LogCaptureFixture) -> None:
    stage = Stage(Gulls(), query_text="none")
    with caplog.at_level(logging.WARNING):
        async with stage.running():
            stage.note(profile=loaded("session.v1", scope="session"))
            await stage.until_ended(1)
            stage.note()
            await stage.until_ended(2)
    assert (stage.shadows.failed, stage.shadows.done) == (1, 1)
    # A service that another test of this process keeps may have much else to say.
    said = [record.getMessage() for record in caplog.records if record.name == LOG_WORKER]
    assert said == ["a shadow recall failed: payload.options.scope: session needs payload.session_id"]


def test_the_share_is_chosen_by_the_correlation_id() -> None:
    profiles = {"test.v1": loaded("test.v1", shadow={"profile": "other.v1", "share": 0.25}), "other.v1": OTHER}
    chosen = [shadow_for(facts(f"c-{n}"), profiles) for n in range(2000)]
    assert chosen == [shadow_for(facts(f"c-{n}"), profiles) for n in range(2000)]
    assert {one for one in chosen if one is not None} == {OTHER}
    assert 0.2 < sum(one is not None for one in chosen) / 2000 < 0.3


def variant(
    session: str | None, share: float = 0.25, *, corr_id: str = "c", user: str | None = None, tenant: str = "t"
) -> str | None:
    profiles = {"test.v1": loaded("test.v1", canary={"profile": "other.v1", "share": share}), "other.v1": OTHER}
    options = RecallOptionsV1(user=user) if user else None
    query = RecallQueryV1(fragment="Who?", session_id=session, options=options)
    found = canary_for("test.v1", profiles, query, tenant=tenant, corr_id=corr_id)
    return found.variant if found else None


def test_a_session_stays_with_one_profile_and_a_larger_share_only_adds_sessions() -> None:
    sessions = [f"s-{n}" for n in range(2000)]
    first = {one for one in sessions if variant(one, corr_id="a") == "canary"}
    assert first == {one for one in sessions if variant(one, corr_id="b") == "canary"}
    assert 0.2 < len(first) / 2000 < 0.3
    second = {one for one in sessions if variant(one, 0.75) == "canary"}
    assert first < second
    assert 0.7 < len(second) / 2000 < 0.8


def test_a_user_stays_with_one_profile_and_without_user_and_session_each_query_is_drawn() -> None:
    for user in (f"u-{n}" for n in range(50)):
        assert len({variant(f"s-{n}", user=user) for n in range(20)}) == 1
    assert {variant(None, corr_id=f"c-{n}") for n in range(50)} == {"canary", "control"}


def test_without_a_canary_no_other_profile_answers_and_an_edit_begins_another_trial() -> None:
    assert canary_for("test.v1", {"test.v1": loaded("test.v1")}, QUERY, tenant="t", corr_id="c") is None
    trials = set[str]()
    for content_hash in ("a", "a", "b"):
        control = loaded("test.v1", canary={"profile": "other.v1"})
        other = LoadedProfile(profile=OTHER.profile, content_hash=content_hash)
        found = canary_for("test.v1", {"test.v1": control, "other.v1": other}, QUERY, tenant="t", corr_id="c")
        assert found is not None
        trials.add(found.trial)
    assert len(trials) == 2
