"""What few memories say is found among many that share the question's words: of one summer, of one kind."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from datetime import UTC, datetime, timedelta

import pytest
from serving import filled_stores

from orion_recall.contracts import MemoryV1, RecallQueryV1, read_message
from orion_recall.memory.record.compose import compose
from orion_recall.profile import Profile
from orion_recall.recall.pipeline import Recalled, recall
from orion_recall.serving.backends import Opened
from tests.stand_ins.patient_profiles import patient

pytestmark = pytest.mark.slow

NAMES = ("assist.light.v1", "reflect.v1", "deep.graph.v1")
AS_OF = "2026-11-22T12:00:00Z"
DOINGS = (
    "was in Paris for a meeting",
    "visited friends in Paris",
    "did some shopping in Paris",
    "walked along the Seine in Paris",
    "did an interview in Paris",
    "had dinner in Paris",
    "saw a film in Paris",
    "did a talk in Paris",
    "met a client in Paris",
    "was in Paris with Ana",
)
OTHERS = (
    "The harbour crane is repaired.",
    "Ana bought a bike.",
    "It rained all day.",
    "Bo paints the fence.",
    "The cat is called Mimi.",
    "We had soup.",
    "The dentist is in March.",
    "The car needs oil.",
    "Lena sings in a choir.",
    "The garden is full of weeds.",
    "Tom moved to Oslo.",
)
ANSWERS = {
    "near": "John took a pottery course in Paris.",
    "far": "He took a pottery course near Montmartre and sold three bowls.",
}


def of_paris(tenant: str, answer: str) -> list[MemoryV1]:
    """300 memories of John in Paris from years, none of them from last summer, and 12 others."""
    days = (datetime(2019, 1, 3, 9, tzinfo=UTC) + timedelta(days=8 * place) for place in range(400))
    trips = [day for day in days if not (day.year == 2026 and 5 <= day.month <= 9)][:300]
    told = [
        MemoryV1(
            id=f"paris-{place}", tenant=tenant, text=f"John {DOINGS[place % 10]}, trip {place}.", occurred_at=day
        )
        for place, day in enumerate(trips)
    ]
    told += [
        MemoryV1(
            id=f"other-{place}", tenant=tenant, text=text, occurred_at=datetime(2020 + place % 6, 3, 5, tzinfo=UTC)
        )
        for place, text in enumerate(OTHERS)
    ]
    return [
        *told,
        MemoryV1(id="answer", tenant=tenant, text=answer, occurred_at=datetime(2026, 7, 14, 15, tzinfo=UTC)),
    ]


def of_kinds(tenant: str) -> list[MemoryV1]:
    """200 facts about the harbour, and three opinions of it in other words."""
    facts = [
        MemoryV1(
            id=f"fact-{place}", tenant=tenant, kind="world", text=f"The harbour crane at quay {place} is working."
        )
        for place in range(200)
    ]
    opinions = ("I think cranes are ugly.", "Ana finds the quay too loud.", "Bo likes looking at boats.")
    return [
        *facts,
        *(
            MemoryV1(id=f"opinion-{place}", tenant=tenant, kind="opinion", text=text)
            for place, text in enumerate(opinions)
        ),
    ]


@pytest.fixture(scope="module")
async def opened() -> AsyncGenerator[Opened]:
    told = [one for name, answer in ANSWERS.items() for one in of_paris(name, answer)]
    async with filled_stores([compose(one, "default") for one in (*told, *of_kinds("kinds"))]) as stores:
        yield stores


def shipped(name: str, **time: float) -> Profile:
    profile = patient(name)
    return profile.model_copy(update={"time": profile.time.model_copy(update=time)})


async def ask(opened: Opened, text: str, used: Profile, tenant: str, **options: object) -> Recalled:
    asked = read_message(RecallQueryV1, {"fragment": text, "options": {"as_of": AS_OF, **options}}, "payload")
    return await recall(asked, used, opened.sources, tenant=tenant, timeout_s=60)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("tenant", list(ANSWERS))
@pytest.mark.parametrize(
    "question",
    [
        "What did John do in Paris last summer?",
        "What happened in Paris last summer?",
        "Where was John last summer?",
    ],
)
async def test_the_one_of_last_summer_is_first_of_312_of_which_300_share_the_words(
    opened: Opened, name: str, tenant: str, question: str
) -> None:
    recalled = await ask(opened, question, shipped(name), tenant)
    assert recalled.selection.items[0].scored.memory.id == "answer"
    assert recalled.ranked[0].memory.id == "answer"


async def test_a_filter_by_time_finds_it_although_no_other_list_has_it(opened: Opened) -> None:
    used = shipped("reflect.v1", filter=True)
    recalled = await ask(opened, "What did John do in Paris last summer?", used, "far")
    assert [item.memory.id for item in recalled.ranked] == ["answer"]


async def test_each_kind_that_a_query_names_has_its_own_lists(opened: Opened) -> None:
    """Of 200 facts that share the words and three opinions that hardly do, the opinions have a fair place."""
    text, used = "What about the harbour crane at the quay?", shipped("reflect.v1")
    crowded = await ask(opened, text, used, "kinds")
    assert not any(item.memory.kind == "opinion" for item in crowded.ranked)
    recalled = await ask(opened, text, used, "kinds", kinds=["world", "opinion"])
    opinions = [item for item in recalled.ranked if item.memory.kind == "opinion"]
    assert {item.memory.id for item in opinions} >= {"opinion-0", "opinion-1"}
    assert max(item.candidate.fused for item in opinions) >= 0.45
    assert len(recalled.ranked) > 50
    reports = {report.source: report for report in recalled.reports}
    assert [len(one) for one in reports["vector"].lists] == [100, 3]
    assert [hit.score for hit in reports["vector"].hits] == sorted(
        (hit.score for hit in reports["vector"].hits), reverse=True
    )
    only = await ask(opened, text, used, "kinds", kinds=["opinion"])
    assert {item.memory.kind for item in only.ranked} == {"opinion"}
