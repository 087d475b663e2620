"""The embedded index on the real engine, with a handful of memories."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
import qdrant_edge as qe

from orion_recall.errors import EngineError, SourceError
from orion_recall.index.embedded import index as edge_optimiser
from orion_recall.index.embedded import optimised_copy as edge_renewal
from orion_recall.index.embedded import reads as edge_reads
from orion_recall.index.embedded import writes as edge_writes
from orion_recall.index.embedded.index import EdgeIndex
from orion_recall.models.sparse import SparseEncoder
from orion_recall.sources.vector_lexical import LexicalSource
from orion_recall.values import Change, Scope
from tests.samples.source_samples import (
    ALL,
    OURS,
    TENANT,
    HashingEmbedder,
    changes,
    key,
    memory,
    names,
    request,
)


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


async def test_a_deleted_folder_is_rebuilt_the_same(index: EdgeIndex, folder: Path, sparse: SparseEncoder):
    before = await snapshot(index)
    await index.close()
    shutil.rmtree(folder / "index")
    async with opened(made(folder, sparse)) as again:
        assert (again.position, again.count) == (0, 0)
        await again.apply(changes(*ALL))
        assert await snapshot(again) == before


@pytest.mark.parametrize("most_kept", [5000, 0], ids=["points", "keys"])
async def test_an_optimised_copy_takes_the_place_of_an_index_that_is_written_to_meanwhile(
    folder: Path, sparse: SparseEncoder, monkeypatch: pytest.MonkeyPatch, most_kept: int
):
    monkeypatch.setattr(edge_optimiser, "_AFTER", 1)
    monkeypatch.setattr(edge_writes, "_MOST_KEPT", most_kept)
    copied, go_on = asyncio.Event(), asyncio.Event()

    async def optimise_later(shard: Path, *, anew: bool) -> None:
        copied.set()
        await go_on.wait()
        await edge_renewal.optimise_apart(shard, anew=anew)

    monkeypatch.setattr(edge_optimiser, "optimise_apart", optimise_later)
    gone, changed, kept = OURS[0], OURS[1], OURS[2]
    async with opened(made(folder, sparse)) as one:
        await one.apply(changes(gone, changed, kept))
        await copied.wait()
        later = [replace(gone, deleted_at=1.0, version=2), replace(changed, text="A quiet lighthouse", version=2)]
        await one.apply([Change(position=10 + place, memory=each) for place, each in enumerate(later)])
        go_on.set()
        while not (folder / "index" / "current").exists():
            await asyncio.sleep(0.01)
        assert await held(one) == {changed.id: (2, "A quiet lighthouse"), kept.id: (1, kept.text)}
    async with opened(made(folder, sparse)) as again:
        assert again.position == 11
        assert await held(again) == {changed.id: (2, "A quiet lighthouse"), kept.id: (1, kept.text)}
        crane = (await HashingEmbedder().embed_query("harbour crane")).tolist()
        left = {*changed.entities, *kept.entities}
        assert {label for label, _ in await again.names_near(crane, TENANT, 9)} == left, "with their vectors"


async def held(one: EdgeIndex) -> dict[str, tuple[int, str]]:
    versions, found = await one.held(), await one.fetch([key(each.id) for each in OURS])
    assert versions.keys() == found.keys()
    return {memory.id: (versions[number], memory.text) for number, memory in found.items()}


async def test_an_optimiser_that_fails_leaves_the_index_as_it_is(
    folder: Path, sparse: SparseEncoder, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    monkeypatch.setattr(edge_optimiser, "_AFTER", 1)

    async def break_first(shard: Path, *, anew: bool) -> None:
        shutil.rmtree(shard)
        await edge_renewal.optimise_apart(shard, anew=anew)

    monkeypatch.setattr(edge_optimiser, "optimise_apart", break_first)
    async with opened(made(folder, sparse)) as one:
        await one.apply(changes(*ALL))
        before = await snapshot(one)
        while "could not be optimised" not in caplog.text:
            await asyncio.sleep(0.01)
        assert await snapshot(one) == before
        assert not (folder / "index" / "current").exists()


async def test_an_index_that_is_closed_while_it_is_optimised_goes_on_from_where_it_was(
    folder: Path, sparse: SparseEncoder, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(edge_optimiser, "_AFTER", 1)
    for pause_s in (0.0, 0.05, 0.5):
        async with opened(made(folder, sparse)) as one:
            await one.apply(changes(*ALL))
            await asyncio.sleep(pause_s)
        async with opened(made(folder, sparse)) as again:
            assert again.position == len(ALL)
            assert set(await again.held()) >= {key(each.id) for each in OURS}


async def test_versions_are_read_page_by_page_and_a_copy_may_take_the_place_in_between(
    index: EdgeIndex, monkeypatch: pytest.MonkeyPatch
):
    pages, read, whole = list[int](), edge_writes.read_versions, await index.held()

    def counted(shard: qe.EdgeShard, after: qe.PointId | None) -> tuple[dict[int, int], qe.PointId | None]:
        page, following = read(shard, after)
        pages.append(len(page))
        return page, following

    monkeypatch.setattr(edge_writes, "_PAGE_VERSIONS", 2)
    monkeypatch.setattr(edge_reads, "read_versions", counted)
    held, _ = await asyncio.gather(index.held(), index.compact())
    assert held == whole
    assert len(whole) == len(ALL)
    assert max(pages) <= 2
    assert sum(pages) == len(ALL)
