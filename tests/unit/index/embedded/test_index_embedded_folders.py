"""An index built beside the live one: when it takes its place, and when it does not."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from typing import Any

import pytest

from orion_recall.engines.lock import FolderLock
from orion_recall.errors import EngineError, ModelError, SourceError
from orion_recall.index.embedded.folders import (
    begin,
    build_place,
    free_place,
    live_place,
    mark_complete,
)
from orion_recall.index.embedded.index import EdgeIndex
from orion_recall.index.metadata import IndexMetadata
from orion_recall.models.sparse import SparseEncoder
from orion_recall.sources.vector_lexical import LexicalSource, VectorSource
from tests.samples.source_samples import HashingEmbedder, changes, memory, names, request

CRANE, BOAT = memory("crane", "The harbour crane needs a gearbox."), memory("boat", "Bo sold the boat.")
OLD, NEW = HashingEmbedder("old"), HashingEmbedder("new", dimension=32)


class AwayEmbedder:
    """A server's embedder: knows nothing of its model until it `comes`."""

    def __init__(self, inner: HashingEmbedder) -> None:
        self._inner, self._here = inner, False

    def comes(self) -> None:
        self._here = True

    def _known(self) -> HashingEmbedder:
        if not self._here:
            raise ModelError("the server is away")
        return self._inner

    @property
    def name(self) -> str:
        return self._known().name

    @property
    def dimension(self) -> int:
        return self._known().dimension

    @property
    def weights_sha256(self) -> str:
        return self._known().weights_sha256

    async def embed_query(self, text: str) -> Any:
        return await self._known().embed_query(text)

    async def embed_documents(self, texts: Sequence[str]) -> Any:
        return await self._known().embed_documents(texts)


@contextlib.asynccontextmanager
async def opened(
    folder: Path, embedder: HashingEmbedder | AwayEmbedder, sparse: SparseEncoder
) -> AsyncGenerator[EdgeIndex]:
    index = EdgeIndex(folder, embedder, sparse)
    await index.open()
    try:
        yield index
    finally:
        await index.close()


def place_of(folder: Path, embedder: HashingEmbedder) -> Path:
    return build_place(folder, IndexMetadata.of(embedder, SparseEncoder()))


async def build(folder: Path, embedder: HashingEmbedder, sparse: SparseEncoder) -> Path:
    """A complete build that holds the boat alone."""
    place = place_of(folder, embedder)
    async with opened(place, embedder, sparse) as index:
        await index.apply(changes(BOAT, start=7))
    mark_complete(place)
    return place


async def found(index: EdgeIndex, embedder: HashingEmbedder | AwayEmbedder) -> list[str]:
    hits = await VectorSource(index, embedder).search(request("harbour boat", min_score=-1.0))
    return sorted(names(hits, (CRANE, BOAT)))


@pytest.fixture
async def live(folder: Path, sparse: SparseEncoder) -> Path:
    """The folder of an index by the old model that holds the crane."""
    async with opened(folder / "index", OLD, sparse) as index:
        await index.apply(changes(CRANE))
    return folder / "index"


async def test_a_complete_build_takes_the_place_when_its_model_opens_the_folder(live: Path, sparse: SparseEncoder):
    place = await build(live, NEW, sparse)
    async with opened(live, OLD, sparse) as index:
        assert await found(index, OLD) == ["crane"], "the old model's worker goes on with its own"
    async with opened(live, NEW, sparse) as index:
        assert (index.position, await found(index, NEW)) == (7, ["boat"])
        await index.apply(changes(CRANE, start=8))
    assert live_place(live) == place
    assert not (live / "shard").exists()
    assert not (live / "index.json").exists()
    async with opened(live, NEW, sparse) as index:
        assert (index.position, await found(index, NEW)) == (8, ["boat", "crane"])
    with pytest.raises(SourceError, match=r"was made with new .* memory reembed"):
        await EdgeIndex(live, OLD, sparse).open()


async def test_a_build_that_somebody_writes_to_is_not_taken(live: Path, sparse: SparseEncoder):
    place = await build(live, NEW, sparse)
    with FolderLock.acquire(place, "a build", ""), pytest.raises(SourceError, match="is being built by another"):
        await EdgeIndex(live, NEW, sparse).open()
    async with opened(live, NEW, sparse) as index:
        assert await found(index, NEW) == ["boat"]


async def test_while_the_model_is_away_keywords_are_searched_and_vectors_say_why(live: Path, sparse: SparseEncoder):
    embedder = AwayEmbedder(OLD)
    async with opened(live, embedder, sparse) as index:
        lexical = await LexicalSource(index, sparse).search(request("crane"))
        assert names(lexical, (CRANE,)) == ["crane"]
        with pytest.raises(ModelError, match="away"):
            await found(index, embedder)
        with pytest.raises(ModelError, match="away"):
            await index.apply(changes(BOAT, start=2))
        assert index.position == 1
        embedder.comes()
        await index.apply(changes(BOAT, start=2))
        assert await found(index, embedder) == ["boat", "crane"]


async def test_one_by_the_same_model_is_taken_over_by_the_index_that_is_open(live: Path, sparse: SparseEncoder):
    async with opened(live, OLD, sparse) as index:
        assert index.staged_rebuild() is None
        place = await build(live, OLD, sparse)
        staged = index.staged_rebuild()
        assert staged is not None
        await staged.open()
        await index.swap_in(staged)
        assert (index.position, await found(index, OLD)) == (7, ["boat"])
        assert (live_place(live), index.staged_rebuild()) == (place, None)
        assert not (live / "shard").exists()
        await index.apply(changes(CRANE, start=8))
        again = await build(live, OLD, sparse)
        assert again != place
        staged = index.staged_rebuild()
        assert staged is not None
        await staged.open()
        await index.swap_in(staged)
        assert await found(index, OLD) == ["boat"]
        assert not place.exists()
    async with opened(live, OLD, sparse) as index:
        assert await found(index, OLD) == ["boat"]
    assert free_place(live, place.name) == place


def test_what_a_stopped_run_has_left_stays_and_an_old_copy_goes(folder: Path):
    place = free_place(folder, "graph")
    (place / "store").mkdir(parents=True)
    (place / "index.json").write_text("of a copy that was live once")
    begin(place)
    assert not (place / "store").exists()
    assert not (place / "index.json").exists()
    (place / "index.json").write_text("half done")
    begin(place)
    assert (place / "index.json").read_text() == "half done"
    with FolderLock.acquire(place, what="the index", hint=""), pytest.raises(EngineError, match="already open"):
        begin(place)
