"""The embedded index on the real engine, with a handful of memories."""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import Path

import pytest
from source_samples import ALL, OURS, TENANT, HashingEmbedder, changes, dense, key, memory, names, request

from orion_recall.errors import EngineError, SourceError
from orion_recall.models.sparse import SparseEncoder
from orion_recall.sources.edge import EdgeIndex
from orion_recall.sources.index import LexicalSource
from orion_recall.values import Scope


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


async def test_optimising_changes_no_answer(index: EdgeIndex):
    before = await snapshot(index)
    await index.optimise()
    assert await snapshot(index) == before


async def test_position_and_memories_survive_reopening(index: EdgeIndex, folder: Path, sparse: SparseEncoder):
    before = await snapshot(index)
    assert index.position == 4
    await index.close()
    async with opened(made(folder, sparse)) as again:
        assert await snapshot(again) == before


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
