from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from orion_recall.errors import SourceError
from orion_recall.models.tokenizer import TokenCounter
from orion_recall.recall.pipeline import recall
from orion_recall.recall.report.explain import explained
from orion_recall.recall.search.period import MOST_OF_PERIOD, session_at
from orion_recall.recall.types import Recalled
from orion_recall.time_values import TimedKey
from orion_recall.values import MemoryView, Scope, ToldTime
from tests.samples.recall_fakes import TENANT, FakeSource, Speakers, hit, key, profile, query, sources, view

NOW = datetime(2026, 6, 17, 12, tzinfo=UTC).timestamp()  # a Wednesday
DAY = 86_400.0
YESTERDAY = NOW - DAY


class Calendar:
    """An index that lists the memories it is given by their time."""

    def __init__(self, *memories: MemoryView, error: Exception | None = None, hangs: bool = False) -> None:
        self.memories, self.error, self.hangs = memories, error, hangs
        self.asked: list[Scope] = []

    async def in_time_order(
        self, scope: Scope, limit: int, *, newest_first: bool = False, without_sessions: Sequence[str] = ()
    ) -> Sequence[TimedKey]:
        self.asked.append(scope)
        if self.error is not None:
            raise self.error
        if self.hangs:
            await asyncio.Event().wait()
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


async def ask(
    tokens: TokenCounter,
    text: str,
    *memories: MemoryView,
    found: Sequence[str] = (),
    index: Calendar | None = None,
    **options: Any,
) -> Recalled:
    source = FakeSource("vector", [hit(name, 0.9 - place / 100) for place, name in enumerate(found)])
    made = replace(
        sources(tokens, [source], *memories),
        chronological=index or Calendar(*memories),
        lexicon=Speakers("Hana", "Otto", "Rosa"),
    )
    limit_ms = 200 if index is not None else 30_000  # one that hangs is waited for
    return await recall(query(text, **options), profile(source_timeout_ms=limit_ms), made, now=NOW)


def ids(recalled: Recalled) -> list[str]:
    return [item.scored.memory.id for item in recalled.selection.items]


async def test_a_recap_is_everything_of_the_period_and_nothing_else(tokens: TokenCounter):
    memories = (
        view("eve", "We painted the boat.", ts=YESTERDAY - DAY, session_id="eve"),
        view("morning", "The rudder came from Umbra Works.", ts=YESTERDAY - 3600, session_id="one"),
        view("noon", "Nobody knows where the anchor is.", ts=YESTERDAY, session_id="two"),
        view("today", "Yesterday's paint is dry.", ts=NOW - 3600, session_id="today"),
    )
    recalled = await ask(tokens, "What happened yesterday?", *memories, found=["today", "eve", "noon"])
    assert ids(recalled) == ["morning", "noon"]
    assert recalled.selection.dropped["other_time"] == 2


async def test_the_day_beside_is_looked_at_only_where_the_day_has_nothing(tokens: TokenCounter):
    memory = view("eve", "We painted the boat.", ts=YESTERDAY - DAY, session_id="eve")
    recalled = await ask(tokens, "What happened yesterday?", memory)
    assert ids(recalled) == ["eve"]
    assert recalled.understood is not None
    assert recalled.understood.question.time.widened
    (why,) = explained(recalled)["why"]
    assert (why["code"], why["of"], why["widened"], why["memories"]) == ("recap", "time", True, 1)
    nothing = await ask(tokens, "What happened yesterday?", memory._replace(ts=YESTERDAY - 3 * DAY))
    assert (ids(nothing), nothing.outcome) == ([], "empty")


async def test_nobody_is_a_day_off_with_a_month(tokens: TokenCounter):
    june = view("june", "We painted the boat.", ts=datetime(2026, 6, 1, 8, tzinfo=UTC).timestamp())
    assert ids(await ask(tokens, "What did I do in May?", june, found=["june"])) == []
    assert ids(await ask(tokens, "What did I do in June?", june)) == ["june"]


@pytest.mark.parametrize("zone", ["America/Lima", "UTC", "Asia/Tokyo"])
async def test_what_was_told_of_this_week_is_not_of_the_last(tokens: TokenCounter, zone: str):
    monday = datetime(2026, 6, 15, tzinfo=UTC).timestamp()
    memories = (
        view("week", "I rowed three times this week.", ts=NOW - 60, told=(ToldTime(monday, monday + 7 * DAY),)),
        view("then", "I rowed to the mill.", ts=monday - 2 * DAY),
        view("later", "Last week I rowed to the mill.", ts=NOW - 90, told=(ToldTime(monday - 7 * DAY, monday),)),
    )
    recalled = await ask(tokens, "What happened last week?", *memories, options={"timezone": zone})
    assert ids(recalled) == ["then", "later"]


async def test_what_was_told_of_the_time_later_belongs_to_what_happened_then(tokens: TokenCounter):
    midnight = NOW - NOW % DAY
    of_yesterday = ToldTime(midnight - DAY, midnight)
    memories = (
        view("then", "The rudder came.", ts=YESTERDAY, session_id="one"),
        view("report", "Yesterday the mast broke.", ts=NOW - 3600, session_id="two", told=(of_yesterday,)),
        view("plan", "Tomorrow the crane comes.", ts=YESTERDAY - DAY, session_id="three", told=(of_yesterday,)),
        view("weekly", "We sail on Tuesdays.", ts=NOW - 60, told=(of_yesterday._replace(weekly=True),)),
        view("year", "It rains all year.", ts=NOW - 50, told=(ToldTime(midnight - 200 * DAY, midnight),)),
    )
    assert ids(await ask(tokens, "What happened yesterday?", *memories)) == ["then", "report"]
    assert ids(await ask(tokens, "What did we talk about yesterday?", *memories)) == ["then"]


