"""Questions about people in a small world with two of one first name: who asks, who said it, who it is."""

from __future__ import annotations

import json
import tempfile
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from orion_recall.contracts import RecallQueryV1, read_message
from orion_recall.evaluation.dataset import read_memories
from orion_recall.evaluation.fill import changes, fill
from orion_recall.evaluation.run_stores import index_and_graph, private_settings
from orion_recall.profile.watch import loaded_profiles
from orion_recall.recall.pipeline import recall
from orion_recall.recall.report.shared_names import first_names_shared
from orion_recall.recall.types import Recalled
from orion_recall.serving.backends import Opened, open_sources
from orion_recall.settings import Settings

TENANT = "pottery"
AS_OF = "2026-05-20T18:00:00Z"  # a Wednesday
WORLD = [
    ("i1", "2026-04-02T09:00", "Iris", "My sister Hana Sato fires the kiln for us, she is the one with the keys."),
    ("i2", "2026-04-03T09:00", "Iris", "I live at Weaver's Lane 4, above the bakery."),
    ("v1", "2026-04-03T10:00", "Bram Visser", "I live at Canal Street 90, mind the dog."),
    ("v2", "2026-05-04T10:00", "Bram Visser", "The rent of the workshop goes up to 410 in July."),
    ("o1", "2026-05-05T10:00", "Bram Okafor", "Rent or no rent, I bring the clay on Thursdays."),
    ("o2", "2026-05-06T10:00", "Bram Okafor", "My van is at the garage, so no glaze before Monday."),
    ("i3", "2026-05-06T11:00", "Iris", "I report to Wim Aerts now, he decides about the fairs."),
    ("h1", "2026-05-12T08:00", "Hana Sato", "The kiln needs a new door seal, about sixty euros."),
    ("h2", "2026-05-19T08:00", "Hana Sato", "Could you bring the long gloves tomorrow, Iris?"),
    ("h3", "2026-05-19T16:00", "Hana Sato", "Firing starts at six, don't open the door before noon."),
    ("i4", "2026-05-19T16:05", "Iris", "Noted, gloves are in the bag."),
    ("i5", "2026-05-19T17:00", "Iris", "I rang Lotte Maes about the market stall. She says it is ours all summer."),
    ("a1", "2026-05-19T18:00", "Assistant", "For the fair I suggest two crates and a roll of bubble wrap."),
    ("i6", "2026-05-20T09:00", "Iris", "Wim Aerts, my boss, wants the fair list by Friday."),
    ("i7", "2026-05-20T10:00", "Iris", "The stall costs 35 a day and the kiln is warm."),
]  # fmt: skip


@pytest.fixture(scope="module")
async def opened() -> AsyncGenerator[Opened]:
    with tempfile.TemporaryDirectory(prefix="orion-who-", dir="/tmp") as folder:
        file = Path(folder) / "memories.jsonl"
        names = ("memory_id", "turn_datetime", "speaker", "text")
        lines = [dict(zip(names, row, strict=True)) for row in WORLD]
        shared = [{**line, "conversation_id": TENANT, "session_id": line["turn_datetime"][:10]} for line in lines]
        file.write_text("\n".join(map(json.dumps, shared)))
        async with open_sources(private_settings(Settings.read(), Path(folder))) as stores:
            await fill(index_and_graph(stores), changes(read_memories(file)))
            yield stores


async def ask(opened: Opened, text: str, user: str | None = "Iris", profile: str = "reflect.v1") -> Recalled:
    options = {"as_of": AS_OF, **({} if user is None else {"user": user})}
    asked = read_message(RecallQueryV1, {"fragment": text, "options": options}, "payload")
    used = loaded_profiles(None)[profile].profile.model_copy(update={"source_timeout_ms": 60_000})
    return await recall(asked, used, opened.sources, tenant=TENANT, timeout_s=60)


def ids(recalled: Recalled) -> list[str]:
    return [item.scored.memory.id for item in recalled.selection.items]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("What did Hana say yesterday?", {"h2", "h3"}),
        ("What did Hana ask me yesterday?", {"h2", "h3"}),
        ("What did Hana say about the kiln last week?", {"h1"}),
        ("What did Bram Visser say about the rent?", {"v1", "v2"}),
        ("What did Bram say about the rent?", {"v1", "v2", "o1", "o2"}),
        ("What did Lotte Maes say about the stall?", {"i5"}),
        ("What did the assistant recommend for the fair?", {"a1"}),
        ("What did you suggest?", {"a1"}),
        ("What did I say today?", {"i6", "i7"}),
        ("What did my boss say about the list?", {"i6"}),
    ],
)  # fmt: skip
async def test_what_somebody_said_is_answered_by_their_words_alone(opened: Opened, text: str, said: set[str]):
    recalled = await ask(opened, text)
    assert set(ids(recalled)) == said
    assert recalled.withheld is None


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("What did Bram Okafor say about the door seal?", " about it"),
        ("What did Bram Visser say yesterday?", " in the time asked about"),
        ("What did Quentin say about the rent?", " about it"),
        ("What did the optician tell me?", ""),
    ],
)  # fmt: skip
async def test_if_they_said_nothing_of_it_that_is_the_answer(opened: Opened, text: str, reason: str):
    recalled = await ask(opened, text)
    assert (ids(recalled), recalled.outcome) == ([], "empty")
    assert recalled.withheld is not None
    assert recalled.withheld.reason == f"nothing that was found is known to be said{reason} by the one who is named"
    assert recalled.selection.dropped["not_said_by"] == recalled.withheld.near_misses > 0


@pytest.mark.parametrize(("user", "first"), [("Iris", "i2"), ("Bram Visser", "v1"), ("bram_visser", "v1")])
async def test_i_am_who_asks(opened: Opened, user: str, first: str):
    assert ids(await ask(opened, "Where do I live?", user))[0] == first


async def test_a_chain_from_my_goes_from_the_one_who_asks(opened: Opened):
    recalled = await ask(opened, "Who is my boss?", profile="deep.graph.v1")
    assert ids(recalled)[0] in ("i3", "i6")
    assert any("Iris" in statement for item in recalled.ranked[:2] for statement in item.candidate.statements)


async def test_who_somebody_is_is_told_by_what_introduces_them(opened: Opened):
    assert ids(await ask(opened, "Who is Hana?"))[0] == "i1"
    assert ids(await ask(opened, "Who is Wim Aerts?"))[0] == "i6"


async def test_a_first_name_of_two_people_is_explained(opened: Opened):
    (note,) = first_names_shared(await ask(opened, "What did Bram say about the rent?"))
    assert note.startswith("Bram may be Bram Okafor or Bram Visser")
    assert first_names_shared(await ask(opened, "What did Bram Visser say about the rent?")) == []
