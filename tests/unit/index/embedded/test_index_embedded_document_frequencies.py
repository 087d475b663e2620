"""How rare words are among a tenant's memories, kept up to date with writes, against the engine's own counting."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
import qdrant_edge as qe

from orion_recall.index.embedded import document_frequencies as counting
from orion_recall.index.embedded.document_frequencies import DocumentFrequencies
from orion_recall.index.embedded.index import EdgeIndex
from orion_recall.index.embedded.points import edge_point, entity_request, sparse_batch
from orion_recall.index.points import SPARSE_VECTORS, IndexPoint
from orion_recall.models.sparse import SparseEncoder, SparseTerms
from orion_recall.values import Scope
from tests.samples.source_samples import TENANT, HashingEmbedder, changes, key, memory

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


def found(
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
            ours, engines = found(frequencies, shard, tenant)
            for mine, theirs in zip(ours, engines, strict=True):
                assert mine == pytest.approx(theirs, rel=3e-7)
            assert any(ours) == (tenant != "nobody"), "the searches of a tenant find something"


def test_what_was_counted_once_is_not_counted_again_and_writes_keep_it(shard: CountedShard) -> None:
    frequencies = DocumentFrequencies()
    write(frequencies, shard, [point(number) for number in range(40)])
    first = frequencies.weighted(shard.engine, TENANT, TERMS, USING)
    write(frequencies, shard, [point(number, seed=1) for number in range(30, 60)], gone=[1, 2])
    shard.asked.clear()
    second = frequencies.weighted(shard.engine, TENANT, TERMS, USING)
    assert {*shard.asked} <= {"info"}
    assert second == DocumentFrequencies().weighted(shard.engine, TENANT, TERMS, USING) != first
    shard.asked.clear()
    more = SparseTerms(indices=(2, 7), values=(1.0, 1.0))
    assert frequencies.weighted(shard.engine, TENANT, more, USING) is not None
    assert "count" not in shard.asked, "of a known tenant the new terms alone"


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
