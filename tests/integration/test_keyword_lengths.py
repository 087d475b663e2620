"""Keyword weights of an index: other constants are refused until it is rebuilt, and means are the record's."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from orion_recall.cli.main import run
from orion_recall.contracts import MemoryV1
from orion_recall.errors import SourceError
from orion_recall.index.embedded.folders import live_place
from orion_recall.index.embedded.index import EdgeIndex
from orion_recall.memory.record.compose import compose
from orion_recall.memory.record.keyword_lengths import KEPT_FILE, measure_lengths, measured_weights
from orion_recall.memory.record.record import Record
from orion_recall.memory.replicas.projector import Projector
from orion_recall.memory.replicas.reembed import reembed
from orion_recall.models.sparse import SparseEncoder
from orion_recall.postgres.pool import Pool, open_pool
from orion_recall.serving.backends import open_sources
from orion_recall.settings import Settings
from orion_recall.text.keyword_weights import SHIPPED, KeywordWeights, MeanLengths
from orion_recall.values import Scope
from tests.samples.source_samples import HashingEmbedder

CORPUS = KeywordWeights(length=None)
AWAY = "postgresql://nobody@127.0.0.1:1/none"


@pytest.fixture
async def pool(database: str) -> AsyncGenerator[Pool]:
    pool = await open_pool(database, name="test", min_size=0, max_size=4)
    await store(pool, "ours", {"crane": "harbour crane gearbox repaired"})
    yield pool
    await pool.close()


async def store(pool: Pool, tenant: str, texts: dict[str, str]) -> None:
    memories = [compose(MemoryV1(id=name, text=text), tenant) for name, text in texts.items()]
    await Record(pool).store(memories)


async def score(folder: Path, pool: Pool, weights: KeywordWeights, words: str = "gearbox") -> list[float]:
    """The BM25 of what the index holds after it has caught up with the record."""
    sparse = SparseEncoder(weights)
    index = EdgeIndex(folder, HashingEmbedder(), sparse)
    await index.open()
    try:
        await Projector(Record(pool), index, copy="test").catch_up()
        found, _ = await index.search_sparse(sparse.encode_query(words), Scope(tenant="ours"), 5)
        return [round(value, 5) for _, value in found]
    finally:
        await index.close()


async def test_other_constants_are_refused_until_the_index_is_rebuilt(pool: Pool, tmp_path: Path) -> None:
    other = KeywordWeights(k1=1.2, b=0.5)
    before = await score(tmp_path / "index", pool, SHIPPED)
    assert json.loads((tmp_path / "index" / "index.json").read_text("utf-8"))["keywords"] == ""
    refused = r"was made with the keyword weights k1=1.5,b=0.75,length=32, those of this process are k1=1.2,b=0.5"
    with pytest.raises(SourceError, match=refused):
        await score(tmp_path / "index", pool, other)
    done = await reembed(Record(pool), tmp_path / "index", HashingEmbedder(), SparseEncoder(other))
    assert done.state == "swapped"
    after = await score(tmp_path / "index", pool, other)
    assert after != before
    with pytest.raises(SourceError, match=r"k1=1.2,b=0.5,length=32, those of this process are k1=1.5,b=0.75"):
        await score(tmp_path / "index", pool, SHIPPED)


async def test_every_copy_has_the_records_means_and_no_tenant_anothers(
    pool: Pool, database: str, tmp_path: Path
) -> None:
    record = Record(pool)
    assert await measured_weights(CORPUS, database, tmp_path) == CORPUS, "nothing is measured yet"
    assert await measure_lengths(record, pool)
    weights = await measured_weights(CORPUS, database, tmp_path)
    assert weights.of_tenants == {"ours": MeanLengths(4.0, 4.0)}
    (alone,) = await score(tmp_path / "one", pool, weights)

    await store(pool, "theirs", {f"t{number}": "word " * (90 + number) for number in range(9)})
    assert await score(tmp_path / "one", pool, weights) == [alone]
    assert not await measure_lengths(record, pool), "it is measured once"
    assert await measured_weights(CORPUS, database, tmp_path / "other") == weights
    assert await score(tmp_path / "two", pool, weights) == [alone], "a copy that is made later"

    assert await measure_lengths(record, pool, again=True)
    again = await measured_weights(CORPUS, database, tmp_path)
    assert again.of_tenants["ours"] == MeanLengths(4.0, 4.0)
    assert again.of_tenants["theirs"].text == 94.0
    assert await score(tmp_path / "three", pool, again) == [alone], "another tenant's memories change no score"


async def test_an_index_of_an_earlier_measurement_is_refused(pool: Pool, database: str, tmp_path: Path) -> None:
    await score(tmp_path / "index", pool, CORPUS)
    await measure_lengths(Record(pool), pool)
    weights = await measured_weights(CORPUS, database, tmp_path)
    assert weights.measured
    with pytest.raises(SourceError, match="length=corpus as of 2"):
        await score(tmp_path / "index", pool, weights)


async def test_while_postgres_is_away_the_means_are_those_last_seen(
    pool: Pool, database: str, tmp_path: Path
) -> None:
    assert await measured_weights(CORPUS, AWAY, tmp_path) == CORPUS
    await measure_lengths(Record(pool), pool)
    seen = await measured_weights(CORPUS, database, tmp_path)
    assert (tmp_path / KEPT_FILE).exists()
    assert await measured_weights(CORPUS, AWAY, tmp_path) == seen
    assert await measured_weights(SHIPPED, AWAY, tmp_path) is SHIPPED
    assert await measured_weights(CORPUS, None, tmp_path) is CORPUS


@pytest.mark.slow
async def test_a_rebuild_measures_and_the_next_worker_uses_the_new_index(
    pool: Pool, database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ORION_POSTGRES_DSN", database)
    monkeypatch.setenv("ORION_DATA_DIR", str(tmp_path))

    async def rebuild(*options: str) -> int:
        return await asyncio.to_thread(run, ["memory", "rebuild", "index", "--json", *options])

    assert await rebuild() == 0
    assert await rebuild("--measure") != 0, "there is nothing to measure for"
    assert "length=corpus" in capsys.readouterr().err
    monkeypatch.setenv("ORION_KEYWORD_WEIGHTS", "length=corpus")
    assert await rebuild() == 0
    settings = Settings.read()
    async with open_sources(settings) as opened:
        assert opened.index is not None, opened.broken
        own, _ = await opened.index.search_sparse(
            SparseEncoder().encode_query("gearbox"), Scope(tenant="ours"), limit=5
        )
    idf = math.log(1 + 0.5 / 1.5)
    assert [value for _, value in own] == [pytest.approx(idf, rel=1e-4)], "a term of a mean document weighs one"
    assert await rebuild("--measure") == 0
    index = json.loads((live_place(tmp_path / "index") / "index.json").read_text("utf-8"))
    assert index["keywords"].startswith("k1=1.5,b=0.75,length=corpus as of 20")
    async with open_sources(settings.changed(keyword_weights=SHIPPED)) as opened:
        assert "ORION_KEYWORD_WEIGHTS" in opened.broken["index"]
