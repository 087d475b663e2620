"""Questions of several steps over titled passages, with the real model and engines: what is named is followed."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest
from serving import filled_stores

from orion_recall.contracts import MemoryV1, RecallQueryV1
from orion_recall.evaluation.trials import changes, fill, index_and_graph
from orion_recall.memory.record.compose import compose
from orion_recall.profile import Profile
from orion_recall.recall.pipeline import Recalled, recall
from orion_recall.serving.backends import Opened
from tests.stand_ins.patient_profiles import patient

TENANT = "passages"
PASSAGES = {
    "Harbour crane of Vik": "The harbour crane of Vik lifts forty tonnes. It was made by Umbra Works in 1931.",
    "Umbra Works": "A maker of lifting gear, founded by Ida Miles after she left the railways.",
    "Ida Miles": "An engineer, born in Sandnes in 1887. She kept bees and wrote two cookbooks.",
    "Sandnes": "A town on the south-western coast, known for its pottery and its bicycles.",
    "Harbour crane of Oslo": "The harbour crane of Oslo lifts twenty tonnes. A museum looks after it now.",
    "Railway cranes": "Cranes on railway waggons lift what has fallen off the track.",
    "Cookbooks": "Many cookbooks of those years were written by teachers.",
    **{f"Crane number {place}": f"A crane of the harbour, made in {1900 + place}." for place in range(40)},
}
QUESTION = "Who founded the maker of the harbour crane of Vik?"


@pytest.fixture(scope="module")
async def opened() -> AsyncGenerator[Opened]:
    memories = [compose(MemoryV1(id=title, title=title, text=text), TENANT) for title, text in PASSAGES.items()]
    async with filled_stores(memories) as stores:
        yield stores


def profile(**ranking: float) -> Profile:
    shipped = patient("deep.graph.v1")
    return shipped.model_copy(update={"ranking": shipped.ranking.model_copy(update=ranking)})


async def ask(opened: Opened, used: Profile, text: str = QUESTION) -> Recalled:
    recalled = await recall(RecallQueryV1(fragment=text), used, opened.sources, tenant=TENANT, timeout_s=60)
    assert recalled.result is not None
    seen = recalled.result.keys | {candidate.key for candidate in recalled.result.pool}
    # What was followed to is counted like all else: handed over, or dropped for a reason.
    assert len(recalled.selection.items) + sum(recalled.selection.dropped.values()) == len(seen)
    return recalled


def place(recalled: Recalled, title: str) -> int:
    return [item.memory.id for item in recalled.ranked].index(title)


async def test_what_the_first_passage_names_comes_next(opened: Opened):
    followed = await ask(opened, profile())
    alone = await ask(opened, profile(links=0.0, second_step=0.0))
    assert place(followed, "Umbra Works") < min(2, place(alone, "Umbra Works"))
    assert followed.ranked[place(followed, "Umbra Works")].parts["links"] > 0.3
    assert "links" not in alone.ranked[0].parts


async def test_a_second_search_brings_what_shares_no_word_with_the_question(opened: Opened):
    followed = await ask(opened, profile(links=0.0, second_step=0.3))
    alone = await ask(opened, profile(links=0.0, second_step=0.0))
    assert place(followed, "Umbra Works") < place(alone, "Umbra Works")
    assert followed.ranked[place(followed, "Umbra Works")].parts["second_step"] > 0.0


FAMILY = {
    "m1": ("Ana", "Ida is my sister. We had lunch at the quay."),
    "m2": ("Ana", "Ida works at Umbra Works since the spring."),
    "m3": ("Bo", "My sister works at Fjord Labs, and her employer is strict."),
    "m4": ("Bo", "Who is an employer these days? Ask Ana's sister's friends."),
    **{f"n{place}": ("Bo", f"Nothing to tell of sisters or employers, number {place}.") for place in range(20)},
}


async def test_the_path_of_a_possessive_chain_comes_back_as_evidence(opened: Opened):
    told = [
        compose(MemoryV1(id=name, text=text, speaker=speaker), "family") for name, (speaker, text) in FAMILY.items()
    ]
    await fill(index_and_graph(opened), changes(told))
    asked = RecallQueryV1(fragment="What is Ana's sister's employer?")
    found = await recall(asked, profile(), opened.sources, tenant="family", timeout_s=60)
    assert "m2" in [item.memory.id for item in found.ranked[:3]]
    assert "Ida sister of Ana; Ida works at Umbra Works" in found.rendered
    without = profile().model_copy(update={"graph": profile().graph.model_copy(update={"paths": False})})
    other = await recall(asked, without, opened.sources, tenant="family", timeout_s=60)
    assert "Ida sister of Ana; Ida works at Umbra Works" not in other.rendered
