"""Late interaction with the real model: an index without tokens gets them, embedded and server rank alike."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from orion_recall.cli.main import run
from orion_recall.contracts import MemoryV1, RecallQueryV1
from orion_recall.index.embedded.index import EdgeIndex
from orion_recall.index.qdrant.index import QdrantIndex
from orion_recall.memory.record.compose import compose
from orion_recall.memory.record.record import Record
from orion_recall.memory.replicas.reembed import reembed
from orion_recall.models.opening import open_embedder
from orion_recall.models.sparse import SparseEncoder
from orion_recall.postgres.pool import open_pool
from orion_recall.profile import Profile
from orion_recall.recall.pipeline import Recalled, recall
from orion_recall.serving.backends import Opened, open_sources
from orion_recall.settings import Settings
from tests.stand_ins.patient_profiles import patient
from tests.stand_ins.qdrant_process import qdrant_stand_in

pytestmark = pytest.mark.slow

TEXTS = {
    "gearbox": "The mechanic fitted a new gearbox to the harbour crane.",
    "painting": "The harbour crane was painted green in the spring by some students.",
    "lunch": "We had lunch beside the crane and talked about the mechanic's holidays.",
    "boat": "A boat came in with timber.",
    "cinema": "They watched a film about engines at the cinema.",
}
QUESTION = RecallQueryV1(fragment="who installed the crane's transmission?")


def only_late(weight: float) -> Profile:
    """reflect.v1 with this weight, and next to nothing else that ranks."""
    profile = patient("reflect.v1")
    ranking = dict.fromkeys(type(profile.ranking).model_fields, 0.0)
    changed = profile.ranking.model_validate(ranking | {"fusion": 0.001 if weight else 1.0, "late": weight})
    return profile.model_copy(update={"ranking": changed})


@pytest.fixture
async def record(database: str) -> AsyncGenerator[Record]:
    pool = await open_pool(database, name="test", min_size=0, max_size=4)
    record = Record(pool)
    await record.store([compose(MemoryV1(id=name, text=text), "default") for name, text in TEXTS.items()])
    yield record
    await pool.close()


async def project(record: Record, opened: Opened) -> None:
    """All that the record holds, as the copy of it."""
    index = opened.index
    assert isinstance(index, EdgeIndex | QdrantIndex)
    index.expect(await record.database_identity())
    if isinstance(index, QdrantIndex):
        await index.open()
    await index.adopt()
    await index.apply(await record.changes(index.position, 100))


async def asked(opened: Opened, weight: float = 1.0) -> Recalled:
    return await recall(QUESTION, only_late(weight), opened.sources, timeout_s=60)


def late(recalled: Recalled) -> tuple[str, str]:
    """The status of late interaction, and why."""
    assert recalled.late_interaction is not None
    return recalled.late_interaction.status, recalled.late_interaction.error or ""


def parts(recalled: Recalled) -> dict[str, float | None]:
    return {item.memory.id: item.parts.get("late") for item in recalled.ranked}


async def test_an_index_made_without_tokens_gets_them_by_reembed(record: Record, data_dir: Path) -> None:
    without = Settings.read(data_dir=data_dir, token_vectors=False)
    wanted = Settings.read(data_dir=data_dir)
    async with open_sources(without) as opened:
        await project(record, opened)
        status, why = late(await asked(opened))
        assert status == "off"
        assert "ORION_TOKEN_VECTORS" in why
    async with open_sources(wanted) as opened:
        made = await asked(opened)
        assert made.outcome == "ok"
        status, why = late(made)
        assert status == "off"
        assert "memory rebuild index" in why
        assert set(parts(made).values()) == {None}
    async with open_embedder(wanted) as embedder:
        folder, sparse = data_dir / "index", SparseEncoder()
        await reembed(record, folder, embedder, sparse, min_free=0, advanced=lambda position, head: None)
    async with open_sources(wanted) as opened:
        made = await asked(opened)
        assert made.late_interaction is not None
        assert (made.late_interaction.status, made.late_interaction.count) == ("ok", len(made.ranked))
        assert made.ranked[0].memory.id == "gearbox", "no word in common but the crane's"
        assert parts(made)["gearbox"] == 1.0
        assert min(value for value in parts(made).values() if value is not None) == 0.0
        assert (await asked(opened, weight=0.0)).late_interaction is None


async def test_a_server_ranks_as_the_embedded_index_does_and_doctor_tells_what_it_lacks(
    record: Record,
    data_dir: Path,
    database: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with qdrant_stand_in() as qdrant:
        embedded = Settings.read(data_dir=data_dir)
        server = embedded.changed(qdrant_url=qdrant.url)
        found: list[Recalled] = []
        for settings in (embedded, server):
            async with open_sources(settings) as opened:
                await project(record, opened)
                found.append(await asked(opened))
        one, other = (parts(made) for made in found)
        assert [item.memory.id for item in found[0].ranked] == [item.memory.id for item in found[1].ranked]
        assert one == pytest.approx(other, abs=0.01)

        old = server.changed(qdrant_collection="old", token_vectors=False)
        async with open_sources(old) as opened:
            await project(record, opened)
        monkeypatch.setenv("ORION_POSTGRES_DSN", database)
        monkeypatch.setenv("ORION_DATA_DIR", str(data_dir))
        monkeypatch.setenv("ORION_QDRANT_URL", qdrant.url)
        for collection, lacking in (("old", True), (server.qdrant_collection, False)):
            monkeypatch.setenv("ORION_QDRANT_COLLECTION", collection)
            assert await asyncio.to_thread(run, ["doctor", "--json"]) == 0
            (index,) = json.loads(capsys.readouterr().out)["stores"]
            told = [remark for remark in index["remarks"] if "no late interaction" in remark]
            assert bool(told) == lacking
            assert all("under a new ORION_QDRANT_COLLECTION" in remark for remark in told)
