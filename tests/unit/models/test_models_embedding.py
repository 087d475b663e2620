"""Embedding: vectors, batches, and the choice of a model."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import numpy as np
import pytest
import pytest_asyncio

from orion_recall.errors import ModelError, SettingsError
from orion_recall.foreground import FOREGROUND
from orion_recall.models import embedder as embedder_module
from orion_recall.models.batching import QueryBatcher, Vector, separate
from orion_recall.models.embedder import OnnxEmbedder
from orion_recall.models.onnx_encoder import OnnxEncoder, Weights
from orion_recall.models.opening import open_embedder, open_reranker
from orion_recall.models.tei import TeiEmbedder, TeiReranker
from orion_recall.settings import Settings

TEXTS = [
    "Where did Ann go?",
    "",
    "The cat sat on the mat while it rained outside and nobody had thought of closing the windows upstairs.",
    "Berlin",
    "Ünïcode, 日本語 and 🎉",
    "word " * 400,
    "A kitten was sitting on the rug.",
]


async def test_vectors_are_those_of_the_models_card(embedder: OnnxEmbedder, fp32: OnnxEmbedder) -> None:
    # Printed in the documentation of sentence-transformers for the same model.
    vector = await fp32.embed_query("This is an example sentence")
    assert vector[:4].tolist() == pytest.approx([0.0676569, 0.0634959, 0.0487131, 0.0793049], abs=1e-5)
    assert float(vector @ await embedder.embed_query("This is an example sentence")) > 0.99


async def test_where_int8_cannot_be_used_fp32_is_and_says_why(
    weights: Weights, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(weights: Weights) -> None:
        raise ModelError("this processor adds up wrongly")

    monkeypatch.setattr(embedder_module, "Int8Encoder", broken)
    embedder = OnnxEmbedder()
    await embedder.load()
    assert embedder.weights_sha256 == weights.sha256
    assert "three times the processor time: this processor adds up wrongly" in str(embedder.form_note)
    assert "int8 form of all-MiniLM-L6-v2 cannot be used" in caplog.text
    await embedder.close()


async def test_a_text_embedded_alone_or_in_a_batch_gives_the_same_vector(weights: Weights) -> None:
    encoder = OnnxEncoder(weights)
    alone = np.concatenate([encoder.encode([text]) for text in TEXTS])
    np.testing.assert_allclose(encoder.encode(TEXTS), alone, atol=1e-5)
    np.testing.assert_allclose(encoder.encode([TEXTS[0], TEXTS[6], TEXTS[3]]), alone[[0, 6, 3]], atol=1e-5)


async def test_a_megabyte_of_text_costs_what_its_beginning_costs(embedder: OnnxEmbedder) -> None:
    beginning = "a sentence of five words. " * 80
    await embedder.embed_query(beginning)
    hits = embedder.queries.cache_hits
    await embedder.embed_query(beginning + "x" * 1_000_000)
    assert embedder.queries.cache_hits == hits + 1


async def test_queries_are_answered_while_a_long_document_job_runs(embedder: OnnxEmbedder) -> None:
    job = asyncio.create_task(embedder.embed_documents([f"document {number} " * 8 for number in range(256)]))
    for number in range(3):
        await embedder.embed_query(f"asked beside a document job {number}")
    assert not job.done()
    job.cancel()
    await asyncio.wait([job])
    assert job.cancelled()


@pytest.mark.parametrize(
    ("broken", "content"), [("model.onnx", "no graph"), ("tokenizer.json", "{}"), ("tokenizer.json", "no json")]
)
async def test_files_that_are_no_model_are_a_model_error(
    broken: str, content: str, tmp_path: Path, weights: Weights
) -> None:
    for path in [weights.tokenizer_path, *weights.model_path.parent.iterdir()]:
        if path.name != broken:
            (tmp_path / path.name).symlink_to(path)
    (tmp_path / broken).write_text(content)
    embedder = OnnxEmbedder(path=tmp_path)
    with pytest.raises(ModelError, match="could not be loaded"):
        await embedder.load()
    await embedder.close()


class GatedEncoder:
    """Gives each text's length as its vector; stops before every batch until the gate is open."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []
        self.gate = threading.Event()
        self.failure: Exception | None = None

    def __call__(self, texts: list[str]) -> list[Vector]:
        self.batches.append(texts)
        assert self.gate.wait(60)
        if self.failure:
            failure, self.failure = self.failure, None
            raise failure
        return separate(np.array([[len(text)] for text in texts], dtype=np.float32))


