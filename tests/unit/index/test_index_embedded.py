"""The embedded index: its folders, its optimised copy, its counts of terms."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from orion_recall.errors import EngineError, ModelError, SourceError
from orion_recall.index.embedded import index as edge_optimiser
from orion_recall.index.embedded import optimised_copy as edge_renewal
from orion_recall.index.embedded import points as edge_points
from orion_recall.index.embedded.folders import METADATA_FILE, build_place, free_place, live_place, mark_complete
from orion_recall.index.embedded.index import EdgeIndex
from orion_recall.index.embedded.optimised_copy import copy_with_holes
from orion_recall.index.embedded.shard import LiveShard
from orion_recall.index.metadata import FORMAT, IndexMetadata
from orion_recall.models.sparse import SparseEncoder
from orion_recall.sources.vector_lexical import LexicalSource, VectorSource
from orion_recall.text.normal import memory_key
from orion_recall.values import Change, Scope
from tests.samples.index_kinds import snapshot
from tests.samples.source_samples import ALL, OURS, TENANT, HashingEmbedder, changes, key, memory, names, request


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


async def test_after_a_kill_amid_a_flush_no_write_is_ignored(folder: Path, sparse: SparseEncoder):
    place = live_place(folder / "index")
    async with opened(made(folder, sparse)) as index:
        await index.apply(changes(*ALL))
        await index.save()
        # The engine writes the number of its last write at the end of a flush, and we the position after that.
        at_the_end = [*place.glob("shard/segments/*/segment.json"), place / "index.json"]
        before = {file: file.read_bytes() for file in at_the_end}
        for version in range(2, 12):
            for one in (OURS[0], OURS[1]):
                await index.apply(changes(replace(one, version=version)))
    for file, content in before.items():
        file.write_bytes(content)
    async with opened(made(folder, sparse)) as again:
        await again.apply(changes(replace(memory(OURS[0].id, "the newest words"), version=12)))
        await again.apply(changes(replace(OURS[1], version=12, deleted_at=5.0)))
        found = await again.fetch([key(OURS[0].id), key(OURS[1].id)])
        assert {name: one.text for name, one in found.items()} == {key(OURS[0].id): "the newest words"}


async def test_an_opening_that_is_cancelled_lets_the_folder_go_and_writes_nothing_after(
    folder: Path, sparse: SparseEncoder
):
    opening = asyncio.create_task(made(folder, sparse).open())
    await asyncio.sleep(0)
    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opening
    # A thread that still writes would make the folder anew, or be in the way of the next owner.
    shutil.rmtree(folder / "index")
    async with opened(made(folder, sparse)) as again:
        await again.apply(changes(*ALL))
        assert again.count > 0


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


@pytest.mark.parametrize("is_away", [False, True])
async def test_an_index_of_an_older_format_is_emptied_for_the_record_and_a_newer_one_refused(
    index: EdgeIndex, folder: Path, sparse: SparseEncoder, is_away: bool, caplog: pytest.LogCaptureFixture
):
    await index.close()
    file = folder / "index" / METADATA_FILE
    file.write_text(file.read_text().replace(f'"format": {FORMAT}', f'"format": {FORMAT + 1}'))
    with pytest.raises(SourceError, match=rf"format {FORMAT + 1}: delete the folder"):
        await made(folder, sparse).open()
    file.write_text(file.read_text().replace(f'"format": {FORMAT + 1}', f'"format": {FORMAT - 1}'))
    embedder = AwayEmbedder()
    embedder.here = not is_away
    async with opened(made(folder, sparse, embedder)) as again:
        assert again.position == 0
        assert f"has format {FORMAT - 1}: it is built anew from the record" in caplog.text
        embedder.here = True
        await again.apply(changes(*ALL))
    async with opened(made(folder, sparse)) as again:
        assert (again.position, again.count > 0) == (4, True)


async def test_a_complete_build_takes_the_place_of_an_index_of_an_older_format(live: Path, sparse: SparseEncoder):
    place = await build(live, NEW, sparse)
    file = live / METADATA_FILE
    file.write_text(file.read_text().replace(f'"format": {FORMAT}', f'"format": {FORMAT - 1}'))
    async with opened(EdgeIndex(live, NEW, sparse)) as index:
        assert (index.position, await found(index, NEW)) == (7, ["boat"])
    assert live_place(live) == place


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


@pytest.mark.slow
async def test_an_optimised_copy_takes_the_place_of_an_index_that_is_written_to_meanwhile(
    folder: Path, sparse: SparseEncoder, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(edge_optimiser, "_AFTER", 1)
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


@pytest.mark.slow
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


CRANE, BOAT = memory("crane", "The harbour crane needs a gearbox."), memory("boat", "Bo sold the boat.")
OLD, NEW = HashingEmbedder("old"), HashingEmbedder("new", dimension=32)


class AwayEmbedder(HashingEmbedder):
    """A server's embedder: nothing is known of its model until it is `here`."""

    here = False

    def __getattribute__(self, name: str) -> Any:
        if name == "here" or object.__getattribute__(self, "here"):
            return object.__getattribute__(self, name)
        raise ModelError("the server is away")


