"""Successions over a real record and index: recognised, shown, confirmed, undone, and used by a recall."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from orion_recall.cli.main import run
from orion_recall.contracts import MemoryV1, RecallQueryV1
from orion_recall.index.embedded.index import EdgeIndex
from orion_recall.memory.background.succession import SuccessionRecognition
from orion_recall.memory.record.changes import MemoryChanges
from orion_recall.memory.record.compose import Patch, compose
from orion_recall.memory.record.record import Record
from orion_recall.memory.record.successions import Successions, WrittenEdge
from orion_recall.memory.replicas.projector import Projector
from orion_recall.memory.succession.find import Found
from orion_recall.memory.succession.near import IndexNeighbours
from orion_recall.models.embedder import OnnxEmbedder
from orion_recall.models.sparse import SparseEncoder
from orion_recall.models.tokenizer import TokenCounter
from orion_recall.postgres.pool import Pool, borrow, open_pool
from orion_recall.profile.sections import Succession
from orion_recall.recall.pipeline import recall
from orion_recall.recall.report.explain import explained
from orion_recall.recall.types import Recalled, Sources
from orion_recall.sources.vector_lexical import LexicalSource, VectorSource
from orion_recall.text.normal import memory_key
from orion_recall.values import Memory
from tests.stand_ins.patient_profiles import patient

TENANT = "default"
DAY = 86_400.0
START = 1_790_000_000.0
TOLD = [
    ("dentist", "Dr. Blum is my dentist, near the station."),
    ("rent", "We pay 950 pounds rent for the flat."),
    ("cat", "My cat is called Pixel."),
    ("new-dentist", "Dr. Blum retired last month, Dr. Okafor is my dentist now."),
    ("new-rent", "The landlord puts the rent up to 1,020 as of April."),
    ("rain", "It rained all day."),
]


@dataclass
class World:
    """A record, its index, and the recognition between them."""

    dsn: str
    pool: Pool
    record: Record
    successions: Successions
    index: EdgeIndex
    projector: Projector
    recognition: SuccessionRecognition
    embedder: OnnxEmbedder

    async def tell(self, name: str, text: str, day: float, **more: Any) -> None:
        fields = {"id": name, "text": text, "speaker": "Lin", "occurred_at": START + day * DAY, **more}
        await self.record.store([compose(MemoryV1.model_validate(fields), TENANT)])

    async def follow(self) -> None:
        """The index has everything, the recognition has looked at everything, and the index has that."""
        await self.projector.catch_up()
        while await self.recognition.step():
            await self.projector.catch_up()

    async def links(self, name: str) -> tuple[set[str], set[str]]:
        """What a memory succeeds, and what succeeds it, in the index."""
        key = memory_key(TENANT, name)
        one = (await self.index.fetch([key]))[key]
        return {link.id for link in one.succeeds}, {link.id for link in one.succeeded_by}

    async def ask(self, text: str, day: float = 100.0, **succession: Any) -> Recalled:
        sources = Sources(
            by_name={
                "vector": VectorSource(self.index, self.embedder),
                "lexical": LexicalSource(self.index, SparseEncoder()),
            },
            tokens=TokenCounter(),
            readers=(self.index,),
            lexicon=self.index,
        )
        profile = patient("reflect.v1").model_copy(
            update={"rdf_top_k": 0, "enable_sql_timeline": False, "succession": Succession(**succession)}
        )
        query = RecallQueryV1.model_validate({"fragment": text})
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
    record, sparse = Record(pool), SparseEncoder()
    index = EdgeIndex(tmp_path / "index", embedder, sparse)
    successions = Successions(pool)
    projector = Projector(record, index, copy="test")
    await index.open()
    neighbours = IndexNeighbours(index=index, embedder=embedder, sparse=sparse)
    recognition = SuccessionRecognition(record, successions, neighbours, index)
    one = World(database, pool, record, successions, index, projector, recognition, embedder)
    for day, (name, text) in enumerate(TOLD):
        await one.tell(name, text, day)
    await one.follow()
    yield one
    await index.close()
    await pool.close()


async def test_what_says_something_new_is_recognised_and_told_to_the_index(world: World) -> None:
    assert await world.links("new-dentist") == ({"dentist"}, set())
    assert await world.links("dentist") == (set(), {"new-dentist"})
    assert await world.links("rent") == (set(), {"new-rent"})
    assert await world.links("cat") == (set(), set())
    (held,) = await world.successions.of_memory(TENANT, "dentist")
    assert (held.newer, held.state, held.found_by) == ("new-dentist", "candidate", "rule")
    assert held.confidence >= 0.5


async def test_a_text_that_the_rules_fail_on_costs_its_own_successions_only(
    world: World, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    recognised = IndexNeighbours.successions

    async def failing(neighbours: IndexNeighbours, memory: Memory) -> list[Found]:
        if memory.id == "new-dentist":
            raise IndexError("list index out of range")
        return await recognised(neighbours, memory)

    monkeypatch.setattr(IndexNeighbours, "successions", failing)
    await world.successions.start_over()
    await world.follow()
    assert await world.links("rent") == (set(), {"new-rent"})
    assert await world.links("dentist") == (set(), set())
    assert "what memory 'new-dentist' succeeds is not recognised: IndexError" in caplog.text


async def test_a_succession_that_is_undone_is_not_recognised_again(world: World) -> None:
    assert await world.successions.by_hand(TENANT, "new-dentist", "dentist", undo=True, actor="Lin") == (
        "undone",
        ("new-dentist", "dentist"),
    )
    await world.follow()
    assert await world.links("dentist") == (set(), set())
    await world.successions.start_over()
    await world.follow()
    assert await world.links("dentist") == (set(), set())
    (held,) = await world.successions.of_memory(TENANT, "dentist")
    assert (held.state, held.actor) == ("undone", "Lin")


async def test_a_succession_can_be_made_and_confirmed_by_hand(world: World) -> None:
    assert (await world.successions.by_hand(TENANT, "rain", "cat")).state == "confirmed"
    assert (await world.successions.by_hand(TENANT, "rain", "cat")).state == "unchanged"
    assert await world.successions.by_hand(TENANT, "rain", "nobody") == ("missing", ("nobody",))
    await world.follow()
    await world.successions.start_over()
    await world.follow()
    assert await world.links("cat") == (set(), {"rain"})
    key = memory_key(TENANT, "cat")
    assert (await world.index.fetch([key]))[key].succeeded_by[0].confidence == 1.0


async def test_a_cycle_is_refused_with_the_chain_that_there_is(world: World) -> None:
    assert (await world.successions.by_hand(TENANT, "rain", "new-dentist")).state == "confirmed"
    refused = await world.successions.by_hand(TENANT, "dentist", "rain")
    assert refused == ("cycle", ("rain", "new-dentist", "dentist"))
    assert (await world.successions.by_hand(TENANT, "rain", "new-dentist", undo=True)).state == "undone"
    assert (await world.successions.by_hand(TENANT, "dentist", "rain")).state == "confirmed"


async def test_a_changed_text_is_compared_again(world: World) -> None:
    changes = MemoryChanges(world.pool)
    await changes.update(TENANT, [Patch(id="new-dentist", changes={"text": "Dr. Okafor has a loud laugh."})])
    await world.follow()
    assert await world.links("dentist") == (set(), set())


async def test_the_successor_of_a_deleted_memory_loses_it_and_an_erased_one_leaves_no_word(world: World) -> None:
    await MemoryChanges(world.pool).delete(TENANT, ["dentist"], erase=True)
    assert await world.successions.of_memory(TENANT, "new-dentist") == []


@pytest.mark.parametrize(("erased", "other"), [("new-dentist", "dentist"), ("dentist", "new-dentist")])
async def test_what_an_erased_memory_succeeded_or_was_succeeded_by_loses_it_in_the_index(
    erased: str, other: str, world: World
) -> None:
    assert await world.links(other) != (set(), set())
    await MemoryChanges(world.pool).delete(TENANT, [erased], erase=True)
    await world.follow()
    assert await world.links(other) == (set(), set())


async def test_a_memory_that_is_erased_while_it_is_compared_leaves_no_word(world: World) -> None:
    await world.tell("cat", "My cat is called Pixel.", 20)
    await world.follow()
    await world.tell("new-cat", "Pixel died last week, my cat is called Mochi now.", 21)
    await world.projector.catch_up()
    due = await world.successions.due(50)
    assert due is not None
    found = [WrittenEdge(TENANT, "new-cat", "cat", 0.99, 'it says "died"; both say "Pixel"')]
    await MemoryChanges(world.pool).delete(TENANT, ["new-cat"], erase=True)
    assert await world.successions.finish(due, found)
    async with borrow(world.pool) as connection:
        assert await connection.fetchval("SELECT count(*) FROM memory_successions WHERE newer = 'new-cat'") == 0


async def test_a_memory_that_supersedes_a_successor_takes_its_successions_over(world: World) -> None:
    await world.tell("newest", "Dr. Adler is my dentist.", 8, supersedes=["new-dentist"])
    await world.follow()
    assert "dentist" in (await world.links("newest"))[0]
    assert await world.links("dentist") == (set(), {"newest"})


async def test_a_question_about_now_gets_the_successor_first_and_the_older_one_is_marked(world: World) -> None:
    recalled = await world.ask("Who is my dentist?")
    ids = [item.scored.memory.id for item in recalled.selection.items]
    assert ids.index("new-dentist") < ids.index("dentist")
    line = next(item.line for item in recalled.selection.items if item.scored.memory.id == "dentist")
    assert "(until 2026-09-24 or earlier)" in line


async def test_a_question_about_no_tense_gets_the_older_one_marked_too(world: World) -> None:
    recalled = await world.ask("What did Lin say about the dentist?")
    line = next(item.line for item in recalled.selection.items if item.scored.memory.id == "dentist")
    assert "(until 2026-09-24 or earlier)" in line


async def test_a_profile_drops_what_is_outdated_or_keeps_it_as_it_was(world: World) -> None:
    dropped = await world.ask("Who is my dentist?", outdated="drop")
    assert "dentist" not in [item.scored.memory.id for item in dropped.selection.items]
    assert dropped.selection.dropped["outdated"] >= 1
    kept = await world.ask("Who is my dentist?", outdated="keep")
    assert all("until" not in item.line for item in kept.selection.items)


async def test_an_explanation_tells_what_succeeds_what(world: World) -> None:
    told = " ".join(explained(await world.ask("Who is my dentist?"))["why"])
    assert "taken as newer about the same thing as dentist (confidence" in told
    assert "taken as replaced from 2026-09-24 on, or earlier, by new-dentist, said later" in told


async def test_a_question_about_before_gets_both_in_order(world: World) -> None:
    recalled = await world.ask("Who was my dentist before?")
    ids = [item.scored.memory.id for item in recalled.selection.items]
    assert ids.index("dentist") < ids.index("new-dentist")


async def test_a_question_of_an_earlier_time_does_not_know_the_successor(world: World) -> None:
    recalled = await world.ask("Who is my dentist?", day=2.5)
    line = next(item.line for item in recalled.selection.items if item.scored.memory.id == "dentist")
    assert "until" not in line


async def test_history_shows_successions_and_the_command_undoes_them(
    world: World, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ORION_POSTGRES_DSN", world.dsn)

    async def called(*arguments: str) -> Any:
        assert await asyncio.to_thread(run, ["memory", *arguments, "--json"]) == 0
        return json.loads(capsys.readouterr().out)

    (shown,) = (await called("history", "dentist"))["successions"]
    assert (shown["newer"], shown["state"]) == ("new-dentist", "candidate")
    undone = await called("succeeds", "new-dentist", "dentist", "--undo")
    assert undone == {"newer": "new-dentist", "older": "dentist", "state": "undone"}
    (shown,) = (await called("history", "dentist"))["successions"]
    assert shown["state"] == "undone"
    await called("succeeds", "new-rent", "rent", "--undo", "--actor", "Lin")
    assert await asyncio.to_thread(run, ["memory", "history", "rent"]) == 0
    said = capsys.readouterr().out
    assert "undone" in said
    assert "rules" in said
    assert (await called("succeeds", "new-dentist", "dentist"))["state"] == "confirmed"
    assert await asyncio.to_thread(run, ["memory", "succeeds", "dentist", "dentist"]) == 1
    capsys.readouterr()
    assert await asyncio.to_thread(run, ["memory", "succeeds", "rain", "nobody-has-this"]) == 1
    said = " ".join(capsys.readouterr().err.split())
    assert "'nobody-has-this'" in said
    assert "'rain'" not in said
    assert await asyncio.to_thread(run, ["memory", "succeeds", "dentist", "new-dentist"]) == 1
    assert "'new-dentist' succeeds 'dentist'" in " ".join(capsys.readouterr().err.split())


async def test_the_command_lists_what_was_recognised_to_confirm_or_undo_it(
    world: World, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ORION_POSTGRES_DSN", world.dsn)

    async def listed(*arguments: str) -> list[tuple[str, str]]:
        assert await asyncio.to_thread(run, ["memory", "successions", *arguments, "--json"]) == 0
        shown = json.loads(capsys.readouterr().out)
        assert shown["truncated"] is ("--limit" in arguments)
        return [(one["newer"], one["older"]) for one in shown["successions"]]

    dentist, rent = ("new-dentist", "dentist"), ("new-rent", "rent")
    held = {pair: one for pair in (dentist, rent) for one in await world.successions.of_memory(TENANT, pair[1])}
    newest_first = sorted((dentist, rent), key=lambda pair: [name for name, _ in TOLD].index(pair[0]), reverse=True)
    assert await listed() == newest_first
    assert await listed("--limit", "1") == newest_first[:1]
    assert await listed("--below", str(held[rent].confidence)) == [
        pair for pair in newest_first if held[pair].confidence < held[rent].confidence
    ]
    assert await listed("--tenant", "another") == []

    await world.successions.by_hand(TENANT, *dentist)
    assert await listed("--below", "1") == [rent]
    await world.successions.by_hand(TENANT, *rent, undo=True)
    assert await listed() == [dentist]
    assert await listed("--undone") == newest_first

    assert await asyncio.to_thread(run, ["memory", "successions"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "new-dentist: " in said
    assert "confirmed" in said
    await MemoryChanges(world.pool).delete(TENANT, ["dentist"])
    assert await asyncio.to_thread(run, ["memory", "successions"]) == 0
    assert "there is no such succession" in capsys.readouterr().err
