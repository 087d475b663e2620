"""Points: what is written of a memory, and what comes back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from orion_recall.index.points import HeldName, HeldPoint, Name, memory_view
from orion_recall.index.texts import (
    MOST_TEXTS,
    MemorySearch,
    context_form,
    dense_forms,
    dense_head,
    in_parts,
    keyword_form,
    passage_key,
    spans_of,
)
from orion_recall.index.write_batch import Held, VectorPrefetch, WriteBatch, build_write_batch, name_keys_of
from orion_recall.models.onnx_encoder import Vectors
from orion_recall.models.sparse import SparseEncoder
from orion_recall.text.normal import text_hash
from orion_recall.values import Change, Memory, MemoryView
from tests.samples.source_samples import TENANT, HashingEmbedder, TokenEmbedder, beside, changes, key, memory

FULL = memory(
    "a", "Ana works at Fjord Labs.", title="Work", speaker="Ana", session_id="s", user_id="u", kind="world",
    occurred_at=1_772_355_600, tags=["job"], entities=["Fjord Labs"], source="chat", uri="x:1",
)  # fmt: skip


async def batch_of(told: Sequence[Change], held: Mapping[int, HeldPoint] | None = None) -> WriteBatch:
    return await build_write_batch(told, Held(held or {}), VectorPrefetch(HashingEmbedder()), SparseEncoder())


async def seen(*memories: Memory) -> list[MemoryView]:
    """What comes back of the memories' points."""
    return [memory_view(one.payload) for one in (await batch_of(changes(*memories))).points if "id" in one.payload]


async def test_a_memory_comes_back_from_its_point():
    (one,) = await seen(FULL)
    assert (one.id, one.text, one.text_hash) == ("a", FULL.text, text_hash(FULL.text))
    parts = (one.title, one.speaker, one.kind, one.session_id, one.user_id)
    assert parts == ("Work", "Ana", "world", "s", "u")
    assert (one.ts, one.tags, one.uri, one.source_ref) == (1_772_355_600.0, ("job",), "x:1", "chat")
    assert one.entities == FULL.entities


async def test_a_turn_knows_whether_it_follows_a_question_speaks_of_itself_and_is_chatter():
    texts = ("Where is it?", "I put it there.", "Thanks!")
    turns = await seen(*(memory(str(place), text, session_id="s") for place, text in enumerate(texts)))
    assert [one.after_question for one in turns] == [False, True, False]
    assert [one.first_person for one in turns] == [False, True, False]
    assert [one.chatter for one in turns] == [False, False, True]


async def test_a_turn_knows_whether_an_assistant_said_it():
    turns = [
        memory("role", "x", speaker="Halcyon", metadata={"role": "assistant"}),
        memory("agent", "x", speaker="Halcyon", agent_id="halcyon"),
        memory("name", "x", speaker="Assistant"),
        memory("person", "x", speaker="Ruth", agent_id="halcyon"),
    ]
    assert [one.assistant for one in await seen(*turns)] == [True, True, True, False]


async def test_an_entity_has_one_point_in_each_tenant_whatever_its_case():
    told = [
        memory("a", "x", entities=["Fjord Labs"]),
        memory("b", "x", entities=["fjord labs"]),
        memory("c", "x", entities=["Fjord Labs"], tenant="other"),
    ]
    one, other = [await batch_of(changes(*given)) for given in (told, told[::-1])]
    keys = {point.key for point in one.points if point.dense is None}
    assert len(keys) == 2
    assert keys == {point.key for point in other.points if point.dense is None}


async def test_a_memory_that_says_what_it_said_is_not_embedded_again():
    held = HeldPoint(tenant=TENANT, version=1, names=frozenset(), dense=[0.5, 0.5])
    told = changes(memory("a", "the same"), replace(memory("b", "another"), version=2))
    step = await batch_of(told, {key("a"): held, key("b"): held})
    vectors = {point.key: point.unit_vectors["dense"] for point in step.points}
    assert vectors[key("a")] == [0.5, 0.5]
    assert vectors[key("b")] == (await HashingEmbedder().embed_query("another")).tolist()