async def build(folder: Path, embedder: HashingEmbedder, sparse: SparseEncoder) -> Path:
    """A complete build that holds the boat alone."""
    place = build_place(folder, IndexMetadata.of(embedder, sparse))
    async with opened(EdgeIndex(place, embedder, sparse)) as index:
        await index.apply(changes(BOAT, start=7))
    mark_complete(place)
    return place


async def found(index: EdgeIndex, embedder: HashingEmbedder) -> list[str]:
    hits = await VectorSource(index, embedder).search(request("harbour boat", min_score=-1.0))
    return sorted(names(hits, (CRANE, BOAT)))


@pytest.fixture
async def live(folder: Path, sparse: SparseEncoder) -> Path:
    """The folder of an index by the old model that holds the crane."""
    async with opened(EdgeIndex(folder / "index", OLD, sparse)) as index:
        await index.apply(changes(CRANE))
    return folder / "index"


async def test_a_complete_build_takes_the_place_when_its_model_opens_the_folder(live: Path, sparse: SparseEncoder):
    place = await build(live, NEW, sparse)
    async with opened(EdgeIndex(live, OLD, sparse)) as index:
        assert await found(index, OLD) == ["crane"], "the old model's worker goes on with its own"
    async with opened(EdgeIndex(live, NEW, sparse)) as index:
        assert (index.position, await found(index, NEW)) == (7, ["boat"])
        await index.apply(changes(CRANE, start=8))
    assert live_place(live) == place
    assert not (live / "shard").exists()
    assert not (live / "index.json").exists()
    async with opened(EdgeIndex(live, NEW, sparse)) as index:
        assert (index.position, await found(index, NEW)) == (8, ["boat", "crane"])
    with pytest.raises(SourceError, match=r"was made with new .* memory rebuild index"):
        await EdgeIndex(live, OLD, sparse).open()


async def test_while_the_model_is_away_keywords_are_searched_and_vectors_say_why(live: Path, sparse: SparseEncoder):
    embedder = AwayEmbedder("old")
    async with opened(EdgeIndex(live, embedder, sparse)) as index:
        lexical = await LexicalSource(index, sparse).search(request("crane"))
        assert names(lexical, (CRANE,)) == ["crane"]
        with pytest.raises(ModelError, match="away"):
            await found(index, embedder)
        with pytest.raises(ModelError, match="away"):
            await index.apply(changes(BOAT, start=2))
        assert index.position == 1
        embedder.here = True
        await index.apply(changes(BOAT, start=2))
        assert await found(index, embedder) == ["boat", "crane"]


async def taken_over(index: EdgeIndex) -> None:
    staged = index.staged_rebuild()
    assert staged is not None
    await staged.open()
    await index.swap_in(staged)


@pytest.mark.slow
async def test_one_by_the_same_model_is_taken_over_by_the_index_that_is_open(live: Path, sparse: SparseEncoder):
    async with opened(EdgeIndex(live, OLD, sparse)) as index:
        assert index.staged_rebuild() is None
        place = await build(live, OLD, sparse)
        await taken_over(index)
        assert (index.position, await found(index, OLD)) == (7, ["boat"])
        assert (live_place(live), index.staged_rebuild()) == (place, None)
        assert not (live / "shard").exists()
        await index.apply(changes(CRANE, start=8))
        again = await build(live, OLD, sparse)
        assert again != place
        await taken_over(index)
        assert await found(index, OLD) == ["boat"]
        assert not place.exists()
    async with opened(EdgeIndex(live, OLD, sparse)) as index:
        assert await found(index, OLD) == ["boat"]
    assert free_place(live, place.name) == place


