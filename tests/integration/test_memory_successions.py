"""Successions over a real record and index: stated by a person, a message or an extractor, shown and undone."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from orion_recall.cli.main import run
from orion_recall.contracts import MemoryV1, RecallQueryV1
from orion_recall.errors import SettingsError
from orion_recall.index.embedded.index import EdgeIndex
from orion_recall.memory.extraction.light import Extraction
from orion_recall.memory.record import extraction_queue, successions
from orion_recall.memory.record.compose import Patch, compose
from orion_recall.memory.record.record import Record
from orion_recall.memory.replicas.projector import Projector
from orion_recall.models.embedder import OnnxEmbedder
from orion_recall.models.sparse import SparseEncoder
from orion_recall.models.tokenizer import TokenCounter
from orion_recall.postgres.pool import Pool, open_pool
from orion_recall.recall.pipeline import Recalled, recall
from orion_recall.recall.types import Sources
from orion_recall.settings import Settings
from orion_recall.sources.vector_lexical import LexicalSource, VectorSource
from orion_recall.text.normal import memory_key
from orion_recall.values import Scope, Statement, Superseded
from tests.stand_ins.memory_changes import MemoryChanges
from tests.stand_ins.patient_profiles import patient

pytestmark = pytest.mark.slow

TENANT = "default"
DAY = 86_400.0
START = 1_790_000_000.0
TOLD = [
    ("dentist", "Dr. Blum is my dentist, near the station."),
    ("rent", "We pay 950 pounds rent for the flat."),
    ("oslo", "The door code in Oslo is 4471."),
    ("new-dentist", "Dr. Okafor has taken over."),
    ("bergen", "The door code in Bergen is 9052."),
    ("rain", "It rained all day."),
]


@dataclass
class World:
    """A record and its index."""

    dsn: str
    pool: Pool
    record: Record
    index: EdgeIndex
    projector: Projector
    embedder: OnnxEmbedder

    async def tell(self, name: str, text: str, day: float, **more: Any) -> None:
        fields = {"id": name, "text": text, "speaker": "Lin", "occurred_at": START + day * DAY, **more}
        await self.record.store([compose(MemoryV1.model_validate(fields), TENANT)])

    async def extract(self, found: Mapping[str, Statement | Extraction]) -> None:
        """What an extractor finds in the memories of these ids."""
        by = "llm"
        await extraction_queue.queue_again(self.pool, TENANT, list(found), extractor=by)
        for taken in await extraction_queue.take(self.pool, by, 50, for_s=60):
            told = found[taken.memory.id]
            if isinstance(told, Statement):
                told = Extraction(entities=(told.subject, told.object), statements=(told,))
            await extraction_queue.finish(self.pool, taken, replace(told, by=by))

    async def links(self, name: str) -> tuple[set[str], set[str]]:
        """What a memory succeeds, and what succeeds it, in the index."""
        await self.projector.catch_up()
        key = memory_key(TENANT, name)
        one = (await self.index.fetch([key]))[key]
        return {link.id for link in one.succeeds}, {link.id for link in one.succeeded_by}

    async def ask(self, text: str, day: float = 100.0, *, superseded: Superseded = "mark", k: int = 6) -> Recalled:
        await self.projector.catch_up()
        sources = Sources(
            by_name={
                "vector": VectorSource(self.index, self.embedder),
                "lexical": LexicalSource(self.index, SparseEncoder()),
            },
            tokens=TokenCounter(),
            readers=(self.index,),
            lexicon=self.index,
        )
        changed = {"rdf_top_k": 0, "enable_sql_timeline": False, "superseded": superseded}
        profile = patient("reflect.v1").model_copy(update=changed)
        query = RecallQueryV1.model_validate({"fragment": text, "options": {"k": k, "no_answer": False}})
        return await recall(query, profile, sources, now=START + day * DAY, timeout_s=60)


@pytest.fixture(scope="module")
async def embedder() -> AsyncGenerator[OnnxEmbedder]:
    """The default model, loaded once."""
    one = OnnxEmbedder()
    await one.load()
    yield one
    await one.close()


@pytest.fixture
async def world(database: str, tmp_path: Path, embedder: OnnxEmbedder) -> AsyncGenerator[World]:
    pool = await open_pool(database, name="successions", max_size=4)
    record = Record(pool)
    index = EdgeIndex(tmp_path / "index", embedder, SparseEncoder())
    await index.open()
    one = World(database, pool, record, index, Projector(record, index, copy="test"), embedder)
    for day, (name, text) in enumerate(TOLD):
        await one.tell(name, text, day)
    yield one
    await index.close()
    await pool.close()


async def lexical_hits(world: World, text: str) -> list[int]:
    """The memories whose words a keyword search finds."""
    own, _ = await world.index.search_sparse(SparseEncoder().encode_query(text), Scope(tenant=TENANT), 9)
    return [key for key, _ in own]


def ids(recalled: Recalled) -> list[str]:
    return [item.scored.memory.id for item in recalled.selection.items]


async def test_nothing_is_a_succession_that_nobody_stated(world: World) -> None:
    for name, _ in TOLD:
        assert await world.links(name) == (set(), set())
    recalled = await world.ask("what is the door code in Oslo?", k=1)
    assert ids(recalled) == ["oslo"]
    assert "until" not in (await world.ask("what is the door code in Oslo?")).rendered


async def test_a_person_states_and_undoes_a_succession(world: World) -> None:
    done = await successions.by_person(world.pool, TENANT, "new-dentist", "dentist", actor="Lin")
    assert done.state == "stated"
    assert (await successions.by_person(world.pool, TENANT, "new-dentist", "dentist")).state == "unchanged"
    assert await successions.by_person(world.pool, TENANT, "rain", "nobody") == ("missing", ("nobody",))
    assert await world.links("dentist") == (set(), {"new-dentist"})
    (held,) = await successions.of_memory(world.pool, TENANT, "dentist")
    assert (held.state, held.reason, held.probability, held.actor) == ("stated", "by_person", 1.0, "Lin")
    assert (await successions.by_person(world.pool, TENANT, "new-dentist", "dentist", undo=True)).state == "undone"
    assert await world.links("dentist") == (set(), set())


async def test_a_cycle_is_refused_with_the_chain_that_there_is(world: World) -> None:
    for newer, older in (("new-dentist", "dentist"), ("rain", "new-dentist")):
        assert (await successions.by_person(world.pool, TENANT, newer, older)).state == "stated"
    refused = await successions.by_person(world.pool, TENANT, "dentist", "rain")
    assert refused == ("cycle", ("rain", "new-dentist", "dentist"))
    assert (await successions.by_person(world.pool, TENANT, "rain", "new-dentist", undo=True)).state == "undone"
    assert (await successions.by_person(world.pool, TENANT, "dentist", "rain")).state == "stated"


async def test_an_extractor_states_a_succession_takes_it_back_and_never_against_a_person(world: World) -> None:
    await world.tell("lives", "Ida lives in Oslo.", 10)
    await world.tell("moved", "Ida has gone to Bergen for good.", 11)
    before = {"lives": Statement(subject="Ida", relation="lives in", object="Oslo")}
    after = {"moved": Statement(subject="Ida", relation="moved to", object="Bergen")}
    await world.extract(after)
    await world.extract(before)
    assert await world.links("lives") == (set(), {"moved"})
    (held,) = await successions.of_memory(world.pool, TENANT, "lives")
    assert (held.newer, held.reason, held.evidence) == ("moved", "by_extractor", ["lives", "moved"])
    await world.extract({"moved": Statement(subject="Ida", relation="visited", object="Bergen")})
    assert await world.links("lives") == (set(), set())
    await world.extract(after)
    await successions.by_person(world.pool, TENANT, "moved", "lives", undo=True)
    await world.extract(after)
    assert await world.links("lives") == (set(), set())


OKAFOR = Extraction(
    entities=("Okafor",),
    restated="Dr. Okafor is the periodontist whom Lin sees since autumn.",
    replaces=("dentist", "new-dentist", "rain", "nobody"),
)


async def test_what_a_model_names_as_replaced_stays_so_until_the_older_memory_changes(world: World) -> None:
    names = replace(OKAFOR, restated=None)
    await world.extract({"new-dentist": names})
    # "rain" came later, and nothing replaces itself.
    assert await world.links("new-dentist") == ({"dentist"}, set())
    (held,) = await successions.of_memory(world.pool, TENANT, "dentist")
    assert (held.reason, held.evidence) == ("by_extractor", ["new-dentist"])
    await world.extract({"dentist": Extraction(entities=("Blum",))})
    assert await world.links("dentist") == (set(), {"new-dentist"})
    changes = MemoryChanges(world.pool)
    await changes.update(TENANT, [Patch(id="dentist", changes={"text": "Dr. Blum is my dentist again."})])
    await world.extract({"dentist": Extraction(entities=("Blum",))})
    assert await world.links("dentist") == (set(), set())
    await world.extract({"new-dentist": names})
    assert await world.links("dentist") == (set(), {"new-dentist"})
    await world.extract({"new-dentist": replace(names, replaces=())})
    assert await world.links("dentist") == (set(), set())
    await successions.by_person(world.pool, TENANT, "new-dentist", "dentist", undo=True)
    await world.extract({"new-dentist": names})
    assert await world.links("dentist") == (set(), set())


async def test_a_restated_sentence_is_searched_beside_the_text_and_never_shown(world: World) -> None:
    question = "Which periodontist does Lin see?"
    position = await world.record.head()
    await world.extract({"new-dentist": OKAFOR})
    # As each of the two ends of a succession, and as what was extracted: no change of what the memory says.
    assert {one.memory.id for one in await world.record.changes(position, 9)} == {"new-dentist", "dentist"}
    recalled = await world.ask(question)
    assert ids(recalled)[0] == "new-dentist"
    assert "Dr. Okafor has taken over." in recalled.rendered
    assert "periodontist" not in recalled.rendered
    assert (await world.record.get(TENANT, ["new-dentist"]))["new-dentist"].version == 1
    assert await lexical_hits(world, "taken over") == [memory_key(TENANT, "new-dentist")]


@pytest.mark.parametrize("erase", [False, True])
async def test_what_was_restated_from_a_memory_goes_with_it_and_is_read_again(world: World, *, erase: bool) -> None:
    await world.extract({"new-dentist": OKAFOR})
    held = (await world.record.get(TENANT, ["new-dentist"]))["new-dentist"]
    assert held.restated == OKAFOR.restated
    assert "dentist" in held.restated_from
    await MemoryChanges(world.pool).delete(TENANT, ["dentist"], erase=erase)
    held = (await world.record.get(TENANT, ["new-dentist"]))["new-dentist"]
    assert (held.restated, held.restated_from) == (None, ())
    assert await extraction_queue.due(world.pool) == {"llm": 1}
    await world.projector.catch_up()
    assert await lexical_hits(world, "periodontist") == []
    texts = [str(dict(row)) for row in await world.pool.fetch("SELECT * FROM memory_history")]
    assert not any("periodontist" in text for text in texts)


async def test_what_a_model_was_shown_must_be_as_it_was_when_its_answer_is_written(world: World) -> None:
    await extraction_queue.queue_again(world.pool, TENANT, ["new-dentist"], extractor="llm")
    (taken,) = await extraction_queue.take(world.pool, "llm", 1, for_s=60)
    assert {one.id for one in taken.earlier} == {"dentist", "rent", "oslo"}
    await MemoryChanges(world.pool).delete(TENANT, ["dentist"], erase=True)
    assert await extraction_queue.finish(world.pool, taken, replace(OKAFOR, by="llm")) == "outdated"
    (again,) = await extraction_queue.take(world.pool, "llm", 1, for_s=60)
    assert {one.id for one in again.earlier} == {"rent", "oslo"}
    assert await extraction_queue.finish(world.pool, again, replace(OKAFOR, by="llm")) == "extracted"


async def test_memories_of_other_users_state_nothing(world: World) -> None:
    await world.tell("lives", "Ida lives in Oslo.", 10)
    await world.tell("moved", "Ida lives in Bergen.", 11, user_id="somebody-else")
    await world.extract({"lives": Statement(subject="Ida", relation="lives in", object="Oslo")})
    await world.extract({"moved": Statement(subject="Ida", relation="lives in", object="Bergen")})
    assert await world.links("lives") == (set(), set())


async def test_a_memory_that_supersedes_a_successor_takes_its_successions_over(world: World) -> None:
    await successions.by_person(world.pool, TENANT, "new-dentist", "dentist")
    await world.tell("newest", "Dr. Adler is my dentist.", 8, supersedes=["new-dentist"])
    assert await world.links("newest") == ({"dentist"}, set())
    assert await world.links("dentist") == (set(), {"newest"})
    held = {one.newer: one for one in await successions.of_memory(world.pool, TENANT, "dentist")}
    assert (held["newest"].reason, held["newest"].evidence) == ("supersedes", ["new-dentist"])
    assert "new-dentist" not in ids(await world.ask("Who is my dentist?"))


@pytest.mark.parametrize(("gone", "other"), [("new-dentist", "dentist"), ("dentist", "new-dentist")])
@pytest.mark.parametrize("erase", [False, True])
async def test_a_deleted_memory_is_no_end_of_a_succession_and_an_erased_one_leaves_none(
    world: World, gone: str, other: str, *, erase: bool
) -> None:
    await successions.by_person(world.pool, TENANT, "new-dentist", "dentist")
    assert await world.links(other) != (set(), set())
    await MemoryChanges(world.pool).delete(TENANT, [gone], erase=erase)
    assert await world.links(other) == (set(), set())
    assert bool(await successions.of_memory(world.pool, TENANT, other)) is not erase


async def test_a_recall_has_the_successor_first_and_the_older_one_as_the_profile_says(world: World) -> None:
    await successions.by_person(world.pool, TENANT, "new-dentist", "dentist")
    marked = await world.ask("Who is my dentist, near the station?")
    assert ids(marked).index("new-dentist") + 1 == ids(marked).index("dentist")
    (line,) = [item.line for item in marked.selection.items if item.scored.memory.id == "dentist"]
    assert "(until 2026-09-24)" in line
    assert ids(await world.ask("Who is my dentist, near the station?", k=1)) == ["new-dentist"]
    assert "dentist" not in ids(await world.ask("Who is my dentist, near the station?", superseded="omit"))
    before = ids(await world.ask("Who was my dentist before, near the station?", superseded="omit"))
    assert {"dentist", "new-dentist"} <= set(before)
    assert "until" not in (await world.ask("Who is my dentist?", superseded="keep")).rendered
    assert "until" not in (await world.ask("Who is my dentist?", day=2.5)).rendered


async def test_history_shows_successions_and_the_command_undoes_them(
    world: World, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ORION_POSTGRES_DSN", world.dsn)

    async def called(*arguments: str) -> Any:
        assert await asyncio.to_thread(run, ["memory", *arguments, "--json"]) == 0
        return json.loads(capsys.readouterr().out)

    stated = await called("succeeds", "new-dentist", "dentist")
    assert stated == {"newer": "new-dentist", "older": "dentist", "state": "stated"}
    assert await asyncio.to_thread(run, ["memory", "history", "dentist"]) == 0
    assert "by_person" in capsys.readouterr().out
    assert (await called("succeeds", "new-dentist", "dentist", "--undo", "--actor", "Lin"))["state"] == "undone"
    (shown,) = (await called("history", "dentist"))["successions"]
    assert (shown["state"], shown["actor"]) == ("undone", "Lin")
    assert (await called("succeeds", "new-dentist", "dentist"))["state"] == "stated"
    assert await asyncio.to_thread(run, ["memory", "succeeds", "dentist", "dentist"]) == 1
    capsys.readouterr()
    assert await asyncio.to_thread(run, ["memory", "succeeds", "rain", "nobody-has-this"]) == 1
    said = " ".join(capsys.readouterr().err.split())
    assert "'nobody-has-this'" in said
    assert "'rain'" not in said
    assert await asyncio.to_thread(run, ["memory", "succeeds", "dentist", "new-dentist"]) == 1
    assert "'new-dentist' succeeds 'dentist'" in " ".join(capsys.readouterr().err.split())


def test_the_former_setting_is_refused_with_what_took_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ORION_SUCCESSIONS", "false")
    with pytest.raises(SettingsError, match=r"ORION_SUCCESSIONS is no setting any more: .*`superseded`"):
        Settings.read()