async def test_a_recap_that_names_somebody_is_of_that_person(tokens: TokenCounter):
    memories = (
        view("own", "The rudder came.", speaker="Hana", ts=YESTERDAY, session_id="one"),
        view("named", "Hana has mended the sail.", speaker="Otto", ts=YESTERDAY + 1, session_id="two"),
        view("other", "The anchor is lost.", speaker="Otto", ts=YESTERDAY + 2, session_id="two"),
    )
    assert ids(await ask(tokens, "What did Hana do yesterday?", *memories)) == ["own", "named"]
    assert ids(await ask(tokens, "What did Otto and I talk about yesterday?", *memories)) == ["named", "other"]
    nothing = await ask(tokens, "What did Rosa do yesterday?", *memories)
    assert ids(nothing) == [], "the day itself is not empty: no day beside it is looked at"


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
        view(f"{name}-{turn}", f"{name} says {turn}.", ts=NOW - (9 - day) * DAY + turn, session_id=name)
        for day, name in enumerate(("one", "two", "three"))
        for turn in range(2)
    ]
    own = view("now", "Hello again.", ts=NOW - 5, session_id="own")
    recalled = await ask(tokens, text, *memories, own, found=["one-0", "three-1"], session_id="own")
    assert ids(recalled) == [f"{session}-0", f"{session}-1"]


async def test_of_a_session_that_is_not_there_the_question_is_searched_as_any_other(tokens: TokenCounter):
    memory = view("a", "The rudder came.", ts=YESTERDAY, session_id="one")
    recalled = await ask(tokens, "What did we talk about in our 30th session?", memory, found=["a"])
    assert ids(recalled) == ["a"]
    assert recalled.understood is not None
    assert recalled.understood.shape is None


async def test_a_session_with_a_subject_counts_in_the_score(tokens: TokenCounter):
    memories = [
        view(name, f"{name} rudder", ts=NOW - 9 * DAY + day, session_id=name) for day, name in enumerate("abc")
    ]
    recalled = await ask(tokens, "What was the rudder in our second session?", *memories, found=["a", "c", "b"])
    assert {item.memory.id: item.parts["time"] for item in recalled.ranked} == {"a": 0.0, "b": 1.0, "c": 0.0}


async def test_sessions_beyond_the_first_page_are_counted():
    turns = [
        view(f"{name}-{turn}", ts=NOW + name * 1000 + turn, session_id=f"s{name}")
        for name in range(5)
        for turn in range(200)
    ]
    index, scope = Calendar(*turns), Scope(tenant=TENANT)
    assert [await session_at(index, scope, place) for place in (1, 4, 5, 6, -1, -5, -6)] == [
        "s0",
        "s3",
        "s4",
        None,
        "s4",
        "s0",
        None,
    ]
    assert await session_at(index, scope, -1, without="s4") == "s3"
    assert await session_at(Calendar(error=SourceError("away")), scope, 1) is None


async def test_a_period_with_too_much_is_covered_from_its_beginning_to_its_end(tokens: TokenCounter):
    turns = [view(f"m{day}-{n}", f"{day} {n}", ts=NOW - day * DAY - n) for day in range(1, 100) for n in range(8)]
    recalled = await ask(tokens, "What happened since March?", *turns)
    days = {item.memory.id.split("-")[0] for item in recalled.ranked}
    assert len(recalled.ranked) <= MOST_OF_PERIOD
    assert any(int(day[1:]) > 80 for day in days)
    assert any(int(day[1:]) < 10 for day in days)


@pytest.mark.parametrize("index", [Calendar(error=SourceError("away")), Calendar(hangs=True)])
async def test_without_the_list_the_sources_find_what_they_can(tokens: TokenCounter, index: Calendar):
    memories = (view("then", "The rudder came.", ts=YESTERDAY), view("now", "It fits.", ts=NOW - 60))
    recalled = await ask(tokens, "What happened yesterday?", *memories, found=["now", "then"], index=index)
    assert ids(recalled) == ["then"]


async def test_a_recap_is_not_withheld_for_resembling_nothing(tokens: TokenCounter):
    memory = view("then", "The rudder came.", ts=YESTERDAY)
    made = replace(sources(tokens, [FakeSource("vector", [])], memory), chronological=Calendar(memory))
    used = profile(no_answer={"min_confidence": 0.99})
    recalled = await recall(query("What happened yesterday?"), used, made, now=NOW)
    assert ids(recalled) == ["then"]


async def test_the_scope_of_the_query_holds_in_a_recap(tokens: TokenCounter):
    memories = (
        view("ours", "The rudder came.", ts=YESTERDAY, kind="world"),
        view("theirs", "The sail came.", ts=YESTERDAY, kind="task"),
    )
    recalled = await ask(tokens, "What happened yesterday?", *memories, options={"kinds": ["world"]})
    assert ids(recalled) == ["ours"]
