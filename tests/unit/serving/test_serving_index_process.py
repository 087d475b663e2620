"""The index in a process of its own."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from orion_recall.engines.lock import FolderLock, held_by
from orion_recall.errors import (
    SourceError,
    TransientSourceError,
)
from orion_recall.index.embedded.folders import begin, build_place, live_place, mark_complete
from orion_recall.index.embedded.index import EdgeIndex
from orion_recall.index.metadata import IndexMetadata
from orion_recall.models.sparse import SparseEncoder
from orion_recall.models.token_space import TokenVectors
from orion_recall.serving import backends
from orion_recall.serving.backends import has_own_process
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
from tests.samples.source_samples import ALL, OURS, TENANT, HashingEmbedder, TokenEmbedder, changes, key, memory

KEYS = [key(one.id) for one in OURS]


def made(folder: Path, sparse: SparseEncoder, **fields: Any) -> IndexProcess:
    settings = Settings.read(data_dir=folder, token_vectors=False, **fields)
    return IndexProcess(settings, HashingEmbedder(), sparse, program="tests.stand_ins.index_child")


@contextlib.asynccontextmanager
async def opened(one: IndexProcess) -> AsyncGenerator[IndexProcess]:
    try:
        await one.open()
        yield one
    finally:
        await one.close()


@pytest.fixture
async def index(folder: Path, sparse: SparseEncoder) -> AsyncIterator[IndexProcess]:
    """An index of all the memories, in a process of its own."""
    async with opened(made(folder, sparse)) as one:
        await one.apply(changes(*ALL))
        yield one


async def until(condition: Callable[[], bool], what: str) -> None:
    try:
        async with asyncio.timeout(60):
            while not condition():
                await asyncio.sleep(0.01)
    except TimeoutError:
        pytest.fail(f"not within a minute: {what}")


async def killed(index: IndexProcess) -> None:
    """Kills the process, and waits until its worker has heard of it."""
    former = index.pid
    assert former is not None
    os.kill(former, signal.SIGKILL)
    await until(lambda: index.pid != former, "the process is missed")


async def test_a_killed_process_is_started_again_and_nothing_is_read_until_all_is_there(index: IndexProcess):
    assert set(await index.fetch(KEYS)) == set(KEYS)
    position = index.position
    await killed(index)
    with pytest.raises(TransientSourceError):
        await index.fetch(KEYS)
    assert index.position == position, "as it was told last"
    with pytest.raises(TransientSourceError, match="started again"):
        await index.apply(changes(*ALL))
    await until(lambda: index.position < position, "it is open, and nothing had been saved")
    with pytest.raises(TransientSourceError, match="brought up to date"):
        await index.search_sparse(SparseEncoder().encode_query("crane"), Scope(tenant=TENANT), 10)
    await index.apply(changes(*ALL))  # as the outbox does
    assert index.position == position
    assert set(await index.fetch(KEYS)) == set(KEYS)


async def test_a_call_that_runs_when_the_process_dies_fails(index: IndexProcess):
    former = index.pid
    assert former is not None
    os.kill(former, signal.SIGSTOP)
    reading = asyncio.create_task(
        index.search_sparse(SparseEncoder().encode_query("crane"), Scope(tenant=TENANT), 9)
    )
    await asyncio.sleep(0)
    os.kill(former, signal.SIGKILL)
    with pytest.raises(TransientSourceError, match="process"):
        await reading


async def taken(folder: Path) -> FolderLock:
    locks: list[FolderLock] = []

    def took() -> bool:
        lock = FolderLock.try_acquire(folder)
        locks.extend([lock] if lock is not None else [])
        return bool(locks)

    await until(took, "the folder is free")
    return locks[0]


async def test_what_was_written_is_there_after_an_end_in_order(folder: Path, sparse: SparseEncoder):
    async with opened(made(folder, sparse)) as one:
        await one.apply(changes(*ALL))
        position = one.position
        assert held_by(folder / "index") == os.getpid(), "the worker is what a person would stop"
    assert held_by(folder / "index") is None
    async with opened(made(folder, sparse)) as one:
        assert (one.position, set(await one.fetch(KEYS))) == (position, set(KEYS))


async def test_a_full_disk_is_told_to_its_worker(folder: Path, sparse: SparseEncoder):
    one = made(folder, sparse, min_free_bytes=1 << 60)
    with pytest.raises(SourceError, match="are needed to open the index"):
        await one.open()
    assert one.pid is None


async def test_a_build_is_swapped_in(folder: Path, sparse: SparseEncoder):
    """As `memory reembed` leaves one: complete, by the same model, in a folder beside."""
    embedder, live = HashingEmbedder(), folder / "index"
    async with opened(made(folder, sparse)) as index:
        await index.apply(changes(*OURS))
        assert index.staged_rebuild() is None
        place = build_place(live, IndexMetadata.of(embedder, sparse))
        begin(place)
        build = EdgeIndex(place, embedder, sparse)
        await build.open()
        later = memory("later", "And then it rained.")
        await build.apply(changes(*OURS, later))
        await build.close()
        mark_complete(place)
        staged = index.staged_rebuild()
        assert staged is not None
        await staged.open()
        assert staged.position == len(OURS) + 1
        await index.swap_in(staged)
        assert (live_place(live), index.position) == (place, len(OURS) + 1)
        assert key("later") in await index.fetch([key("later")])
        assert index.staged_rebuild() is None


async def test_a_start_that_is_cancelled_leaves_no_process(folder: Path, sparse: SparseEncoder):
    starting = asyncio.create_task(made(folder, sparse).open())
    await until(lambda: held_by(folder / "index") is not None or starting.done(), "the folder is held")
    starting.cancel()
    await asyncio.gather(starting, return_exceptions=True)
    (await taken(folder / "index")).release()


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


@pytest.mark.parametrize(
    ("fields", "processors", "workers", "expected"),
    [
        ({}, 1, 1, False),
        ({}, 2, 1, True),
        ({}, 2, 2, False),
        ({}, 4, 2, True),
        ({"embedder": "transformers", "model": "m"}, 8, 1, False),
        ({"index_process": "yes"}, 1, 1, True),
        ({"index_process": "no"}, 8, 1, False),
        ({"index_process": "yes", "qdrant_url": "http://localhost:6333"}, 8, 1, False),
    ],
)
def test_it_takes_two_processors_for_each_worker_or_the_setting(
    monkeypatch: pytest.MonkeyPatch, fields: dict[str, Any], processors: int, workers: int, expected: bool
):
    monkeypatch.setattr(backends, "_processors", lambda: processors)
    assert has_own_process(Settings.read(**fields), workers) is expected
