"""The embedded index: its folders, its optimised copy, its counts of terms."""

from __future__ import annotations

import asyncio
import contextlib
import random
import shutil
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
import qdrant_edge as qe

from orion_recall.errors import EngineError, ModelError, SourceError
from orion_recall.index.embedded import document_frequencies as counting
from orion_recall.index.embedded import index as edge_optimiser
from orion_recall.index.embedded import optimised_copy as edge_renewal
from orion_recall.index.embedded import writes as edge_writes
from orion_recall.index.embedded.document_frequencies import DocumentFrequencies
from orion_recall.index.embedded.folders import (
    build_place,
    free_place,
    live_place,
    mark_complete,
)
from orion_recall.index.embedded.index import EdgeIndex
from orion_recall.index.embedded.optimised_copy import copy_with_holes
from orion_recall.index.embedded.points import edge_point, entity_request, sparse_batch
from orion_recall.index.metadata import IndexMetadata
from orion_recall.index.points import SPARSE_VECTORS, IndexPoint
from orion_recall.models.sparse import SparseEncoder, SparseTerms
from orion_recall.sources.vector_lexical import LexicalSource, VectorSource
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
async def opened_folders(
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
    async with opened_folders(place, embedder, sparse) as index:
        await index.apply(changes(BOAT, start=7))
    mark_complete(place)
    return place


async def found(index: EdgeIndex, embedder: HashingEmbedder | AwayEmbedder) -> list[str]:
    hits = await VectorSource(index, embedder).search(request("harbour boat", min_score=-1.0))
    return sorted(names(hits, (CRANE, BOAT)))


@pytest.fixture
async def live(folder: Path, sparse: SparseEncoder) -> Path:
    """The folder of an index by the old model that holds the crane."""
    async with opened_folders(folder / "index", OLD, sparse) as index:
        await index.apply(changes(CRANE))
    return folder / "index"


async def test_a_complete_build_takes_the_place_when_its_model_opens_the_folder(live: Path, sparse: SparseEncoder):
    place = await build(live, NEW, sparse)
    async with opened_folders(live, OLD, sparse) as index:
        assert await found(index, OLD) == ["crane"], "the old model's worker goes on with its own"
    async with opened_folders(live, NEW, sparse) as index:
        assert (index.position, await found(index, NEW)) == (7, ["boat"])
        await index.apply(changes(CRANE, start=8))
    assert live_place(live) == place
    assert not (live / "shard").exists()
    assert not (live / "index.json").exists()
    async with opened_folders(live, NEW, sparse) as index:
        assert (index.position, await found(index, NEW)) == (8, ["boat", "crane"])
    with pytest.raises(SourceError, match=r"was made with new .* memory rebuild index"):
        await EdgeIndex(live, OLD, sparse).open()


async def test_while_the_model_is_away_keywords_are_searched_and_vectors_say_why(live: Path, sparse: SparseEncoder):
    embedder = AwayEmbedder(OLD)
    async with opened_folders(live, embedder, sparse) as index:
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
    async with opened_folders(live, OLD, sparse) as index:
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
    async with opened_folders(live, OLD, sparse) as index:
        assert await found(index, OLD) == ["boat"]
    assert free_place(live, place.name) == place


USING = ("text", "context")
TERMS = SparseTerms(indices=(1, 2, 3, 50, 999), values=(1.0,) * 5)


class CountedShard:
    """A shard that counts what is asked of it."""

    def __init__(self, shard: qe.EdgeShard) -> None:
        self._shard, self.asked = shard, list[str]()

    def __getattr__(self, name: str) -> Any:
        self.asked.append(name)
        return getattr(self._shard, name)

    @property
    def engine(self) -> qe.EdgeShard:
        """This, as the engine's class."""
        return cast("qe.EdgeShard", self)


@pytest.fixture(autouse=True)
def _of_any_size(monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction]
    """What is kept of large indexes is kept of small ones, and more than five documents are many."""
    monkeypatch.setattr(counting, "FROM_POINTS", 0)
    monkeypatch.setattr(counting, "_RARE", 5)


@pytest.fixture
def shard(tmp_path: Path) -> CountedShard:
    idf = qe.EdgeSparseVectorParams(modifier=qe.Modifier.Idf)
    config = qe.EdgeConfig(sparse_vectors=dict.fromkeys(SPARSE_VECTORS, idf), wal_enabled=False)
    (tmp_path / "shard").mkdir()
    made = qe.EdgeShard.create(str(tmp_path / "shard"), config)
    made.update(qe.UpdateOperation.create_field_index("tenant", qe.PayloadSchemaType.Keyword))
    return CountedShard(made)


def point(number: int, *, tenant: str = TENANT, seed: int = 0) -> IndexPoint:
    """A memory with some of 60 terms, the lower ones the more often; some have no terms, entities have others."""
    drawn = random.Random(f"{number} {seed}")
    if number % 5 == 4:
        return IndexPoint(number, None, {"entity": _terms(drawn, 3)}, {"tenant": tenant})
    own = _terms(drawn, drawn.randrange(0, 8))
    return IndexPoint(number, None, {"text": own, "context": _terms(drawn, 9)}, {"tenant": tenant})


def _terms(drawn: random.Random, count: int) -> SparseTerms:
    indices = sorted({int(60 * drawn.random() ** 3) for _ in range(count)})
    return SparseTerms(indices=tuple(indices), values=tuple(drawn.choice((0.6, 1.0, 1.7)) for _ in indices))


def write(
    frequencies: DocumentFrequencies, shard: CountedShard, points: Sequence[IndexPoint], gone: Sequence[int] = ()
) -> None:
    with frequencies.written(shard.engine, gone, points):
        if gone:
            shard.update(qe.UpdateOperation.delete_points([*gone]))
        shard.update(qe.UpdateOperation.upsert_points([edge_point(one) for one in points]))


def found_frequencies(
    frequencies: DocumentFrequencies, shard: CountedShard, tenant: str = TENANT
) -> tuple[list[dict[Any, float]], list[dict[Any, float]]]:
    """Ids and scores of all three vectors by the frequencies that are kept, and by the engine's own counting."""
    scope, engine = Scope(tenant=tenant), shard.engine
    ours = frequencies.weighted(engine, tenant, TERMS, USING)
    names = frequencies.weighted(engine, tenant, TERMS, ("entity",))
    assert ours is not None
    assert names is not None
    both: list[list[dict[Any, float]]] = []
    for with_idf, name_idf in ((ours, names), (None, None)):
        lists = engine.query_batch(sparse_batch(TERMS, scope, 1000, USING, with_idf))
        lists.append(engine.query(entity_request(TERMS, tenant, 1000, name_idf)))
        both.append([{one.id: one.score for one in each} for each in lists])
    return both[0], both[1]


def test_scores_are_those_of_the_engines_own_counting_whatever_is_written(shard: CountedShard) -> None:
    frequencies, drawn = DocumentFrequencies(), random.Random(3)
    for step in range(25):
        numbers = drawn.sample(range(120), 12)
        tenants = [TENANT if number % 4 else "another" for number in numbers]
        points = [point(one, tenant=of, seed=step) for one, of in zip(numbers, tenants, strict=True)]
        points.append(points[0])  # the same twice
        write(frequencies, shard, points, gone=drawn.sample(range(120), 4) if step % 3 else ())
        if step == 12:
            shard.optimize()
        for tenant in (TENANT, "another", "nobody"):
            ours, engines = found_frequencies(frequencies, shard, tenant)
            for mine, theirs in zip(ours, engines, strict=True):
                assert mine == pytest.approx(theirs, rel=3e-7)
            assert any(ours) == (tenant != "nobody"), "the searches of a tenant find something"


async def test_an_index_that_is_written_to_scores_as_one_that_is_made_anew(tmp_path: Path) -> None:
    sparse, scope = SparseEncoder(), Scope(tenant=TENANT)
    asked = sparse.encode_query("harbour crane gearbox 7")
    live, anew = (EdgeIndex(tmp_path / name, HashingEmbedder(), sparse) for name in ("live", "anew"))
    said = [
        memory(f"m{number}", f"The harbour crane {number % 9} has a gearbox.", entities=[f"Crane {number % 4}"])
        for number in range(24)
    ]
    changed = [replace(one, text=f"{one.text} The harbour again.", version=2) for one in said[:6]]
    gone = [key(one.id) for one in said[6:12]]
    await live.open()
    await anew.open()
    try:
        await live.apply(changes(*said[:18]))
        assert all(await live.search_sparse(asked, scope, 50))
        assert await live.find_entities("crane 3", TENANT, 9)
        await live.apply(changes(*said[18:], *changed, start=50))
        await live.compact()  # another shard with the same memories is live from now on
        await live.remove(gone)
        await anew.apply(changes(*said[12:18], *said[18:], *changed))
        for mine, theirs in zip(
            await live.search_sparse(asked, scope, 50), await anew.search_sparse(asked, scope, 50), strict=True
        ):
            assert dict(mine) == pytest.approx(dict(theirs), rel=3e-7)
        names = [dict(await one.find_entities("crane 3", TENANT, 9)) for one in (live, anew)]
        assert names[0] == pytest.approx(names[1], rel=3e-7)
    finally:
        await live.close()
        await anew.close()


_MIB = 1 << 20


@pytest.mark.parametrize(
    "parts",
    [
        {},
        {0: b"first"},
        {3 * _MIB: b"behind a hole"},
        {0: b"x" * 5000, 5 * _MIB - 3: b"over the end of a mebibyte"},
        {0: bytes(3 * _MIB), 2 * _MIB + 4095: b"in the middle of zeros"},
    ],
)
def test_a_copy_has_the_same_bytes_and_the_same_length(folder: Path, parts: dict[int, bytes]):
    source = folder / "source"
    with source.open("wb") as file:
        for place, data in parts.items():
            file.seek(place)
            file.write(data)
        file.truncate(6 * _MIB + 1)

    copy_with_holes(source, folder / "copy")

    assert (folder / "copy").read_bytes() == source.read_bytes()