@pytest.mark.parametrize("kept_from", [0, 20_000], ids=["kept rarity", "counted"])
@pytest.mark.slow
async def test_an_index_that_is_written_to_scores_as_one_that_is_made_anew(
    tmp_path: Path, sparse: SparseEncoder, kept_from: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(edge_points, "_KEPT_FROM_POINTS", kept_from)
    asked, scope = sparse.encode_query("harbour crane gearbox 7"), Scope(tenant=TENANT)
    said = [
        memory(f"m{number}", f"The harbour crane {number % 9} has a gearbox.", entities=[f"Crane {number % 4}"])
        for number in range(24)
    ]
    changed = [replace(one, text=f"{one.text} The harbour again.", version=2) for one in said[:6]]
    async with opened(made(tmp_path / "live", sparse)) as live, opened(made(tmp_path / "anew", sparse)) as anew:
        await live.apply(changes(*said[:18]))
        assert all(await live.search_sparse(asked, scope, 50))
        assert await live.find_entities("crane 3", TENANT, 9)
        await live.apply(changes(*said[18:], *changed, start=50))
        await live.compact()  # another shard with the same memories is live from now on
        await live.remove([key(one.id) for one in said[6:12]])
        await anew.apply(changes(*said[12:18], *said[18:], *changed))
        for mine, theirs in zip(
            await live.search_sparse(asked, scope, 50), await anew.search_sparse(asked, scope, 50), strict=True
        ):
            assert dict(mine) == pytest.approx(dict(theirs), rel=3e-7)
        names = [dict(await one.find_entities("crane 3", TENANT, 9)) for one in (live, anew)]
        assert names[0] == pytest.approx(names[1], rel=3e-7)


def test_a_copy_has_the_same_bytes_and_the_same_length_and_leaves_the_holes(folder: Path):
    mib, source, copy = 1 << 20, folder / "source", folder / "copy"
    parts = {0: b"x" * 5000, 2 * mib - 3: b"over the end of a mebibyte", 4 * mib + 4095: b"in the middle of zeros"}
    with source.open("wb") as file:
        file.write(bytes(6 * mib + 1))
        for place, data in parts.items():
            file.seek(place)
            file.write(data)
    copy_with_holes(source, copy)
    assert copy.read_bytes() == source.read_bytes()
    assert copy.stat().st_blocks * 512 < mib


async def test_an_index_that_was_of_one_tenant_gives_each_tenant_its_own_memories(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sparse, embedder = SparseEncoder(), HashingEmbedder()
    ours = memory("ours", "The harbour crane has a gearbox.")
    theirs = replace(memory("theirs", "The harbour crane has a winch."), tenant="another")
    terms, vector = sparse.encode_query("harbour crane"), (await embedder.embed_query("harbour crane")).tolist()

    async def keys_of(index: EdgeIndex, tenant: str) -> set[int]:
        by_words = await index.search_sparse(terms, Scope(tenant=tenant), 9)
        by_meaning = await index.search_dense(vector, Scope(tenant=tenant), 9, -1.0)
        found = {name for hits in (*by_words, by_meaning) for name, _ in hits}
        assert all({name for name, _ in hits} == found for hits in (*by_words, by_meaning))
        return found

    own, other = memory_key(TENANT, "ours"), memory_key("another", "theirs")
    async with opened(EdgeIndex(tmp_path, embedder, sparse)) as index:
        await index.apply(changes(ours))
        assert (await keys_of(index, TENANT), await keys_of(index, "another")) == ({own}, set())
        await index.apply(changes(theirs, start=2))
        assert (await keys_of(index, TENANT), await keys_of(index, "another")) == ({own}, {other})
        # The other tenant's first point comes while a search is under way.
        known = iter([frozenset({TENANT})])

        def tenants(_: LiveShard) -> frozenset[str]:
            return next(known, frozenset({TENANT, "another"}))

        monkeypatch.setattr(LiveShard, "tenants", tenants)
        found = await index.search_sparse(terms, Scope(tenant=TENANT), 9)
        assert [{name for name, _ in hits} for hits in found] == [{own}, {own}]
