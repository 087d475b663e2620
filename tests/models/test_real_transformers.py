from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import numpy as np
import pytest
from real_libraries import sentence_transformers, torch

from orion_recall.errors import ModelError
from orion_recall.models.embedder import Embedder, OnnxEmbedder
from orion_recall.models.transformers import TransformersEmbedder

TEXTS = [
    "Where did Ann go?",
    "",
    "The cat sat on the mat while it rained outside and nobody had thought of closing the windows upstairs.",
    "Ünïcode, 日本語 and 🎉",
    "word " * 400,
    "a\x00b and half \ud83d of a pair",
]


async def test_the_onnx_path_gives_the_vectors_of_the_library_itself(
    embedder: TransformersEmbedder, onnx: OnnxEmbedder
) -> None:
    np.testing.assert_allclose(await embedder.embed_documents(TEXTS), await onnx.embed_documents(TEXTS), atol=1e-4)
    for text in TEXTS:
        np.testing.assert_allclose(await embedder.embed_query(text), await onnx.embed_query(text), atol=1e-4)


async def test_the_embedder_says_which_model_it_is(embedder: TransformersEmbedder, onnx: OnnxEmbedder) -> None:
    described: Embedder = embedder
    assert (described.name, described.dimension) == ("model", 384)
    assert len(described.weights_sha256) == 64
    assert described.weights_sha256 != onnx.weights_sha256


async def test_a_query_is_a_unit_vector_that_no_reader_can_change(embedder: TransformersEmbedder) -> None:
    vector = await embedder.embed_query("Where did Ann go?")
    assert (vector.shape, vector.dtype) == ((384,), np.float32)
    assert float(np.linalg.norm(vector)) == pytest.approx(1.0, abs=1e-5)
    assert not vector.flags.writeable


async def test_queries_and_documents_beside_each_other_are_those_of_each_alone(
    embedder: TransformersEmbedder,
) -> None:
    alone = [await embedder.embed_query(f"harbour {number} " * (number % 5 + 1)) for number in range(20)]
    fresh = [f"harbour {number}  " * (number % 5 + 1) for number in range(20)]
    documents, *beside = await asyncio.gather(
        embedder.embed_documents([f"crane {number} " * 9 for number in range(100)]),
        *(embedder.embed_query(text) for text in fresh),
    )
    assert documents.shape == (100, 384)
    np.testing.assert_allclose(beside, alone, atol=1e-5)


async def test_no_documents_give_no_rows(embedder: TransformersEmbedder) -> None:
    assert (await embedder.embed_documents([])).shape == (0, 384)


async def test_a_model_of_1024_floats_uses_its_own_prompts(wide: Path) -> None:
    embedder = TransformersEmbedder(str(wide))
    await embedder.load()
    try:
        query, document = await embedder.embed_query("crane"), (await embedder.embed_documents(["crane"]))[0]
        asked, stored = sentence_transformers.SentenceTransformer(str(wide), device="cpu").encode(
            ["query: crane", "passage: crane"], prompt="", normalize_embeddings=True
        )
    finally:
        await embedder.close()
    assert (embedder.name, embedder.dimension) == ("saved", 1024)
    np.testing.assert_allclose(query, asked, atol=1e-5)
    np.testing.assert_allclose(document, stored, atol=1e-5)
    assert not np.allclose(query, document, atol=1e-3)


async def test_the_hash_is_of_the_weights_and_the_prompts_not_of_the_place(wide: Path, tmp_path: Path) -> None:
    shutil.copytree(wide, tmp_path / "saved")
    other = sentence_transformers.SentenceTransformer(str(wide), device="cpu")
    with torch.no_grad():
        next(iter(other.parameters()))[0, 0] += 1.0
    other.save(str(tmp_path / "weights"))
    unasked = sentence_transformers.SentenceTransformer(str(wide), prompts={"query": ""}, device="cpu")
    unasked.save(str(tmp_path / "prompts"))
    hashes: list[str] = []
    for folder in (wide, tmp_path / "saved", tmp_path / "weights", tmp_path / "prompts"):
        embedder = TransformersEmbedder(str(folder))
        await embedder.load()
        hashes.append(embedder.weights_sha256)
        await embedder.close()
    assert hashes[0] == hashes[1]
    assert len(set(hashes)) == 3


async def test_a_model_that_is_not_there_is_a_model_error(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    embedder = TransformersEmbedder(str(tmp_path / "empty"))
    with pytest.raises(ModelError, match=r"empty could not be loaded"):
        await embedder.load()
    with pytest.raises(ModelError, match="not loaded"):
        await embedder.embed_query("crane")
    await embedder.close()