async def test_what_is_not_live_goes_and_names_no_longer_given_are_forgotten():
    gone = replace(memory("a", "x", entities=["Fjord Labs", "Oslo"]), deleted_at=1.0)
    kept = memory("b", "x", entities=["Oslo"])
    held = HeldPoint(tenant=TENANT, version=1, names=frozenset(["fjord labs", "oslo"]), dense=[1.0])
    step = await batch_of(changes(gone, kept), {key("a"): held})
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
    step = await build_write_batch(told, Held({}, held), ahead, sparse)
    assert embedder.asked == ["one", "two"]
    assert asked == [["one", "two"], ["Fjord Labs"]]
    entities = [point for point in step.points if point.dense is None]
    assert {point.payload["label"]: point.name for point in entities} == {
        "Fjord Labs": (await HashingEmbedder().embed_query("Fjord Labs")).tolist()
    }
    assert [(list(point.unit_vectors), point.tokens) for point in entities] == [(["name"], None)]
    assert [list(point.unit_vectors) for point in step.points if point.dense is not None] == [["dense"]] * 2


MEMORY, ANOTHER = 7 << 10, 8 << 10
LONG = "The kiln was fired at dawn and cooled down slowly. " * 60


def test_each_passage_is_embedded_after_speaker_and_title():
    long = memory("long", LONG, speaker="Ruth", title="Kiln")
    forms = dense_forms(long)
    assert len(forms) == len(spans_of(long)) > 2
    head = dense_head(long)
    assert "Ruth" in head
    assert "Kiln: " in head
    assert all(form.startswith(f"{head}The kiln was") for form in forms)


async def test_the_search_is_repeated_until_there_are_enough_memories_and_each_counts_by_its_best_passage():
    many = [(passage_key(MEMORY, number), 1 - number / 100) for number in range(20)]
    points = [*many, (MEMORY, 0.6), (passage_key(ANOTHER, 3), 0.5)]
    asked, resolved = list[int](), list[int]()

    async def found(most: int) -> Sequence[tuple[int, float]]:
        asked.append(most)
        return points[:most]

    async def memories_of(keys: Sequence[int]) -> Mapping[int, int]:
        resolved.extend(keys)
        return dict.fromkeys(keys, ANOTHER)

    search = MemorySearch()
    for _ in range(2):
        assert await search.best(2, found, memories_of) == [(MEMORY, 1.0), (ANOTHER, 0.5)]
    assert asked == [2, 4, 8, 16, 32, 32], "it begins where the last one ended"
    assert resolved == [passage_key(ANOTHER, 3)] * 2, "only what is not known anyway is asked for"


async def test_a_page_of_long_memories_is_written_in_parts():
    one = memory("long", LONG)
    long = [replace(one, id=str(place)) for place in range(MOST_TEXTS // 2)]
    told = changes(*long)
    parts = await in_parts(told)
    assert len(parts) > 1
    assert [change for part in parts for change in part] == list(told)
    assert all(sum(len(spans_of(one.memory)) for one in part) <= MOST_TEXTS for part in parts)
    short = changes(*(memory(str(place), "The kiln is cold.") for place in range(200)))
    assert await in_parts(short) == [short]


DAY = "2026-03-01T09:00:00Z"


def test_date_speaker_and_tags_belong_to_both_forms():
    turn = memory("a", "I mended it.", speaker="Ana", occurred_at=DAY, tags=["harbour"], title="Crane")
    assert dense_head(turn) == "Ana, 1 March 2026, harbour: Crane: "
    assert keyword_form(turn) == "Crane Ana 1 March 2026 I mended it. harbour"


def test_the_context_has_the_words_of_the_turns_beside_it():
    before, turn, after = (memory(name, text) for name, text in (("a", "Mended?"), ("b", "Yes."), ("c", "Good.")))
    assert context_form(Change(position=1, memory=turn, previous=beside(before), following=beside(after))) == (
        "Yes. Mended? Good."
    )
    assert context_form(Change(position=1, memory=turn)) == "Yes."
