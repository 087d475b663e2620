"""The embedded index on the real engine, with a handful of memories."""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import qdrant_edge as qe

from orion_recall.errors import EngineError, SourceError
from orion_recall.index.embedded import index as edge_optimiser
from orion_recall.index.embedded import optimised_copy as edge_renewal
from orion_recall.index.embedded import reads as edge_reads
from orion_recall.index.embedded import shard as edge_shard
from orion_recall.index.embedded import writer as edge_writer
from orion_recall.index.embedded import writes as edge_writes
from orion_recall.index.embedded.index import EdgeIndex
from orion_recall.index.metadata import FORMAT
from orion_recall.index.points import HeldPoint
from orion_recall.models.sparse import SparseEncoder
from orion_recall.sources.vector_lexical import LexicalSource
from orion_recall.values import Change, Scope
from tests.samples.source_samples import (
    ALL,
    OURS,
    TENANT,
    HashingEmbedder,
    changes,
    dense,
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


async def test_a_card_that_cannot_be_read_is_an_error_with_advice(
    index: EdgeIndex, folder: Path, sparse: SparseEncoder
):
    await index.close()
    metadata = folder / "index" / "index.json"
    good = json.loads(metadata.read_text())
    for text in ("", "{", "[]", "null", "{}", '{"format": 1}', "\x00", json.dumps(good | {"position": "x"})):
        metadata.write_text(text)
        with pytest.raises(SourceError, match=r"index\.json cannot be read .*delete .* and it will be rebuilt"):
            await made(folder, sparse).open()
    assert good["format"] == FORMAT
    for other in (FORMAT - 1, 99):
        metadata.write_text(json.dumps(good | {"format": other}))
        with pytest.raises(SourceError, match=rf"format {other}: delete the folder to rebuild it"):
            await made(folder, sparse).open()
    metadata.write_text(json.dumps(good))
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
        await index.speakers(Scope(tenant=TENANT))


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


async def test_a_copy_that_takes_its_place_between_two_reads_of_a_write_costs_nothing(
    folder: Path, sparse: SparseEncoder, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(edge_optimiser, "_AFTER", 1)
    current, go_on = folder / "index" / "current", asyncio.Event()

    async def optimise_later(shard: Path, *, anew: bool) -> None:
        await go_on.wait()
        await edge_renewal.optimise_apart(shard, anew=anew)

    monkeypatch.setattr(edge_optimiser, "optimise_apart", optimise_later)
    async with opened(made(folder, sparse)) as one:
        await one.apply(changes(*OURS))
        read_first = one._writes._held_of  # pyright: ignore[reportPrivateUsage]

        async def then_another_takes_the_place(keys: Sequence[int]) -> dict[int, HeldPoint]:
            found = await read_first(keys)
            go_on.set()
            while not current.exists():
                await asyncio.sleep(0.01)
            return found

        monkeypatch.setattr(one._writes, "_held_of", then_another_takes_the_place)  # pyright: ignore[reportPrivateUsage]
        await one.apply([Change(position=10, memory=replace(OURS[0], text="A quiet lighthouse", version=2))])
        assert (await held(one))[OURS[0].id] == (2, "A quiet lighthouse")


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


async def test_what_an_optimiser_leaves_is_deleted_in_a_thread_and_a_closing_index_waits_for_that(
    folder: Path, sparse: SparseEncoder, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(edge_optimiser, "_AFTER", 1)
    copied, deleting, go_on = asyncio.Event(), threading.Event(), threading.Event()
    went_on = list[bool]()

    async def never_done(shard: Path, *, anew: bool) -> None:
        copied.set()
        await asyncio.Event().wait()

    def delete(place: Path, *, ignore_errors: bool) -> None:
        deleting.set()
        went_on.append(go_on.wait(60))
        rmtree(place, ignore_errors=ignore_errors)

    rmtree = shutil.rmtree
    monkeypatch.setattr(edge_optimiser, "optimise_apart", never_done)
    async with opened(made(folder, sparse)) as one:
        await one.apply(changes(*ALL))
        await copied.wait()
        monkeypatch.setattr(edge_optimiser.shutil, "rmtree", delete)
        closing = asyncio.create_task(one.close())
        await asyncio.to_thread(deleting.wait, 60)
        assert not closing.done()
        go_on.set()
        await closing
    assert went_on == [True]
    assert not list((folder / "index" / "builds").iterdir())


async def test_the_loop_goes_on_while_a_closing_index_waits_for_a_search(
    index: EdgeIndex, monkeypatch: pytest.MonkeyPatch
):
    began, go_on = threading.Event(), threading.Event()

    def until_the_loop_says_so(shard: object, after: object) -> tuple[dict[int, int], None]:
        began.set()
        return ({1: 1} if go_on.wait(60) else {}), None

    monkeypatch.setattr(edge_reads, "read_versions", until_the_loop_says_so)
    reading = asyncio.create_task(index.held())
    await asyncio.to_thread(began.wait, 60)
    closing = asyncio.create_task(index.close())
    while index._live.shard is not None:  # pyright: ignore[reportPrivateUsage]
        await asyncio.sleep(0.01)
    with contextlib.suppress(SourceError):  # after the last write comes the waiting
        await index._writer.run(lambda: None)  # pyright: ignore[reportPrivateUsage]
    go_on.set()
    await closing
    assert await reading == {1: 1}


async def test_what_was_written_is_saved_in_time_and_at_the_end(
    folder: Path, sparse: SparseEncoder, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(edge_writer, "_SAVE_AFTER_S", 0.05)
    metadata = folder / "index" / "index.json"

    def position() -> int:
        return json.loads(metadata.read_text("utf-8"))["position"] if metadata.exists() else 0

    async with opened(made(folder, sparse)) as one:
        await one.apply(changes(*ALL))
        assert (one.position, position()) == (len(ALL), 0)
        while position() == 0:
            await asyncio.sleep(0.01)
        monkeypatch.setattr(edge_writer, "_SAVE_AFTER_S", 60)
        await one.apply([Change(position=len(ALL) + 1, memory=ALL[0])])
    assert position() == len(ALL) + 1


async def test_much_is_saved_at_once_because_a_large_flush_stops_the_process(
    folder: Path, sparse: SparseEncoder, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(edge_writer, "_SAVE_AFTER_POINTS", len(ALL))
    metadata = folder / "index" / "index.json"
    async with opened(made(folder, sparse)) as one:
        await one.apply(changes(*ALL))
        assert json.loads(metadata.read_text("utf-8"))["position"] == len(ALL)


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


async def test_it_knows_after_every_write_whether_any_memory_has_a_title(folder: Path, sparse: SparseEncoder):
    async with opened(made(folder, sparse)) as index:
        await index.apply(changes(memory("plain", "It makes cranes.")))
        assert not await index.has_titles(TENANT)
        titled = memory("umbra", "It makes cranes.", title="Umbra Works")
        await index.apply(changes(titled, start=index.position + 1))
        assert await index.has_titles(TENANT)


async def test_a_new_index_has_no_log_of_its_own_and_its_optimised_copy_neither(index: EdgeIndex, folder: Path):
    await index.optimise()
    assert list((folder / "index").rglob("shard"))
    assert not [path for path in (folder / "index").rglob("wal/*") if path.is_file()]


async def test_names_are_searched_by_their_words_and_not_among_all_points_of_the_tenant(
    index: EdgeIndex, folder: Path
):
    await index.save()
    for file in folder.glob("index/shard/segments/*/segment.json"):
        vectors = json.loads(file.read_text("utf-8"))["config"]["sparse_vector_data"]
        assert vectors["entity"]["index"]["full_scan_threshold"] == 1
        assert vectors["text"]["index"]["full_scan_threshold"] is None
        break
    else:
        pytest.fail("there is no segment")


async def test_an_index_with_a_log_and_half_floats_of_an_earlier_version_goes_on_as_it_is(
    folder: Path, sparse: SparseEncoder, monkeypatch: pytest.MonkeyPatch
):
    make_config = qe.EdgeConfig

    def former(**config: Any) -> qe.EdgeConfig:
        with_log: dict[str, Any] = config | {"wal_enabled": True}
        return make_config(**with_log)

    def half_floats(width: int) -> qe.EdgeVectorParams:
        return qe.EdgeVectorParams(
            size=width,
            distance=qe.Distance.Dot,
            datatype=qe.VectorStorageDatatype.Float16,
            multivector_config=qe.MultiVectorConfig(qe.MultiVectorComparator.MaxSim),
        )

    with monkeypatch.context() as patched:
        patched.setattr(edge_shard, "token_vectors", half_floats)
        patched.setattr(qe, "EdgeConfig", former)
        async with opened(made(folder, sparse)) as before:
            await before.apply(changes(*ALL[:2]))
    assert [path for path in (folder / "index").rglob("wal/*") if path.is_file()]
    async with opened(made(folder, sparse)) as after:
        await after.apply([replace(one, position=2 + place) for place, one in enumerate(changes(*ALL[2:]), 1)])
        await after.optimise()
        found = await after.fetch([key(one.id) for one in OURS])
        assert {one.id for one in found.values()} == {one.id for one in OURS}


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
