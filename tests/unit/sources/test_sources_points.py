from __future__ import annotations

from typing import Any

from source_samples import HashingEmbedder, changes, key, memory

from orion_recall.models.sparse import SparseEncoder
from orion_recall.sources.points import entities_as_points, memories_as_points, memory_view
from orion_recall.text import text_hash

FULL = memory(
    "a", "Ana works at Fjord Labs.", title="Work", speaker="Ana", session_id="s", user_id="u", kind="world",
    occurred_at=1_772_355_600, tags=["job"], entities=["Fjord Labs"], source="chat", uri="x:1",
)  # fmt: skip


async def test_a_memory_comes_back_from_its_point(sparse: SparseEncoder):
    (point,) = await memories_as_points(changes(FULL), HashingEmbedder(), sparse)
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


async def test_what_a_memory_does_not_say_is_absent_from_its_payload(sparse: SparseEncoder):
    (point,) = await memories_as_points(changes(memory("b", "plain words")), HashingEmbedder(), sparse)
    payload: Any = point.payload
    assert None not in payload.values()
    seen = memory_view(payload)
    assert (seen.session_id, seen.ts, seen.tags, seen.entities, seen.beside) == (None, None, (), (), ())


async def test_a_memory_that_lasted_comes_back_with_its_end(sparse: SparseEncoder):
    lasted = memory("c", "a long storm", occurred_at=1_772_355_600, occurred_until=1_772_455_600)
    (point,) = await memories_as_points(changes(lasted), HashingEmbedder(), sparse)
    payload: Any = point.payload
    assert (memory_view(payload).ts, memory_view(payload).until) == (1_772_355_600.0, 1_772_455_600.0)


async def test_a_turn_knows_the_keys_of_the_turns_beside_it(sparse: SparseEncoder):
    turns = [memory(name, f"turn {name}", session_id="s") for name in "abc"]
    points = await memories_as_points(changes(*turns), HashingEmbedder(), sparse)
    payloads: list[Any] = [point.payload for point in points]
    assert [memory_view(payload).beside for payload in payloads] == [
        (key("b"),), (key("a"), key("c")), (key("b"),),
    ]  # fmt: skip


def test_an_entity_has_one_point_in_each_tenant_whatever_its_case(sparse: SparseEncoder):
    told = [
        memory("a", "x", entities=["Fjord Labs"]),
        memory("b", "x", entities=["fjord labs"]),
        memory("c", "x", entities=["Fjord Labs"], tenant="other"),
    ]
    ids = {point.key for point in entities_as_points(changes(*told), sparse)}
    assert len(ids) == 2
    assert ids == {point.key for point in entities_as_points(changes(*reversed(told)), sparse)}
