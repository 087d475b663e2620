"""The lists that are searched: sources at once, fallbacks, lanes, times, periods, a second step."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from orion_recall.errors import InvalidMessage, ModelError, ScopeNotKept, SourceError
from orion_recall.memory.replicas.tombstones import Tombstones
from orion_recall.models.tokenizer import TokenCounter
from orion_recall.recall.pipeline import Recalled, recall
from orion_recall.recall.search import all_sources
from orion_recall.recall.search.all_sources import requests_of_speaker, search_all
from orion_recall.recall.search.requests import narrowed, scope_of
from orion_recall.recall.types import FallbackSource, Sources
from orion_recall.recall.understand.people import SaidBy
from orion_recall.settings import LaneUse
from orion_recall.source_specs import source_names
from orion_recall.sources.several_stores import Breaker
from orion_recall.text.names import title_names
from orion_recall.values import (
    Hit,
    Interval,
    MemoryView,
    Question,
    Scope,
    SearchRequest,
    SourceName,
    SourceReport,
    TimedKey,
    ToldTime,
)
from tests.samples.recall_fakes import NOW, FakeSource, Speakers, hit, key, profile, query, sources, view

QUESTION = Question(
    text="crane", dense_text="crane", keyword_text="crane", terms=frozenset({"crane"}), now=NOW, text_hash=""
)
REQUEST = SearchRequest(question=QUESTION, scope=Scope(tenant="acme"), limit=10)
FOUND = (hit("a", 2.0), hit("b", 1.0))


def breakers() -> dict[SourceName, Breaker]:
    return {name: Breaker() for name in source_names()}


async def search(
    *arms: FakeSource, timeout_s: float = 60.0, retries: int = 0, held: dict[SourceName, Breaker] | None = None
) -> dict[SourceName, SourceReport]:
    reports = await search_all(
        {arm.name: arm for arm in arms},
        {arm.name: REQUEST for arm in arms},
        held or breakers(),
        timeout_s=timeout_s,
        retries=retries,
    )
    assert tuple(report.source for report in reports) == source_names()
    return {report.source: report for report in reports}


async def test_a_source_that_misses_the_deadline_is_late_and_is_cancelled():
    slow = FakeSource("rdf", FOUND, opened=asyncio.Event())
    reports = await search(slow, FakeSource("vector", FOUND), timeout_s=0.5)
    assert (reports["rdf"].status, reports["rdf"].hits) == ("late", ())
    assert "500 ms" in (reports["rdf"].error or "")
    assert reports["vector"].status == "ok"


@pytest.mark.asyncio(loop_scope="function")  # all tasks of its loop are its own
async def test_a_cancelled_search_leaves_nothing_running():
    slow = FakeSource("vector", FOUND, opened=asyncio.Event())
    task = asyncio.create_task(search(slow))
    while not slow.requests:
        await asyncio.sleep(0)
    assert [one for one in asyncio.all_tasks() if "object _search at" in repr(one.get_coro())]
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert task.cancelled()
    assert not [one for one in asyncio.all_tasks() if "object _search at" in repr(one.get_coro())]


async def test_a_query_whose_scope_a_source_cannot_keep_to_fails_and_costs_no_other_query_the_source():
    held = breakers()
    picky = FakeSource("vector", FOUND, errors=[ScopeNotKept("no column for session_id") for _ in range(5)])
    for _ in range(5):
        report = (await search(picky, held=held))["vector"]
        assert (report.status, report.error) == ("failed", "no column for session_id")
    assert (await search(picky, held=held))["vector"].hits == FOUND


class OfAnother(FakeSource):
    """Holds nothing for the tenant that asks."""

    def answers_for(self, tenant: str) -> bool:
        return tenant != REQUEST.scope.tenant


async def test_a_source_of_another_tenant_is_not_asked_and_nothing_of_its_failures_is_told():
    held = breakers()
    for _ in range(3):
        held["vector"].record("secrets of bo", 1e12)
    theirs = OfAnother("vector", FOUND)
    report = (await search(theirs, held=held))["vector"]
    assert (report.status, report.error, report.hits) == ("empty", None, ())
    assert theirs.requests == []


KINDS = replace(REQUEST, scope=Scope(tenant="acme", kinds=("world", "opinion")))


class Narrow(FakeSource):
    """Has other hits for some scopes than for the rest."""

    def __init__(
        self, hits: Sequence[Hit], narrow: Callable[[Scope], Sequence[Hit] | Exception | asyncio.Event | None]
    ) -> None:
        super().__init__("vector", hits)
        self.narrow = narrow

    async def search(self, request: SearchRequest) -> Sequence[Hit]:
        found = self.narrow(request.scope)
        if isinstance(found, asyncio.Event):
            await found.wait()
        if isinstance(found, Exception):
            raise found
        if not isinstance(found, tuple):
            return await super().search(request)
        self.requests.append(request)
        return found


async def test_each_kind_is_searched_for_alone_and_has_its_own_list():
    kinds = {"world": (hit("a", 0.9), hit("c", 0.2)), "opinion": (hit("b", 0.5),)}
    source, held = Narrow((), lambda scope: kinds[scope.kinds[0]]), breakers()
    report, *_ = await search_all(
        {"vector": source}, {"vector": KINDS}, held, timeout_s=60, retries=1, by_kind=True
    )
    assert [request.scope.kinds for request in source.requests] == [("world",), ("opinion",)]
    assert report.lists == ((hit("a", 0.9), hit("c", 0.2)), (hit("b", 0.5),))
    assert report.hits == (hit("a", 0.9), hit("b", 0.5), hit("c", 0.2))
    assert report.status == "ok"


HANG_S = 60.0
CRANE = view("m1", "The harbour crane needs a gearbox.", ts=NOW - 3600, source_ref="record")
SHED = view("m2", "The shed is painted.")
INDEX: tuple[SourceName, ...] = ("vector", "lexical")


def away(name: SourceName) -> FakeSource:
    return FakeSource(name, errors=[SourceError("the index is gone") for _ in range(9)])


def hung(name: SourceName) -> FakeSource:
    return FakeSource(name, opened=asyncio.Event())


def record(**changes: object) -> FakeSource:
    return FakeSource("lexical", [hit("m1", 1.2, read=lambda: CRANE)], **changes)  # pyright: ignore[reportArgumentType]


async def ask(made: Sources, *, timeout_s: float = HANG_S, **changes: object) -> Recalled:
    return await recall(query(), profile(**changes), made, now=NOW, timeout_s=timeout_s)


def scene(tokens: TokenCounter, *arms: FakeSource, found: FakeSource) -> Sources:
    return sources(tokens, arms, SHED, fallback=FallbackSource(source=found))


async def test_while_the_index_answers_nobody_else_is_asked(tokens: TokenCounter) -> None:
    found = record()
    one_arm_is_enough = scene(tokens, away("vector"), FakeSource("lexical"), found=found)
    assert (await ask(one_arm_is_enough)).outcome == "degraded"
    assert found.requests == []


@pytest.mark.parametrize("broken", [SourceError("the index is gone"), ModelError("no weights")])
async def test_when_both_arms_fail_the_record_answers_in_their_place(
    tokens: TokenCounter, broken: Exception
) -> None:
    arms = [FakeSource(name, errors=[broken]) for name in INDEX]
    recalled = await ask(scene(tokens, *arms, FakeSource("rdf", [hit("m2", 1.0)]), found=record()))
    reports = {report.source: report for report in recalled.reports}
    assert recalled.outcome == "degraded"
    assert {item.scored.memory.id for item in recalled.selection.items} == {"m1", "m2"}
    assert (reports["lexical"].status, reports["lexical"].fallback) == ("failed", "record")
    assert (reports["vector"].status, reports["vector"].fallback, reports["vector"].hits) == ("failed", None, ())


async def test_an_index_that_hangs_is_stood_in_for_within_the_same_time(
    tokens: TokenCounter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(all_sources, "PATIENCE", 0.05)  # a slow machine has the rest of the time for the record
    began = time.perf_counter()
    recalled = await ask(scene(tokens, *map(hung, INDEX), found=record()), timeout_s=1.5)
    assert time.perf_counter() - began < HANG_S
    reports = {report.source: report for report in recalled.reports}
    assert (reports["lexical"].status, reports["lexical"].fallback) == ("late", "record")
    assert [item.scored.memory.id for item in recalled.selection.items] == ["m1"]


async def test_if_all_of_them_hang_the_deadline_holds_and_the_record_is_left_alone_after_three(
    tokens: TokenCounter,
) -> None:
    found = FakeSource("lexical", opened=asyncio.Event())
    made = scene(tokens, *map(hung, INDEX), found=found)
    for _ in range(3):
        began = time.perf_counter()
        assert (await ask(made, timeout_s=0.5)).outcome == "failed"
        assert time.perf_counter() - began < HANG_S
    assert len(found.requests) == 3
    recalled = await ask(made, timeout_s=HANG_S)
    assert len(found.requests) == 3
    error = {report.source: report.error for report in recalled.reports}["lexical"] or ""
    assert error.endswith("the fallback (record) failed: left alone after: no answer within 500 ms")


TEXT = "who founded the maker of the harbour crane?"
CRANE_OF_UP = view("crane", "The harbour crane was made by Umbra Works.", title="Harbour crane")
UMBRA = view("umbra", "It was founded by Ida Miles.", title="Umbra Works")
IDA = view("ida", "She was born there.", title="Ida Miles", kind="world")
SHED_OF_UP = view("shed", "The shed is painted.")
FIRST = (hit("crane", 0.9), hit("shed", 0.2))
LINKS = {"fusion": 0.5, "similarity": 0.0, "links": 0.6, "recency": 0.0}


class Titles:
    """The memories that are called one of the names."""

    def __init__(self, *memories: MemoryView) -> None:
        self.memories = memories
        self.asked: list[Scope] = []

    async def has_titles(self, tenant: str) -> bool:
        return True

    async def titled(self, names: Sequence[str], scope: Scope, limit: int) -> Mapping[int, Sequence[str]]:
        self.asked.append(scope)
        called = {key(one.id): title_names(one.title or "") for one in self.memories}
        return {one: given for one, given in called.items() if not set(given).isdisjoint(names)}


async def ask_of_up(tokens: TokenCounter, titles: Titles, known: Tombstones, **options: Any) -> Recalled:
    shelf = (CRANE_OF_UP, UMBRA, IDA, SHED_OF_UP)
    made = sources(tokens, [FakeSource("vector", FIRST)], *shelf, titles=titles, tombstones=known)
    used = profile(ranking=LINKS, enable_query_expansion=False)
    return await recall(query(TEXT, options=options), used, made, now=NOW)


def order(recalled: Recalled) -> list[str]:
    return [item.memory.id for item in recalled.ranked]


async def test_links_stay_in_scope_and_what_was_deleted_is_led_to_by_nobody(tokens: TokenCounter):
    titles, known = Titles(IDA, UMBRA), Tombstones()
    scoped = await ask_of_up(tokens, titles, known, kinds=["world"])
    assert [scope.kinds for scope in titles.asked] in ([], [("world",)])
    assert order(scoped) == []
    known.applied_position = lambda: 6
    known.add({key("umbra"): 7})
    recalled = await ask_of_up(tokens, titles, known)
    assert order(recalled) == ["crane", "shed"]
    assert recalled.selection.dropped == {"deleted": 1}


TENANT_OF_LANE = "default"


def scope(use: LaneUse, by: dict[str, Any] | None = None, **fields: Any) -> Scope | None:
    """What is searched; None where the lane means nothing."""
    wide = profile(**(by or {}))
    made = narrowed(query(**fields), wide, use)
    return None if made is None else scope_of(made, wide, TENANT_OF_LANE)


@pytest.mark.parametrize("tags", [[], ["chat"], ["chat", "harbour"]])
def test_a_lane_may_be_a_tag_that_memories_must_have(tags: list[str]):
    assert scope("tag", lane="chat", options={"tags": tags}) == Scope(tenant=TENANT_OF_LANE, tags=("chat",))


def test_a_lane_and_other_tags_cannot_be_searched_at_once():
    with pytest.raises(InvalidMessage, match=r"payload\.lane: it is a tag"):
        scope("tag", lane="chat", options={"tags": ["harbour"]})


@pytest.mark.parametrize(
    ("lane", "options", "expected"),
    [
        ("session", {}, Scope(tenant=TENANT_OF_LANE, session_id="s")),
        ("session", {"scope": "global"}, Scope(tenant=TENANT_OF_LANE, session_id="s")),
        ("user", {"user": "u"}, Scope(tenant=TENANT_OF_LANE, user_id="u")),
        ("session", {"scope": "session"}, Scope(tenant=TENANT_OF_LANE, session_id="s")),
        ("global", {}, Scope(tenant=TENANT_OF_LANE)),
        ("global", {"scope": "session"}, None),
        ("global", {"scope": "user", "user": "u"}, None),
        ("user", {"scope": "session", "user": "u"}, None),
        ("session", {"scope": "user", "user": "u"}, None),
        ("chat", {}, None),
    ],
    ids=str,
)
def test_a_lane_may_be_a_scope_and_then_only_narrows(lane: str, options: dict[str, Any], expected: Scope | None):
    assert scope("scope", lane=lane, session_id="s", options=options) == expected


CLOCK = datetime(2026, 6, 17, 12, tzinfo=UTC).timestamp()  # a Wednesday
DAY = 86_400.0
YESTERDAY = CLOCK - DAY


class Calendar:
    """An index that lists the memories it is given by their time."""

    def __init__(self, *memories: MemoryView) -> None:
        self.memories = memories

    async def in_time_order(
        self, scope: Scope, limit: int, *, newest_first: bool = False, without_sessions: Sequence[str] = ()
    ) -> Sequence[TimedKey]:
        found = [
            TimedKey(key(one.id), one.ts, one.session_id)
            for one in self.memories
            if one.ts is not None
            and (scope.session_id is None or one.session_id == scope.session_id)
            and (scope.since is None or one.ts >= scope.since)
            and (scope.until is None or one.ts < scope.until)
            and (not scope.told or one.told)
            and one.session_id not in without_sessions
        ]
        return sorted(found, key=lambda one: -one.ts if newest_first else one.ts)[:limit]


async def ask_day(
    tokens: TokenCounter,
    text: str,
    *memories: MemoryView,
    found: Sequence[str] = (),
    **options: Any,
) -> Recalled:
    source = FakeSource("vector", [hit(name, 0.9 - place / 100) for place, name in enumerate(found)])
    names, calendar = Speakers("Hana", "Otto", "Rosa"), Calendar(*memories)
    made = sources(tokens, [source], *memories, chronological=calendar, lexicon=names)
    return await recall(query(text, **options), profile(source_timeout_ms=30_000), made, now=CLOCK)


def ids(recalled: Recalled) -> list[str]:
    return [item.scored.memory.id for item in recalled.selection.items]


async def test_a_recap_is_everything_of_the_period_and_nothing_else(tokens: TokenCounter):
    memories = (
        view("eve", "We painted the boat.", ts=YESTERDAY - DAY, session_id="eve"),
        view("morning", "The rudder came from Umbra Works.", ts=YESTERDAY - 3600, session_id="one"),
        view("noon", "Nobody knows where the anchor is.", ts=YESTERDAY, session_id="two"),
        view("today", "Yesterday's paint is dry.", ts=CLOCK - 3600, session_id="today"),
    )
    recalled = await ask_day(tokens, "What happened yesterday?", *memories, found=["today", "eve", "noon"])
    assert ids(recalled) == ["morning", "noon"]
    assert recalled.selection.dropped["other_time"] == 2


@pytest.mark.parametrize(
    ("text", "session"),
    [
        ("What did we talk about in our first session?", "one"),
        ("What did we talk about in our second session?", "two"),
        ("What did we discuss in session 3?", "three"),
        ("What was our last conversation about?", "three"),
        ("What was the conversation before last about?", "two"),
    ],
)
async def test_a_session_is_named_by_its_place_in_the_whole_scope(tokens: TokenCounter, text: str, session: str):
    memories = [
        view(f"{name}-{turn}", f"{name} says {turn}.", ts=CLOCK - (9 - day) * DAY + turn, session_id=name)
        for day, name in enumerate(("one", "two", "three"))
        for turn in range(2)
    ]
    own = view("now", "Hello again.", ts=CLOCK - 5, session_id="own")
    recalled = await ask_day(tokens, text, *memories, own, found=["one-0", "three-1"], session_id="own")
    assert ids(recalled) == [f"{session}-0", f"{session}-1"]


QUESTION_OF_SEARCH = Question(text="t", dense_text="t", keyword_text="t", terms=frozenset(), now=0.0, text_hash="h")
SCOPE = Scope(tenant="t", since=50.0)
NAMES: tuple[SourceName, ...] = ("vector", "lexical", "rdf")
REQUESTS: Mapping[SourceName, SearchRequest] = {
    name: SearchRequest(question=QUESTION_OF_SEARCH, scope=SCOPE, limit=10) for name in NAMES
}
DAYS = (Interval(100.0, 200.0, "date", "monday"), Interval(300.0, 400.0, "date", "wednesday"))


def test_the_index_is_asked_for_the_persons_own_turns_of_that_time():
    said = SaidBy(name="Hana", speakers=("Hana",), names=("hana",), is_strict=True, intervals=DAYS)
    asked = requests_of_speaker(REQUESTS, said)
    for name in ("vector", "lexical"):
        assert asked[name].scope == Scope(tenant="t", since=100.0, until=400.0, speakers=("Hana",))
    assert asked["rdf"] == REQUESTS["rdf"]


TEXT_OF_SEARCH = "what about the crane yesterday?"
MIDNIGHT = NOW - NOW % DAY
OLD = view("old", "the crane creaked", ts=MIDNIGHT - 0.5 * DAY)
NEW = view("new", "the crane fell", ts=MIDNIGHT - 90 * DAY)


FOUND_FIRST = (hit("new", 0.9), hit("other", 0.1))


@pytest.mark.asyncio(loop_scope="function")  # all tasks of its loop are its own
@pytest.mark.parametrize("is_hung", [False, True])
async def test_a_second_search_that_fails_or_hangs_costs_its_hits_and_no_more(tokens: TokenCounter, is_hung: bool):
    fault = asyncio.Event() if is_hung else SourceError("broken")
    made = Narrow(FOUND_FIRST, lambda scope: None if scope.since is None else fault)
    used, began = profile(time={"search_weight": 0.5}, source_timeout_ms=200), time.perf_counter()
    recalled = await recall(query(TEXT_OF_SEARCH), used, sources(tokens, [made], OLD, NEW), now=NOW)
    assert [item.memory.id for item in recalled.ranked] == ["new"]
    assert time.perf_counter() - began < 30
    assert not [task for task in asyncio.all_tasks() if "orion_recall/recall/" in repr(task)]


async def test_what_tells_of_the_named_time_joins_the_candidates(tokens: TokenCounter):
    made = Narrow(FOUND_FIRST, lambda scope: (hit("old", -0.3),) if scope.told else None)
    used = profile(time={"told_search_weight": 0.5})
    told = OLD._replace(told=(ToldTime(MIDNIGHT - DAY, MIDNIGHT),))
    recalled = await recall(query(TEXT_OF_SEARCH), used, sources(tokens, [made], told, NEW), now=NOW)
    assert {item.memory.id for item in recalled.ranked} == {"old", "new"}
    (request,) = [request for request in made.requests if request.scope.told]
    assert request.scope.told == ((MIDNIGHT - DAY, MIDNIGHT),)
    assert request.scope.since is None
    assert request.min_score == -1.0
