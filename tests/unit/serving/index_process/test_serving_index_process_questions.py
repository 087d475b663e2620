"""Questions that the process of an index embeds."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import numpy as np
import pytest

from orion_recall.errors import TransientSourceError
from orion_recall.models.sparse import SparseEncoder
from orion_recall.models.token_space import TokenVectors
from orion_recall.serving.index_process.index import IndexProcess
from orion_recall.serving.index_process.messages import (
    DenseSearch,
    EmbeddedQuestion,
    Packed,
    QuestionEmbedder,
    SearchedQuestion,
)
from orion_recall.settings import Settings
from orion_recall.values import Scope
from tests.samples.source_samples import ALL, TENANT, TokenEmbedder, changes

PROGRAM = "tests.stand_ins.index_child"


class Process:
    """Answers what it is told to answer, when it is told to."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.searched: list[DenseSearch] = []
        self.found: Packed | None = Packed.of([(7, 0.5)])
        self.answers: dict[str, asyncio.Future[SearchedQuestion]] = {}

    def ask(self, text: str, search: DenseSearch | None) -> asyncio.Future[SearchedQuestion]:
        self.asked.append(text)
        if search is not None:
            self.searched.append(search)
        self.answers[text] = asyncio.get_running_loop().create_future()
        return self.answers[text]

    def answer(self, text: str) -> None:
        vector = np.array([float(len(text))], dtype=np.float32)
        found = self.found if self.searched else None
        self.answers[text].set_result(SearchedQuestion(EmbeddedQuestion(vector, vector[:, None]), found))


@pytest.fixture
def process() -> Process:
    return Process()


@pytest.fixture
def questions(process: Process) -> QuestionEmbedder:
    return QuestionEmbedder(TokenEmbedder(), process.ask)


async def turns() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_a_text_is_sent_once_for_its_vector_and_its_tokens(process: Process, questions: QuestionEmbedder):
    waiting = [asyncio.create_task(questions.embed_query("oak")) for _ in range(2)]
    tokens = asyncio.create_task(questions.query_tokens("oak"))
    await turns()
    process.answer("oak")
    assert [float(vector[0]) for vector in await asyncio.gather(*waiting)] == [3.0, 3.0]
    assert (await tokens).tolist() == [[3.0]]
    assert (process.asked, questions.cache_misses, questions.cache_hits) == (["oak"], 1, 2)
    questions.forget()
    again = asyncio.create_task(questions.embed_query("oak"))
    await turns()
    process.answer("oak")
    await again
    assert process.asked == ["oak", "oak"]


SEARCH = DenseSearch(Scope(tenant="here"), 10, 0.2)


async def test_a_text_is_embedded_and_searched_in_one_call(process: Process, questions: QuestionEmbedder):
    searching = asyncio.create_task(questions.searched("oak", SEARCH))
    await turns()
    beside = asyncio.create_task(questions.embed_query("oak"))
    other = asyncio.create_task(questions.searched("oak", SEARCH._replace(limit=3)))
    await turns()
    process.answer("oak")
    assert await searching == [(7, 0.5)]
    assert float((await beside)[0]) == 3.0, "its vector is there for whoever needs it"
    assert await other is None, "another search of a text that is asked for already is made by its vector"
    assert await questions.searched("oak", SEARCH) is None, "what was found before may have changed"
    assert float((await questions.embed_query("oak"))[0]) == 3.0
    assert (process.asked, process.searched) == (["oak"], [SEARCH])


async def test_the_process_embeds_as_the_worker_does(folder: Path, sparse: SparseEncoder):
    own = TokenEmbedder()
    index = IndexProcess(Settings.read(data_dir=folder), own, sparse, program=PROGRAM)
    await index.open()
    try:
        questions = index.questions
        assert isinstance(questions, QuestionEmbedder)
        assert isinstance(questions, TokenVectors)
        assert (questions.name, questions.dimension) == (own.name, own.dimension)
        assert (questions.token_space, questions.token_width) == (own.token_space, own.token_width)
        text = "the oak by the mill"
        assert np.array_equal(await questions.embed_query(text), await own.embed_query(text))
        assert np.array_equal(await questions.query_tokens(text), await own.query_tokens(text))
        former = index.pid
        assert former is not None
        os.kill(former, signal.SIGKILL)
        async with asyncio.timeout(60):
            while index.pid == former:
                await asyncio.sleep(0.01)
            while True:  # what was kept is forgotten, and the next process is asked
                try:
                    await questions.embed_query(text)
                    break
                except TransientSourceError:
                    await asyncio.sleep(0.01)
        assert questions.cache_misses >= 2
    finally:
        await index.close()


async def test_a_question_that_is_searched_as_it_is_embedded_finds_the_same(folder: Path, sparse: SparseEncoder):
    index = IndexProcess(Settings.read(data_dir=folder), TokenEmbedder(), sparse, program=PROGRAM)
    await index.open()
    try:
        await index.apply(changes(*ALL))
        text, scope = "the oak by the mill", Scope(tenant=TENANT)
        found = await index.search_text(text, scope, 5, -1.0)
        vector = (await index.questions.embed_query(text)).tolist()
        assert found == await index.search_dense(vector, scope, 5, -1.0)
        assert found
        assert await index.search_text(text, scope, 5, -1.0) is None
    finally:
        await index.close()
