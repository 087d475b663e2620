"""A wiki, a ticket table and a collection of notes, each with the only answer to questions, beside own memories."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from itertools import islice

import pytest

from orion_recall.contracts import MemoryV1, RecallQueryV1
from orion_recall.evaluation.fill import changes, fill
from orion_recall.memory.record.compose import compose
from orion_recall.models.embedder import OnnxEmbedder
from orion_recall.profile.watch import loaded_profiles
from orion_recall.recall.pipeline import recall
from orion_recall.recall.types import Recalled, Sources
from orion_recall.serving.backends import open_sources
from orion_recall.settings import Settings
from tests.bench.corpus import corpus, questions
from tests.stand_ins.oxigraph import oxigraph
from tests.stand_ins.qdrant_process import qdrant_stand_in
from tests.stand_ins.team_stores import SETS, Set, judged, make_stores

pytestmark = pytest.mark.slow

NOW = 1_767_225_600.0
OWN = 400
# On a busy machine no source is late.
PATIENT = {"source_timeout_ms": 60_000}
PROFILES = {name: loaded.profile.model_copy(update=PATIENT) for name, loaded in loaded_profiles(None).items()}


@pytest.fixture(scope="module")
async def sources(module_database: str, tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Sources]:
    """The own stores with synthetic memories, and those of the team."""
    embedder, dsn, folder = OnnxEmbedder(), module_database, tmp_path_factory.mktemp("ranking")
    await embedder.load()
    async with oxigraph() as wiki:
        with qdrant_stand_in() as notes:
            told = await make_stores(qdrant_url=notes.url, wiki=wiki, dsn=dsn, embedder=embedder, now=NOW)
            await embedder.close()
            mappings = folder / "mappings.yaml"
            mappings.write_text(told, "utf-8")
            settings = Settings.read(data_dir=folder / "data", postgres_dsn=dsn, mappings=mappings)
            async with open_sources(settings) as opened:
                assert opened.index is not None and opened.graph is not None, opened.broken
                own = [compose(MemoryV1(**one), "default") for one in corpus(OWN, now=NOW).memories]
                await fill([opened.index, opened.graph], changes(own))
                yield opened.sources


async def answer(sources: Sources, question: str, profile: str) -> Recalled:
    found = await recall(RecallQueryV1(fragment=question), PROFILES[profile], sources, now=NOW, timeout_s=60.0)
    assert found.outcome in ("ok", "empty"), [report.error for report in found.reports]
    return found


def ids(found: Recalled) -> list[str]:
    return [item.scored.memory.id for item in found.selection.items]


async def test_the_only_answer_comes_first_or_second_wherever_it_is(sources: Sources) -> None:
    """In nine of ten, of the questions that ranking was made with and of those that it was not."""
    missed: dict[tuple[str, Set], list[str]] = {}
    for profile in ("reflect.v1", "deep.graph.v1"):
        for which in SETS:
            missed[profile, which] = [
                one.question
                for one in judged(which)
                if one.answer not in ids(await answer(sources, one.question, profile))[:2]
            ]
    assert {where: lost for where, lost in missed.items() if len(lost) > 3} == {}


async def test_questions_about_own_memories_are_answered_by_own_memories(sources: Sources) -> None:
    """They are about other things: what the team's stores have shares a word with them at the most.

    Where the words of somebody are asked for whom no memory has speaking, there is no answer.
    """
    asked = [await answer(sources, question, "reflect.v1") for question in islice(questions(), 30)]
    first = [ids(found)[0] for found in asked if ids(found)]
    assert [one for one in first if not one.startswith("m-")] == []
    for found in asked:
        if not ids(found):
            assert found.understood is not None and (said := found.understood.said_by) is not None
            assert said.speakers == () and found.withheld is not None
    assert len(first) >= 27
