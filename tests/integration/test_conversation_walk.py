"""The walk over a conversation, with the real model and engines.

It finds turns that share no word with the question and are far from it in meaning: the profile's `min_similarity`
leaves them out of the search by meaning.
"""

from __future__ import annotations

import tempfile
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from orion_recall.contracts import MemoryV1, RecallQueryV1, read_message
from orion_recall.evaluation.fill import changes, fill
from orion_recall.evaluation.run_stores import index_and_graph, private_settings
from orion_recall.memory.record.compose import compose
from orion_recall.profile import Profile
from orion_recall.recall.pipeline import recall
from orion_recall.recall.types import Recalled
from orion_recall.serving.backends import Opened, open_sources
from orion_recall.settings import Settings
from orion_recall.text.normal import content_words
from orion_recall.values import Change, Memory
from tests.stand_ins.patient_profiles import patient

TENANT = "boat"
START = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
QUESTION = "What is wrong with the lighthouse generator?"
# By id: session, speaker, text, user, and what it replies to.
TURNS: Mapping[str, tuple[str, str, str, str, str | None]] = {
    "asked": ("s1", "Ana", "The lighthouse generator is broken: who repairs it?", "u1", None),
    "reply": ("s1", "Bo", "Ring Umbra Works, they come on Tuesdays.", "u1", None),
    "thanks": ("s1", "Ana", "Wonderful, thank you.", "u1", None),
    "price": ("s1", "Bo", "Four hundred, cash in hand.", "u1", None),
    "linked": ("s2", "Bo", "Paid the invoice, all done.", "u1", "asked"),
    "other": ("s3", "Eve", "Eve saw it too, and told nobody.", "u2", "asked"),
    "gear": (
        "s4",
        "Ana",
        "The lighthouse generator is wrong without its copper gasket and brass valve.",
        "u1",
        None,
    ),
    "topic": ("s5", "Bo", "Copper gasket, brass valve: box seven, top shelf.", "u1", None),
    "quoted": (
        "s6",
        "Ana",
        "Ana wrote “better wait until Friday noon” about the lighthouse generator.",
        "u1",
        None,
    ),
    "said": ("s7", "Bo", "Better wait until Friday noon.", "u1", None),
    "alone": ("s8", "Bo", "The cat sleeps on the sofa.", "u1", None),
    **{f"n{place}": (f"t{place}", "Cy", f"Dinner number {place} was soup.", "u1", None) for place in range(20)},
}
REACHED = {"reply", "thanks", "price", "linked", "other", "topic", "said"}


def memory(name: str, tenant: str = TENANT) -> Memory:
    session, speaker, text, user, answers = TURNS[name]
    at = START + timedelta(minutes=list(TURNS).index(name))
    fields: dict[str, Any] = {
        "id": name,
        "text": text,
        "speaker": speaker,
        "session_id": session,
        "user_id": user,
        "occurred_at": at.isoformat(),
        "metadata": {"in_reply_to": answers} if answers else {},
    }
    return compose(read_message(MemoryV1, fields, ""), tenant)


@pytest.fixture
async def opened() -> AsyncGenerator[Opened]:
    with tempfile.TemporaryDirectory(prefix="orion-conversation-", dir="/tmp") as folder:
        async with open_sources(private_settings(Settings.read(), Path(folder))) as stores:
            await fill(index_and_graph(stores), changes([memory(name) for name in TURNS]))
            yield stores


def profile(*, weight: float = 0.5, **walk: Any) -> Profile:
    shipped = patient("reflect.v1")
    ranking = {**dict.fromkeys(type(shipped.ranking).model_fields, 0.0), "fusion": 0.5, "conversation": weight}
    conversation = shipped.graph.conversation.model_copy(update=walk)
    return shipped.model_copy(
        update={
            "ranking": shipped.ranking.model_copy(update=ranking),
            "graph": shipped.graph.model_copy(update={"conversation": conversation}),
            "min_similarity": 0.45,
            "enable_query_expansion": False,
            "max_per_source": 30,
            "rdf_top_k": 30,
            "max_total_items": 30,
            "render_budget_tokens": 2000,
        }
    )


async def ask(opened: Opened, used: Profile, tenant: str = TENANT, **options: Any) -> Recalled:
    query = RecallQueryV1.model_validate({"fragment": QUESTION, "options": options})
    return await recall(query, used, opened.sources, tenant=tenant, timeout_s=60)


def names(recalled: Recalled) -> list[str]:
    return [item.memory.id for item in recalled.ranked]


async def test_turns_that_no_word_and_no_meaning_finds_are_reached_by_each_kind_of_edge(opened: Opened):
    asked = set(content_words(QUESTION))
    assert all(asked.isdisjoint(content_words(TURNS[name][2])) for name in REACHED)
    alone = set(names(await ask(opened, profile(weight=0.0))))
    assert {"asked", "gear", "quoted"} <= alone
    # The index knows the turns beside a memory, and finds "reply" by the words of "asked".
    assert REACHED & alone <= {"reply"}
    walked = await ask(opened, profile())
    assert set(names(walked)) >= REACHED
    assert {"alone", "n3"}.isdisjoint(names(walked)), "what nothing leads to is not brought"
    assert "Copper gasket, brass valve: box seven" in walked.rendered
    linked = next(item for item in walked.ranked if item.memory.id == "linked")
    assert linked.candidate.best_source == "rdf"
    assert linked.parts["conversation"] > 0.0


@pytest.mark.parametrize(
    ("kind", "lost"),
    [("next", {"thanks", "price"}), ("reference", {"linked", "other"}), ("topic", {"topic"})],
)
async def test_an_edge_without_weight_is_not_gone_along(opened: Opened, kind: str, lost: set[str]):
    weights = profile().graph.conversation.weights.model_copy(
        update={kind: 0.0} | ({"reply": 0.0} if kind == "next" else {})
    )
    without = set(names(await ask(opened, profile(weights=weights))))
    assert REACHED - without >= lost
    assert "said" in without, "it is quoted, and shares the keywords of the turn that quotes it"


async def test_no_turn_outside_the_scope_is_brought(opened: Opened):
    theirs = await ask(opened, profile(), scope="user", user="u1")
    assert "other" not in names(theirs)
    assert "linked" in names(theirs)
    assert names(await ask(opened, profile(), tenant="elsewhere")) == []
    kinds = await ask(opened, profile(), kinds=["world"])
    assert REACHED.isdisjoint(names(kinds))


async def test_deleting_or_changing_a_turn_removes_its_edges(opened: Opened):
    copies = index_and_graph(opened)
    position = len(TURNS)

    async def write(changed: Memory) -> None:
        nonlocal position
        position += 1
        for copy in copies:
            await copy.apply([Change(position=position, memory=changed)])

    await write(replace(memory("linked"), metadata={}, version=2))
    assert "linked" not in names(await ask(opened, profile()))
    await write(replace(memory("gear"), deleted_at=START.timestamp()))
    left: Sequence[str] = names(await ask(opened, profile()))
    assert {"gear", "topic"}.isdisjoint(left), "nothing shares its keywords any more"
    assert {"other", "said"} <= set(left)
