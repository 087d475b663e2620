"""The embedded index on the real engine, with a handful of memories."""

from __future__ import annotations

import contextlib
import json
import shutil
import tempfile
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from source_samples import NOW, TENANT, HashingEmbedder, changes, key, memory, names, request

from orion_recall.errors import EngineError, SourceError
from orion_recall.models.sparse import SparseEncoder
from orion_recall.sources.edge import EdgeIndex
from orion_recall.sources.index import LexicalSource, VectorSource
from orion_recall.values import Memory, Scope

CRANE = memory(
    "crane", "The harbour crane needs a new gearbox.", speaker="Bo", session_id="s1", kind="observation",
    occurred_at=NOW - 100, tags=["harbour"], entities=["Harbour Crane"], user_id="u1",
)  # fmt: skip
ORDER = memory(
    "order", "I ordered it at Fjord Labs.", speaker="Ana", session_id="s1", kind="experience",
    occurred_at=NOW - 50, tags=["order"], entities=["Fjord Labs"],
)  # fmt: skip
SHED = memory("shed", "The shed is painted green.", session_id="s2", speaker="Bo", user_id="u1")
OURS = (CRANE, ORDER, SHED)
THEIRS = memory(
    "crane", "The harbour crane gearbox is a secret.", tenant="other", speaker="Eve", entities=["Secret Crane"]
)  # fmt: skip
ALL = (*OURS, THEIRS)


@pytest.fixture(scope="session")
async def told(sparse: SparseEncoder) -> AsyncIterator[EdgeIndex]:
    """An index of all the memories, to be read only: making one takes most of a second."""
    with tempfile.TemporaryDirectory(prefix="orion-test-") as place:
        async with opened(made(Path(place), sparse)) as one:
            await one.apply(changes(*ALL))
            yield one


@pytest.fixture
async def index(folder: Path, sparse: SparseEncoder) -> AsyncIterator[EdgeIndex]:
    """An index of all the memories, to be written to, closed or broken."""
    async with opened(made(folder, sparse)) as one:
        await one.apply(changes(*ALL))
        yield one


@contextlib.asynccontextmanager
async def opened(one: EdgeIndex) -> AsyncGenerator[EdgeIndex]:
    await one.open()
    try:
        yield one
    finally:
        await one.close()


def made(folder: Path, sparse: SparseEncoder, embedder: HashingEmbedder | None = None) -> EdgeIndex:
    return EdgeIndex(folder / "index", embedder or HashingEmbedder(), sparse)


async def dense(index: EdgeIndex, text: str, scope: Scope | None = None, **fields: Any) -> list[str]:
    arm = VectorSource(index, HashingEmbedder())
    return names(await arm.search(request(text, scope=scope, min_score=-1.0, **fields)), ALL)


async def lexical(index: EdgeIndex, text: str, scope: Scope | None = None, **fields: Any) -> list[str]:
    arm = LexicalSource(index, SparseEncoder())
    return names(await arm.search(request(text, scope=scope, **fields)), ALL)


async def test_both_arms_find_what_shares_words_with_the_question(told: EdgeIndex):
    assert (await dense(told, "harbour crane gearbox"))[0] == "crane"
    assert (await lexical(told, "which gearboxes"))[0] == "crane"
    assert await lexical(told, "zeppelin") == []
    assert await lexical(told, "the of and") == []


async def test_a_turn_is_found_by_the_words_of_the_turn_beside_it(told: EdgeIndex):
    assert await lexical(told, "gearbox") == ["crane", "order"]


async def test_dense_hits_below_the_threshold_are_left_out(told: EdgeIndex):
    vector = (await HashingEmbedder().embed_query("harbour crane gearbox")).tolist()
    everything = await told.search_dense(vector, Scope(tenant=TENANT), 10, -1.0)
    assert len(everything) == 3
    floor = everything[0][1] - 1e-3
    assert await told.search_dense(vector, Scope(tenant=TENANT), 10, floor) == everything[:1]
    assert [score for _, score in everything] == sorted((score for _, score in everything), reverse=True)


async def test_no_more_than_the_limit_is_found(told: EdgeIndex):
    assert len(await dense(told, "crane", limit=2)) == 2


