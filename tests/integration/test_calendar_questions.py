"""Questions for a calendar that is told in sentences: everything of the time comes first, over the real index."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncGenerator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import pytest

from orion_recall.contracts import MemoryV1, RecallQueryV1, read_message
from orion_recall.evaluation.fill import changes, fill
from orion_recall.evaluation.run_stores import index_and_graph, private_settings
from orion_recall.memory.record.compose import compose
from orion_recall.profile.watch import loaded_profiles
from orion_recall.recall.pipeline import recall
from orion_recall.recall.report.explain import explained
from orion_recall.recall.types import Recalled
from orion_recall.serving.backends import Opened, open_sources
from orion_recall.settings import Settings

TENANT = "calendar"
AS_OF = datetime(2025, 3, 12, 18, tzinfo=UTC)
WEEKDAYS = "MON TUE WED THU FRI SAT SUN".split()


class Entry(NamedTuple):
    """One thing that was said, and the days that it is on; `weekdays` of those every week."""

    id: str
    said: datetime
    days: frozenset[date]
    weekdays: frozenset[int]
    text: str

    def is_on(self, first: date, last: date) -> bool:
        days = [first + timedelta(days=number) for number in range((last - first).days + 1)]
        return any(day in self.days or day.weekday() in self.weekdays for day in days)


def entries() -> list[Entry]:
    found: list[Entry] = []
    for line in (Path(__file__).parents[1] / "data" / "calendar" / "entries.txt").read_text("utf-8").splitlines():
        if line.startswith("#"):
            continue
        name, said, on, text = line.split(" | ")
        days: set[date] = set()
        weekdays: set[int] = set()
        for part in on.split(","):
            if part in WEEKDAYS:
                weekdays.add(WEEKDAYS.index(part))
            elif part != "-":
                first, _, last = part.partition("/")
                start, end = date.fromisoformat(first), date.fromisoformat(last or first)
                days |= {start + timedelta(days=number) for number in range((end - start).days + 1)}
        moment = datetime.fromisoformat(said).replace(tzinfo=UTC)
        found.append(Entry(name, moment, frozenset(days), frozenset(weekdays), text))
    return found


ENTRIES = entries()
QUESTIONS = {
    "What do I have on tomorrow?": ("2025-03-13", "2025-03-13"),
    "What is on tomorrow?": ("2025-03-13", "2025-03-13"),
    "What's on this Friday?": ("2025-03-14", "2025-03-14"),
    "Is anything planned for Saturday?": ("2025-03-15", "2025-03-15"),
    "Do I have anything planned for Sunday?": ("2025-03-16", "2025-03-16"),
    "What's on this weekend?": ("2025-03-15", "2025-03-16"),
    "What is on on Tuesday?": ("2025-03-18", "2025-03-18"),
    "What have I got on Tuesday?": ("2025-03-18", "2025-03-18"),
    "What have I got next week?": ("2025-03-17", "2025-03-23"),
    "What is on next week?": ("2025-03-17", "2025-03-23"),
    "What is due on 20 March?": ("2025-03-20", "2025-03-20"),
    "What is coming up on the 24th?": ("2025-03-24", "2025-03-24"),
    "What's on tonight?": ("2025-03-12", "2025-03-12"),
    "Do we have anything on 11 April?": ("2025-04-11", "2025-04-11"),
    "What do I have on 24 May?": ("2025-05-24", "2025-05-24"),
    "What is planned for Easter?": ("2025-04-18", "2025-04-21"),
}


@pytest.fixture(scope="module")
async def opened() -> AsyncGenerator[Opened]:
    memories = [
        compose(MemoryV1(id=one.id, text=one.text, speaker="Marit", occurred_at=one.said), TENANT)
        for one in ENTRIES
    ]
    with tempfile.TemporaryDirectory(prefix="orion-calendar-", dir="/tmp") as folder:
        async with open_sources(private_settings(Settings.read(), Path(folder))) as stores:
            await fill(index_and_graph(stores), changes(memories))
            yield stores


async def ask(opened: Opened, text: str, name: str = "reflect.v1") -> Recalled:
    used = loaded_profiles(None)[name].profile.model_copy(update={"source_timeout_ms": 60_000})
    asked = read_message(RecallQueryV1, {"fragment": text, "options": {"as_of": AS_OF.isoformat()}}, "payload")
    return await recall(asked, used, opened.sources, tenant=TENANT, timeout_s=60)


def test_the_calendar_has_sixty_entries():
    assert len(ENTRIES) >= 60


@pytest.mark.parametrize("name", ["assist.light.v1", "reflect.v1", "deep.graph.v1"])
@pytest.mark.parametrize("question", QUESTIONS)
async def test_everything_that_is_on_comes_before_all_else(opened: Opened, name: str, question: str):
    first, last = map(date.fromisoformat, QUESTIONS[question])
    expected = {one.id for one in ENTRIES if one.is_on(first, last)}
    recalled = await ask(opened, question, name)
    best = [item.memory.id for item in recalled.ranked[: len(expected)]]
    assert set(best) == expected
    assert recalled.withheld is None
    chosen = {item.scored.memory.id for item in recalled.selection.items}
    assert chosen and (expected <= chosen or chosen <= expected)


async def test_what_is_over_is_not_coming_up(opened: Opened):
    recalled = await ask(opened, "What is coming up this week?")
    expected = {one.id for one in ENTRIES if one.is_on(date(2025, 3, 13), date(2025, 3, 16))}
    expected |= {"call", "pharmacy", "swimming"}  # tonight
    assert {item.memory.id for item in recalled.ranked[: len(expected)]} == expected
    assert recalled.withheld is None


@pytest.mark.parametrize("question", ["What is coming up?", "What's ahead of us?", "Do I have anything coming up?"])
async def test_what_is_still_to_come_answers_a_question_that_names_no_time(opened: Opened, question: str):
    recalled = await ask(opened, question)
    ahead = {one.id for one in ENTRIES if one.weekdays or max(one.days, default=date.min) >= AS_OF.date()}
    assert {item.memory.id for item in recalled.ranked[:12]} <= ahead
    assert len(recalled.selection.items) >= 12
    assert recalled.withheld is None


@pytest.mark.parametrize(
    "question",
    [
        "What do I need to do this week?",
        "What's happening on Friday?",
        "What must I not forget this week?",
        "Do I have time on Friday evening?",
        "What is booked for next week?",
        "What am I supposed to do today?",
        "Am I free on Thursday?",
        "What's coming up in the next two weeks?",
    ],
)
async def test_however_a_day_is_asked_for_its_entries_are_handed_over(opened: Opened, question: str):
    recalled = await ask(opened, question)
    assert recalled.understood is not None and recalled.understood.of_calendar
    assert recalled.withheld is None
    assert len(recalled.selection.items) >= 3


async def test_the_order_of_a_calendar_is_explained(opened: Opened):
    why = explained(await ask(opened, "What is coming up this week?"))["why"]
    assert why[0] == {"code": "calendar"}
    assert why[1]["place"] == 1
    assert explained(await ask(opened, "When is the wedding?"))["why"][0]["place"] == 1


async def test_when_something_is_finds_what_is_still_to_come(opened: Opened):
    for question, answer in {
        "When is the wedding?": "wedding",
        "When does the vet see Pixel?": "vet",
        "When is the inspection of the van?": "mot",
    }.items():
        assert (await ask(opened, question)).ranked[0].memory.id == answer


async def test_what_happened_on_a_day_is_found_by_the_day_that_is_told(opened: Opened):
    recalled = await ask(opened, "What happened on 3 March?")
    assert "flat" in [item.scored.memory.id for item in recalled.selection.items]
    recalled = await ask(opened, "What did I do on 9 March?")
    assert "ran" in [item.scored.memory.id for item in recalled.selection.items]
