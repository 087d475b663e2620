from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from orion_recall.index.points import HeldName, HeldPoint, Name, memory_view
from orion_recall.index.write_batch import (
    VectorPrefetch,
    build_write_batch,
    name_keys_of,
    names_to_embed,
    texts_to_embed,
)
from orion_recall.models.onnx_encoder import Vectors
from orion_recall.models.sparse import SparseEncoder
from orion_recall.text.normal import text_hash
from orion_recall.values import Memory
from tests.samples.source_samples import TENANT, HashingEmbedder, TokenEmbedder, changes, key, memory

FULL = memory(
    "a", "Ana works at Fjord Labs.", title="Work", speaker="Ana", session_id="s", user_id="u", kind="world",
    occurred_at=1_772_355_600, tags=["job"], entities=["Fjord Labs"], source="chat", uri="x:1",
)  # fmt: skip


async def test_a_memory_comes_back_from_its_point(sparse: SparseEncoder):
    (point, *_) = (await build_write_batch(changes(FULL), {}, VectorPrefetch(HashingEmbedder()), sparse)).points
    payload: Any = point.payload
    seen = memory_view(payload)
    assert (seen.id, seen.text, seen.text_hash, seen.simhash) == (
        "a",
        FULL.text,
        text_hash(FULL.text),
        FULL.simhash,
    )
    assert (seen.title, seen.speaker, seen.kind, seen.session_id, seen.user_id) == (
        "Work",
        "Ana",
        "world",
        "s",
        "u",
    )
    assert (seen.ts, seen.tags, seen.uri, seen.source_ref) == (1_772_355_600.0, ("job",), "x:1", "chat")
    assert seen.entities == FULL.entities
    assert point.key == key("a")


async def test_a_turn_knows_whether_it_follows_a_question_speaks_of_itself_and_is_chatter(
    sparse: SparseEncoder,
):
    texts = ("Where is it?", "I put it there.", "Thanks!")
    turns = [memory(str(place), text, session_id="s") for place, text in enumerate(texts)]
    points = (await build_write_batch(changes(*turns), {}, VectorPrefetch(HashingEmbedder()), sparse)).points
    payloads: list[Any] = [point.payload for point in points]
    seen = [memory_view(payload) for payload in payloads]
    assert [one.after_question for one in seen] == [False, True, False]
    assert [one.first_person for one in seen] == [False, True, False]
    assert [one.chatter for one in seen] == [True, False, True]


async def test_a_turn_knows_whether_an_assistant_said_it(sparse: SparseEncoder):
    turns = [
        memory("role", "x", speaker="Halcyon", metadata={"role": "assistant"}),
        memory("agent", "x", speaker="Halcyon", agent_id="halcyon"),
        memory("name", "x", speaker="Assistant"),
        memory("person", "x", speaker="Ruth", agent_id="halcyon"),
    ]
    points = (await build_write_batch(changes(*turns), {}, VectorPrefetch(HashingEmbedder()), sparse)).points
    seen = [memory_view(point.payload) for point in points if "id" in point.payload]
    assert [one.assistant for one in seen] == [True, True, True, False]


async def test_an_entity_has_one_point_in_each_tenant_whatever_its_case(sparse: SparseEncoder):
    told = [
        memory("a", "x", entities=["Fjord Labs"]),
        memory("b", "x", entities=["fjord labs"]),
        memory("c", "x", entities=["Fjord Labs"], tenant="other"),
    ]

    async def entities(*given: Memory) -> set[int]:
        step = await build_write_batch(changes(*given), {}, VectorPrefetch(HashingEmbedder()), sparse)
        return {point.key for point in step.points if point.dense is None}

    assert len(await entities(*told)) == 2
    assert await entities(*told) == await entities(*reversed(told))


async def test_a_memory_that_says_what_it_said_is_not_embedded_again(sparse: SparseEncoder):
    held = HeldPoint(tenant=TENANT, version=1, names=frozenset(), dense=[0.5, 0.5])
    told = changes(memory("a", "the same"), replace(memory("b", "another"), version=2))
    step = await build_write_batch(
        told, {key("a"): held, key("b"): held}, VectorPrefetch(HashingEmbedder()), sparse
    )
    vectors = {point.key: point.unit_vectors["dense"] for point in step.points}
    assert vectors[key("a")] == [0.5, 0.5]
    assert vectors[key("b")] == (await HashingEmbedder().embed_query("another")).tolist()


async def test_what_is_not_live_goes_and_names_no_longer_given_are_forgotten(sparse: SparseEncoder):
    gone = replace(memory("a", "x", entities=["Fjord Labs", "Oslo"]), deleted_at=1.0)
    kept = memory("b", "x", entities=["Oslo"])
    held = HeldPoint(tenant=TENANT, version=1, names=frozenset(["fjord labs", "oslo"]), dense=[1.0])
    step = await build_write_batch(changes(gone, kept), {key("a"): held}, VectorPrefetch(HashingEmbedder()), sparse)
    assert step.gone == [key("a")]
    assert step.forgotten == [Name(TENANT, "fjord labs")]
    assert key("a") not in {point.key for point in step.points}


async def test_only_new_names_are_embedded_and_never_with_vectors_of_tokens(sparse: SparseEncoder):
    asked: list[list[str]] = []

    class Counting(TokenEmbedder):
        async def embed_documents(self, texts: Sequence[str]) -> Vectors:
            asked.append(list(texts))
            return await super().embed_documents(texts)

    told = changes(memory("a", "one", entities=["Oslo", "Fjord Labs"]), memory("b", "two", entities=["Fjord Labs"]))
    oslo = Name(TENANT, "oslo")
    assert name_keys_of(told) == [Name(TENANT, "fjord labs").key, oslo.key]
    held = {oslo.key: HeldName("Oslo", [0.25, 0.5])}
    embedder = Counting()
    ahead = VectorPrefetch(embedder)
    ahead.with_tokens = True
    step = await build_write_batch(told, {}, ahead, sparse, names=held, with_tokens=True)
    assert embedder.asked == ["one", "two"] == texts_to_embed(told, {})
    assert asked == [["one", "two"], ["Fjord Labs"]]
    assert names_to_embed(told, held) == ["Fjord Labs"]
    entities = [point for point in step.points if point.dense is None]
    assert {point.payload["label"]: point.name for point in entities} == {
        "Fjord Labs": (await HashingEmbedder().embed_query("Fjord Labs")).tolist(),
    }
    assert [(list(point.unit_vectors), point.tokens) for point in entities] == [(["name"], None)]
    assert [list(point.unit_vectors) for point in step.points if point.dense is not None] == [["dense"]] * 2