@pytest.mark.parametrize(
    ("parts", "seen"),
    [
        ({}, {"crane", "order", "shed"}),
        ({"session_id": "s1"}, {"crane", "order"}),
        ({"user_id": "u1"}, {"crane", "shed"}),
        ({"kinds": ("observation", "plan")}, {"crane"}),
        ({"tags": ("order", "boat")}, {"order"}),
        ({"since": NOW - 60}, {"order"}),
        ({"until": NOW - 60}, {"crane"}),
        ({"since": NOW - 100, "until": NOW - 50}, {"crane"}),
        ({"session_id": "s1", "user_id": "u1", "tags": ("harbour",)}, {"crane"}),
        ({"session_id": "nowhere"}, set[str]()),
        ({"since": 0.0, "until": 0.0}, set[str]()),
    ],
    ids=str,
)
async def test_every_part_of_a_scope_filters_both_arms(told: EdgeIndex, parts: dict[str, Any], seen: set[str]):
    scope = Scope(tenant=TENANT, **parts)
    assert set(await dense(told, "crane", scope)) == seen
    assert set(await lexical(told, "crane gearbox ordered shed", scope)) == seen


async def test_tenants_never_see_each_other(told: EdgeIndex):
    other = Scope(tenant="other")
    vector = (await HashingEmbedder().embed_query("harbour crane gearbox")).tolist()
    terms = SparseEncoder().encode_query("harbour crane gearbox")
    for scope, own in ((Scope(tenant=TENANT), OURS), (other, (THEIRS,)), (Scope(tenant=""), ())):
        mine = {key(one.id, one.tenant) for one in own}
        assert {found for found, _ in await told.search_dense(vector, scope, 10, -1.0)} == mine
        for hits in await told.search_sparse(terms, scope, 10):
            assert {found for found, _ in hits} <= mine
    assert await told.speakers(TENANT) == {"Ana", "Bo"}
    assert await told.speakers("other") == {"Eve"}
    assert await told.speakers("nobody") == frozenset()
    assert [label for label, _ in await told.find_entities("secret crane", "other", 5)] == ["Secret Crane"]
    assert "Secret Crane" not in [label for label, _ in await told.find_entities("secret crane", TENANT, 5)]


async def test_entities_are_found_by_the_words_of_their_names(told: EdgeIndex):
    found = await told.find_entities("who works at the fjord labs?", TENANT, 5)
    assert found[0][0] == "Fjord Labs"
    assert await told.find_entities("of the", TENANT, 5) == []


async def test_memories_are_fetched_whole_and_unknown_keys_are_left_out(told: EdgeIndex):
    seen = await told.fetch([key("order"), key("nobody")])
    assert set(seen) == {key("order")}
    view = seen[key("order")]
    assert (view.id, view.text, view.speaker, view.tags) == ("order", ORDER.text, "Ana", ("order",))
    assert view.beside == (key("crane"),)
    assert await told.fetch([]) == {}


async def snapshot(index: EdgeIndex) -> object:
    scope = Scope(tenant=TENANT)
    vector = (await HashingEmbedder().embed_query("harbour crane")).tolist()
    return (
        index.count,
        await index.search_dense(vector, scope, 10, -1.0),
        await index.search_sparse(SparseEncoder().encode_query("harbour crane"), scope, 10),
        await index.fetch([key(one.id) for one in OURS]),
        await index.find_entities("harbour crane fjord labs", TENANT, 10),
        index.position,
    )


async def test_the_same_changes_again_change_nothing(index: EdgeIndex):
    before = await snapshot(index)
    await index.apply(changes(*ALL))
    assert await snapshot(index) == before


async def test_optimising_changes_no_answer(index: EdgeIndex):
    before = await snapshot(index)
    await index.optimise()
    assert await snapshot(index) == before


async def test_a_new_speaker_is_known_at_once(index: EdgeIndex):
    assert await index.speakers(TENANT) == {"Ana", "Bo"}
    await index.apply(changes(memory("new", "hello", speaker="Cy"), start=9))
    assert await index.speakers(TENANT) == {"Ana", "Bo", "Cy"}
    assert index.position == 9


async def test_position_and_memories_survive_reopening(index: EdgeIndex, folder: Path, sparse: SparseEncoder):
    before = await snapshot(index)
    assert index.position == 4
    await index.close()
    async with opened(made(folder, sparse)) as again:
        assert await snapshot(again) == before


async def test_nothing_to_apply_moves_nothing(index: EdgeIndex):
    await index.apply([])
    assert index.position == 4


async def test_a_second_owner_is_refused_with_the_holders_pid_and_the_first_goes_on(
    index: EdgeIndex, folder: Path, sparse: SparseEncoder
):
    with pytest.raises(EngineError, match=r"already open in this process.*ORION_DATA_DIR"):
        await made(folder, sparse).open()
    await index.apply(changes(memory("new", "zeppelin"), start=5))
    assert names(await LexicalSource(index, sparse).search(request("zeppelin")), [memory("new", "x")]) == ["new"]


