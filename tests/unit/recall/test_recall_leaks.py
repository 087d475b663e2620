"""What a query never learns of memories that it may not see: their speakers, and how often they have a word.

On a real index and a real graph, with the trace, the decision and the reply of each recall.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from orion_recall.models.sparse import SparseEncoder
from orion_recall.models.tokenizer import TokenCounter
from orion_recall.recall.pipeline import Recalled, recall
from orion_recall.recall.report.decision import RequestFacts, decision
from orion_recall.recall.report.reply import explained, reply
from orion_recall.text.redaction import NO_REDACTION, Redaction
from orion_recall.values import SuccessionLink
from tests.samples.copies import Copies, opened_copies
from tests.samples.recall_fakes import profile, query
from tests.samples.source_samples import NOW, TENANT, key, memory

CANARY = "Zebedee Quillfeather"
SCOUT = {"agent_id": "scout", "run_id": "r1"}
OURS = (
    memory(
        "m1", "The harbour crane needs a new gearbox.", speaker="Mel Ash", session_id="s1", user_id="mel", **SCOUT
    ),
    memory(
        "m2", "I ordered the gearbox at Fjord Labs.", speaker="Assistant", session_id="s1", user_id="mel", **SCOUT
    ),
    memory("m3", "The shed at the harbour is painted.", speaker="Mel Ash", session_id="s2", user_id="mel"),
)
THEIRS = (
    memory(
        "c1", "The crane is mine.", speaker=CANARY, session_id="s9", user_id="zeb", agent_id="scout", run_id="r2"
    ),
    memory("c2", "A gearbox costs much.", speaker=CANARY, session_id="s8", user_id="other", run_id="r1"),
)
STRANGERS = (memory("c3", "The crane is ours.", tenant="other", speaker=CANARY, session_id="s1", user_id="mel"),)
TEXTS = (
    "The crane at the harbour turned.",
    "Mel ordered a part.",
    "A gearbox came from the labs.",
    "It rained on the shed.",
    "Somebody painted it green.",
)
ASKED = (
    "zeb",
    "Zebedee",
    "zeb's crane",
    "what did zebedee say about the crane?",
    "What did Zebedee Q say?",
    "Who is Zebedee?",
    "When did Zeb order the gearbox?",
    "What did I say about the gearbox?",
    "Did Mel and Zebedee talk yesterday?",
    "qui crane gearbox",
    "summary of last week with Zebedee",
)


@pytest.fixture
async def copies(folder: Path, sparse: SparseEncoder, tokens: TokenCounter) -> AsyncIterator[Copies]:
    async with opened_copies(folder, sparse, tokens) as one:
        yield one


async def ask(copies: Copies, text: str, *, tenant: str = TENANT, **fields: Any) -> Recalled:
    options = {"include": {"trace": True}, **fields.pop("options", {})}
    asked = query(fragment=text, options=options, **fields)
    return await recall(asked, profile(enable_query_expansion=True), copies.sources, tenant=tenant, now=NOW)


def everything(recalled: Recalled, text: str) -> str:
    """All that anybody gets to see of a recall, without the question."""
    facts = RequestFacts(decision_id="d", corr_id="c", query=query(fragment=text))
    decided = decision(facts, outcome=recalled.outcome, latency_ms=1.0, recalled=recalled)
    shown = [explained(recalled), decided.model_dump(mode="json"), _bundle(recalled)]
    return json.dumps(shown).replace(text, "").casefold()


def _bundle(recalled: Recalled) -> Sequence[str]:
    return [item.scored.memory.text for item in recalled.selection.items]


@pytest.mark.parametrize(
    "fields",
    [
        {"session_id": "s1", "options": {"scope": "session", "user": "mel"}},
        {"session_id": "s1", "options": {"scope": "session"}},
        {"options": {"scope": "user", "user": "mel"}},
        {"options": {"scope": "user", "user": "nobody"}},
        {"session_id": "s2", "options": {"scope": "user", "user": "mel", "tags": ["harbour"]}},
        {"options": SCOUT},
        {"options": {"agent_id": "nobody"}},
        {"options": {"run_id": "r9"}},
    ],
    ids=str,
)
async def test_speakers_of_other_users_and_sessions_stay_unnamed(copies: Copies, fields: dict[str, Any]):
    await copies.store(*OURS, *THEIRS, *STRANGERS)
    for text in ASKED:
        assert "quillfeather" not in everything(await ask(copies, text, **fields), text), text


async def test_names_of_the_own_scope_are_known(copies: Copies):
    await copies.store(*OURS, *THEIRS)
    mine = await ask(copies, "What did Mel say about the crane?", session_id="s1", options={"scope": "session"})
    assert mine.understood is not None and mine.understood.people == ("Mel Ash",)
    whole = await ask(copies, "What does zebedee say?")
    assert whole.understood is not None and whole.understood.people == (CANARY,)
    assert explained(whole)["searched"]["by_words"].endswith("quillfeather")


@pytest.mark.parametrize(
    ("fields", "seen"),
    [
        ({"session_id": "s2", "options": {"scope": "session"}}, "new"),
        ({"options": {"scope": "user", "user": "mel"}}, "new"),
        ({"options": {"scope": "user", "user": "zeb"}}, "old"),
        ({}, "both"),
    ],
    ids=str,
)
async def test_a_succession_is_named_only_where_the_query_sees_both(
    copies: Copies, fields: dict[str, Any], seen: str
):
    text = "Where is the shed?"
    shed = memory("zebedees-shed", "The shed is at the quay.", session_id="s9", user_id="zeb")
    older = "melanies-shed"
    link = SuccessionLink(key(older), older, NOW - 50, "by_person", evidence=(CANARY,))
    await copies.store(shed, succeeded_by=(link,))
    await copies.store(memory("melanies-shed", "It is at the harbour now.", session_id="s2", user_id="mel"))
    told = everything(await ask(copies, text, **fields), text)
    assert ("at the harbour" in told, "at the quay" in told) == (seen != "old", seen != "new")
    assert ("melanies-shed" in told, "zebedees-shed" in told) == (seen != "old", seen != "new")
    assert ("quillfeather" in told) is (seen == "both")


def _answer(recalled: Recalled, text: str) -> Any:
    """Reply, trace and decision as JSON, without the times that the recall took."""
    asked = query(fragment=text, options={"include": {"trace": True}})
    told = reply(asked, recalled, latency_ms=1.0, profile="p", decision_id="d").model_dump(mode="json")
    facts = RequestFacts(decision_id="d", corr_id="c", query=asked)
    decided = decision(facts, outcome=recalled.outcome, latency_ms=1.0, recalled=recalled).model_dump(mode="json")
    return json.loads(json.dumps([told, decided]), object_hook=_timeless)


def _timeless(one: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in one.items() if not name.endswith("ms") and name != "created_at"}


async def test_what_another_tenant_stores_changes_no_score_and_no_reply(copies: Copies):
    mine = [memory(f"w{number}", f"{TEXTS[number % 5]} Note {number}.", session_id="s1") for number in range(20)]
    await copies.store(*OURS, *mine)
    questions = ("Where is the gearbox of the harbour crane?", "Who ordered at Fjord Labs?", "painted shed note 7")
    before = [_answer(await ask(copies, text), text) for text in questions]
    theirs = [
        memory(f"o{number}", f"The harbour crane and the gearbox of Fjord Labs, {number}.", tenant="other")
        for number in range(150)
    ]
    for start in range(0, len(theirs), 50):
        await copies.store(*theirs[start : start + 50])
    assert [_answer(await ask(copies, text), text) for text in questions] == before
    for one in (*mine, *OURS):  # what they name as well changes nothing, nor does what they delete
        await copies.store(memory(one.id, one.text, tenant="other", entities=["Fjord Labs", "harbour crane"]))
    await copies.index.optimise()
    assert [_answer(await ask(copies, text), text) for text in questions] == before
    await copies.index.remove([key(one.id, one.tenant) for one in theirs])
    assert [_answer(await ask(copies, text), text) for text in questions] == before


async def test_what_is_redacted_for_readers_stands_in_no_part_of_a_reply(copies: Copies):
    told = "Mel's number for the crane is +49 30 1234567, mail mel.ash@example.org."
    title = "mel.ash@example.org"
    await copies.store(
        *OURS, memory("p1", told, speaker="mel.ash@example.org", title=title, entities=["mel.ash@example.org"])
    )
    include = {"trace": True, "entities": True, "chunks": True}
    asked = query(fragment="What is the crane's number?", options={"include": include})
    copies.sources = replace(copies.sources, redaction=Redaction.at("render", ("render:phone", "render:email")))
    recalled = await ask(copies, "What is the crane's number?")
    shown = reply(asked, recalled, latency_ms=1.0, profile="p", decision_id="d").model_dump_json()
    assert "p1" in [item.scored.memory.id for item in recalled.selection.items]
    assert "example.org" not in shown
    assert "1234567" not in shown
    assert "the crane is ‹phone number›, mail ‹e-mail address›." in shown
    copies.sources = replace(copies.sources, redaction=NO_REDACTION)
    plain = reply(
        asked, await ask(copies, "What is the crane's number?"), latency_ms=1.0, profile="p", decision_id="d"
    )
    assert "+49 30 1234567" in plain.bundle.rendered, "off by default"