async def until(predicate: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 60
    while not predicate():
        assert time.monotonic() < deadline, f"never happened: {what}"
        await asyncio.sleep(0.001)


@pytest.fixture
def encoder() -> GatedEncoder:
    return GatedEncoder()


@pytest_asyncio.fixture(loop_scope="session")
async def batcher(encoder: GatedEncoder) -> AsyncIterator[QueryBatcher[Vector]]:
    batcher = QueryBatcher(encoder, max_batch=3, cache_size=4)
    yield batcher
    encoder.gate.set()
    await batcher.close()


async def start(
    batcher: QueryBatcher[Vector], encoder: GatedEncoder, texts: list[str]
) -> list[asyncio.Task[Vector]]:
    """Queries of which the first is being embedded when the others arrive."""
    tasks = [asyncio.create_task(batcher.embed(texts[0]))]
    await until(lambda: bool(encoder.batches), "the first batch starts")
    tasks += [asyncio.create_task(batcher.embed(text)) for text in texts[1:]]
    await until(lambda: batcher.cache_misses + batcher.cache_hits == len(texts), "all queries have been taken in")
    return tasks


async def test_the_same_text_waiting_twice_is_embedded_once(
    batcher: QueryBatcher[Vector], encoder: GatedEncoder
) -> None:
    tasks = await start(batcher, encoder, ["same", "same", "other", "other"])
    encoder.gate.set()
    await asyncio.gather(*tasks)
    assert encoder.batches == [["same"], ["other"]]
    assert (batcher.cache_hits, batcher.cache_misses) == (2, 2)


async def test_a_text_seen_before_comes_from_the_cache_and_cannot_be_changed_by_its_reader(
    batcher: QueryBatcher[Vector], encoder: GatedEncoder
) -> None:
    encoder.gate.set()
    await batcher.embed("text")
    again = await batcher.embed("text")
    assert encoder.batches == [["text"]]
    assert (batcher.cache_hits, batcher.cache_misses) == (1, 1)
    with pytest.raises(ValueError, match="read-only"):
        again += 1


async def test_an_encoder_that_gives_too_few_vectors_fails_that_batch_alone() -> None:
    given = [[], [np.zeros(1, dtype=np.float32)]]
    batcher = QueryBatcher(lambda _: given.pop(0))
    with pytest.raises(ModelError, match="1 texts have 0 vectors"):
        await batcher.embed("text")
    assert (await batcher.embed("text")).tolist() == [0.0]
    await batcher.close()


async def test_a_cancelled_caller_does_not_disturb_the_others(
    batcher: QueryBatcher[Vector], encoder: GatedEncoder
) -> None:
    running, shared, kept, leaving = await start(batcher, encoder, ["running", "shared", "shared", "leaving"])
    for task in (running, shared, leaving):
        task.cancel()
    await asyncio.wait([running, shared, leaving])
    late = asyncio.create_task(batcher.embed("late"))
    await until(lambda: batcher.cache_misses == 4, "the late query is taken in")
    encoder.gate.set()
    assert (await kept).tolist() == [6]
    assert (await late).tolist() == [4]
    assert running.cancelled() and shared.cancelled() and leaving.cancelled()
    assert encoder.batches == [["running"], ["shared", "late"]], "nobody waits for 'leaving' any more"


async def test_a_batch_that_fails_is_the_error_of_its_own_queries_and_closing_that_of_those_that_wait(
    batcher: QueryBatcher[Vector], encoder: GatedEncoder
) -> None:
    encoder.failure = ValueError("no")
    failing, answered = await start(batcher, encoder, ["failing", "well"])
    encoder.gate.set()
    with pytest.raises(ModelError, match="the query could not be embedded: no"):
        await failing
    assert (await answered).tolist() == [4]
    encoder.gate.clear()
    running = asyncio.create_task(batcher.embed("running"))
    await until(lambda: ["running"] in encoder.batches, "one runs")
    waiting = asyncio.create_task(batcher.embed("waiting"))
    await until(lambda: batcher.cache_misses == 4, "one waits")
    closing = asyncio.create_task(batcher.close())
    with pytest.raises(ModelError, match="was closed"):
        await waiting
    encoder.gate.set()
    await closing
    assert (await running).tolist() == [7]


async def test_a_query_has_the_right_of_way_until_it_has_its_vector(
    batcher: QueryBatcher[Vector], encoder: GatedEncoder
) -> None:
    (asked,) = await start(batcher, encoder, ["a question"])
    began = time.perf_counter()
    await FOREGROUND.pause(0.05)
    assert time.perf_counter() - began >= 0.04, "documents wait, for as long as they may"
    waiting = asyncio.create_task(FOREGROUND.pause(60))
    encoder.gate.set()
    await asked
    async with asyncio.timeout(30):
        await waiting


NOBODY = "http://127.0.0.1:9"


async def test_a_server_is_chosen_by_its_address_and_may_be_away() -> None:
    settings = Settings.read(embedder="tei", tei_url=NOBODY, reranker="tei", reranker_url=NOBODY)
    async with open_embedder(settings) as embedder, open_reranker(settings) as reranker:
        assert isinstance(embedder, TeiEmbedder)
        with pytest.raises(ModelError, match="cannot be reached"):
            _ = embedder.name
        assert isinstance(reranker, TeiReranker)
        with pytest.raises(ModelError, match="cannot be reached"):
            await reranker.scores("crane", ["boat"])


@pytest.mark.parametrize(
    ("chosen", "missing"), [("transformers", "ORION_MODEL is not set"), ("tei", "ORION_TEI_URL is not set")]
)
async def test_an_embedder_without_its_name_or_address_is_refused(chosen: str, missing: str) -> None:
    with pytest.raises(SettingsError, match=missing):
        async with open_embedder(Settings.read(embedder=chosen)):
            pass
