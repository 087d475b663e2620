from __future__ import annotations

import asyncio
from pathlib import Path

import numpy as np
import pytest

from orion_recall.errors import ModelError
from orion_recall.foreground import FOREGROUND
from orion_recall.models import embedder as embedder_module
from orion_recall.models.embedder import (
    OnnxEmbedder,
    Precision,
    follow_index,
)
from orion_recall.models.int8 import INT8_NAME, INT8_SHA256
from orion_recall.models.onnx_encoder import OnnxEncoder, Weights

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


async def test_vectors_are_those_of_the_models_card(embedder: OnnxEmbedder, fp32: OnnxEmbedder) -> None:
    # Printed in the documentation of sentence-transformers for the same model.
    vector = await fp32.embed_query("This is an example sentence")

    assert vector[:4].tolist() == pytest.approx([0.0676569, 0.0634959, 0.0487131, 0.0793049], abs=1e-5)
    assert float(vector @ await embedder.embed_query("This is an example sentence")) > 0.99


async def test_the_form_is_that_of_the_index(weights: Weights) -> None:
    embedder = OnnxEmbedder()
    await embedder.load()
    int8 = await embedder.embed_query("a crane")
    for unknown in (INT8_SHA256, "0" * 64):
        follow_index(embedder, unknown)
        assert embedder.name == INT8_NAME
    follow_index(embedder, weights.sha256)
    assert (embedder.name, embedder.weights_sha256) == ("all-MiniLM-L6-v2", weights.sha256)
    fp32 = await embedder.embed_query("a crane")
    assert 0.98 < float(int8 @ fp32) < 0.9999, "nothing is answered from the cache of the other form"
    follow_index(embedder, INT8_SHA256)
    assert np.array_equal(await embedder.embed_query("a crane"), int8)
    await embedder.close()


@pytest.mark.parametrize("precision", ["auto", "int8"])
async def test_where_int8_cannot_be_used_fp32_is_and_says_why(
    precision: Precision, weights: Weights, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    tries: list[Weights] = []

    def broken(weights: Weights) -> None:
        tries.append(weights)
        raise ModelError("this processor adds up wrongly")

    monkeypatch.setattr(embedder_module, "Int8Encoder", broken)
    embedder = OnnxEmbedder(precision=precision)
    await embedder.load()
    follow_index(embedder, INT8_SHA256)
    assert embedder.weights_sha256 == weights.sha256
    assert "three times the processor time: this processor adds up wrongly" in str(embedder.form_note)
    assert "int8 form of all-MiniLM-L6-v2 cannot be used" in caplog.text
    assert len(tries) == 1, "it is not tried again for every index"
    await embedder.close()


async def test_a_text_embedded_alone_or_in_a_batch_gives_the_same_vector(weights: Weights) -> None:
    encoder = OnnxEncoder(weights)
    alone = np.concatenate([encoder.encode([text]) for text in TEXTS])

    np.testing.assert_allclose(encoder.encode(TEXTS), alone, atol=1e-5)
    np.testing.assert_allclose(encoder.encode([TEXTS[0], TEXTS[6], TEXTS[3]]), alone[[0, 6, 3]], atol=1e-5)


async def test_texts_of_one_meaning_are_nearer_than_others(embedder: OnnxEmbedder) -> None:
    cat, kitten, city = await embedder.embed_documents(
        ["The cat sat on the mat.", "A kitten was sitting on the rug.", "Trains to Berlin leave at noon."]
    )

    assert cat @ kitten > 0.5 > 0.2 > cat @ city


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