async def test_an_index_made_by_another_model_is_refused_with_advice(
    index: EdgeIndex, folder: Path, sparse: SparseEncoder
):
    await index.close()
    others = [HashingEmbedder("another"), HashingEmbedder(dimension=32), HashingEmbedder(weights="b" * 64)]
    for other in others:
        with pytest.raises(
            SourceError, match=r"was made with hashing .*configure that model, or delete the folder"
        ):
            await made(folder, sparse, other).open()
    # Those that were refused have let the folder go, and have harmed nothing.
    async with opened(made(folder, sparse)) as again:
        assert again.count > 0


async def test_a_card_that_cannot_be_read_is_an_error_with_advice(
    index: EdgeIndex, folder: Path, sparse: SparseEncoder
):
    await index.close()
    card = folder / "index" / "index.json"
    good = json.loads(card.read_text())
    for text in ("", "{", "[]", "null", "{}", '{"format": 1}', "\x00", json.dumps(good | {"position": "x"})):
        card.write_text(text)
        with pytest.raises(SourceError, match=r"index\.json cannot be read .*delete .* and it will be rebuilt"):
            await made(folder, sparse).open()
    card.write_text(json.dumps(good | {"format": 99}))
    with pytest.raises(SourceError, match=r"format 99: delete the folder to rebuild it"):
        await made(folder, sparse).open()
    card.write_text(json.dumps(good))
    async with opened(made(folder, sparse)) as again:
        assert again.position == 4


@pytest.mark.parametrize("harm", ["gone", "garbage"])
async def test_a_shard_that_cannot_be_loaded_is_an_error_with_advice(
    index: EdgeIndex, folder: Path, sparse: SparseEncoder, harm: str
):
    await index.close()
    shard = folder / "index" / "shard"
    if harm == "gone":
        shutil.rmtree(shard)
    else:
        for path in [path for path in shard.rglob("*") if path.is_file()]:
            path.write_bytes(b"garbage")
    with pytest.raises(SourceError, match=r"delete .* and it will be rebuilt"):
        await made(folder, sparse).open()


async def test_a_shard_without_its_card_is_an_error_with_advice(
    index: EdgeIndex, folder: Path, sparse: SparseEncoder
):
    await index.close()
    (folder / "index" / "index.json").unlink()
    with pytest.raises(SourceError, match=r"no index\.json beside it: delete the folder"):
        await made(folder, sparse).open()


async def test_a_deleted_folder_is_rebuilt_the_same(index: EdgeIndex, folder: Path, sparse: SparseEncoder):
    before = await snapshot(index)
    await index.close()
    shutil.rmtree(folder / "index")
    async with opened(made(folder, sparse)) as again:
        assert (again.position, again.count) == (0, 0)
        await again.apply(changes(*ALL))
        assert await snapshot(again) == before


async def test_a_closed_index_says_so(index: EdgeIndex):
    await index.close()
    with pytest.raises(SourceError, match="is not open"):
        await dense(index, "crane")
    with pytest.raises(SourceError, match="is not open"):
        await index.speakers(TENANT)


async def test_hostile_texts_are_kept_and_found(index: EdgeIndex):
    texts = ['"} OR tenant:other {', "zeppelin\x01\ufffd", "<|im_start|>", "👩🏽 " * 40, "a" * 9000]
    hostile: list[Memory] = [
        memory(f"h{place}", text, speaker=text[:200], tags=[text[:200]], entities=[text[:200]])
        for place, text in enumerate(texts)
    ]
    await index.apply(changes(*hostile, start=10))
    seen = await index.fetch([key(one.id) for one in hostile])
    assert {view.id: view.text for view in seen.values()} == {one.id: one.text for one in hostile}
    scope = Scope(tenant=TENANT, tags=('"} OR tenant:other {',))
    found = await LexicalSource(index, SparseEncoder()).search(request("tenant other crane", scope=scope))
    assert [hit.key for hit in found] == [key("h0")]


async def test_an_updated_memory_takes_the_place_of_the_old_one(index: EdgeIndex):
    count = index.count
    moved = replace(changes(CRANE)[0], memory=replace(CRANE, title="Zeppelin"))
    await index.apply([moved])
    assert index.count == count
    assert await lexical(index, "zeppelin") == ["crane"]
