from __future__ import annotations

import asyncio
import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from orion_recall.errors import ModelError
from orion_recall.foreground import FOREGROUND
from orion_recall.models.embedder import Embedder, OnnxEmbedder, lower_thread_priority
from orion_recall.models.onnx_encoder import OnnxEncoder
from orion_recall.models.weights import Weights

TEXTS = [
    "Where did Ann go?",
    "",
    "The cat sat on the mat while it rained outside and nobody had thought of closing the windows upstairs.",
    "Berlin",
    "Ünïcode, 日本語 and 🎉",
    "word " * 400,
    "A kitten was sitting on the rug.",
]


async def test_a_query_gives_a_unit_vector_that_no_reader_can_change(embedder: OnnxEmbedder) -> None:
    vector = await embedder.embed_query("Where did Ann go?")

    assert (vector.shape, vector.dtype) == ((384,), np.float32)
    assert float(np.linalg.norm(vector)) == pytest.approx(1.0, abs=1e-6)
    assert not vector.flags.writeable


async def test_the_embedder_says_which_model_it_is(embedder: OnnxEmbedder, weights: Weights) -> None:
    described: Embedder = embedder

    assert (described.name, described.dimension) == ("all-MiniLM-L6-v2", 384)
    assert described.weights_sha256 == weights.sha256


async def test_vectors_are_those_of_the_models_card(embedder: OnnxEmbedder) -> None:
    # Printed in the documentation of sentence-transformers for the same model.
    vector = await embedder.embed_query("This is an example sentence")

    assert vector[:4].tolist() == pytest.approx([0.0676569, 0.0634959, 0.0487131, 0.0793049], abs=1e-5)


async def test_a_text_embedded_alone_or_in_a_batch_gives_the_same_vector(weights: Weights) -> None:
    encoder = OnnxEncoder(weights)
    alone = np.concatenate([encoder.encode([text]) for text in TEXTS])

    np.testing.assert_allclose(encoder.encode(TEXTS), alone, atol=1e-5)
    np.testing.assert_allclose(encoder.encode([TEXTS[0], TEXTS[6], TEXTS[3]]), alone[[0, 6, 3]], atol=1e-5)


async def test_documents_keep_their_order_and_agree_with_queries(embedder: OnnxEmbedder) -> None:
    documents = await embedder.embed_documents([*TEXTS, *TEXTS])
    queries = await asyncio.gather(*(embedder.embed_query(text) for text in TEXTS))

    assert documents.shape == (2 * len(TEXTS), 384)
    np.testing.assert_allclose(documents, [*queries, *queries], atol=1e-5)


async def test_no_documents_give_no_rows(embedder: OnnxEmbedder) -> None:
    assert (await embedder.embed_documents([])).shape == (0, 384)


async def test_texts_of_one_meaning_are_nearer_than_others(embedder: OnnxEmbedder) -> None:
    cat, kitten, city = await embedder.embed_documents(
        ["The cat sat on the mat.", "A kitten was sitting on the rug.", "Trains to Berlin leave at noon."]
    )

    assert cat @ kitten > 0.5 > 0.2 > cat @ city


async def test_texts_are_read_to_256_tokens_not_to_the_128_of_the_shipped_file(embedder: OnnxEmbedder) -> None:
    start = "word " * 200
    ends = [start + "about whales", start + "about trains", "word " * 300 + "whales", "word " * 300 + "trains"]
    whales, trains, cut_whales, cut_trains = await embedder.embed_documents(ends)

    assert whales @ trains < 0.999
    assert cut_whales @ cut_trains == pytest.approx(1.0, abs=1e-5)


@pytest.mark.parametrize("text", ["a\x00b", "half \ud83d of a pair", "\udfff", " \n\t", "[PAD] [CLS] [MASK]"])
async def test_odd_characters_do_not_break_an_embedding(embedder: OnnxEmbedder, text: str) -> None:
    query, document = await embedder.embed_query(text), (await embedder.embed_documents([text]))[0]

    assert float(np.linalg.norm(query)) == pytest.approx(1.0, abs=1e-5)
    np.testing.assert_allclose(query, document, atol=1e-5)


async def test_a_megabyte_of_text_costs_what_its_beginning_costs(embedder: OnnxEmbedder) -> None:
    beginning = "a sentence of five words. " * 80
    await embedder.embed_query(beginning)
    hits = embedder.cache_hits

    await embedder.embed_query(beginning + "x" * 1_000_000)

    assert embedder.cache_hits == hits + 1


async def test_equal_queries_are_embedded_once(embedder: OnnxEmbedder) -> None:
    hits, misses = embedder.cache_hits, embedder.cache_misses

    vectors = await asyncio.gather(*(embedder.embed_query("asked five times at once") for _ in range(5)))

    assert (embedder.cache_hits - hits, embedder.cache_misses - misses) == (4, 1)
    assert all(np.array_equal(vector, vectors[0]) for vector in vectors)


async def test_queries_are_answered_while_a_long_document_job_runs(embedder: OnnxEmbedder) -> None:
    job = asyncio.create_task(embedder.embed_documents([f"document {number} " * 8 for number in range(256)]))

    for number in range(3):
        await embedder.embed_query(f"asked beside a document job {number}")

    assert not job.done()
    job.cancel()
    await asyncio.wait([job])
    assert job.cancelled()


async def test_loading_again_does_nothing(embedder: OnnxEmbedder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedder, "_load", None)  # which would be called

    await embedder.load()


async def test_an_embedder_that_is_not_loaded_says_so() -> None:
    embedder = OnnxEmbedder()

    with pytest.raises(ModelError, match="not loaded"):
        _ = embedder.dimension
    with pytest.raises(ModelError, match="not loaded"):
        await embedder.embed_query("text")
    with pytest.raises(ModelError, match="not loaded"):
        await embedder.embed_documents(["text"])
    await embedder.close()


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
    embedder = OnnxEmbedder("mine", path=tmp_path)

    with pytest.raises(ModelError, match="mine could not be loaded"):
        await embedder.load()
    await embedder.close()


async def test_documents_that_a_recall_waits_for_do_not_yield_to_it(
    weights: Weights, monkeypatch: pytest.MonkeyPatch
) -> None:
    yielded: list[bool] = []
    monkeypatch.setattr(FOREGROUND, "yield_to_foreground", lambda: yielded.append(True))
    embedder = OnnxEmbedder("mine", path=weights.model_path.parent.parent)
    await embedder.load()
    await embedder.embed_documents(["somebody may need it later"])
    assert yielded == [True]
    with FOREGROUND.active():
        await asyncio.create_task(embedder.embed_documents(["a recall needs it now"]))
        await embedder.documents_with_tokens(["this one, too"])
    assert yielded == [True]
    await embedder.close()


@pytest.mark.skipif(sys.platform != "linux", reason="threads have no priority of their own")
def test_the_thread_of_documents_has_a_low_priority_and_no_other() -> None:
    def priority() -> int:
        return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())

    before = priority()
    with ThreadPoolExecutor(1, initializer=lower_thread_priority) as pool:
        assert pool.submit(priority).result() == min(before + 10, 19)
    assert priority() == before
