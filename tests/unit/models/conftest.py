"""The real models, loaded once for all tests of this folder."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from orion_recall.models.embedder import OnnxEmbedder
from orion_recall.models.onnx_encoder import Weights, find_weights
from orion_recall.models.sparse import SparseEncoder
from orion_recall.models.tokenizer import TokenCounter


@pytest.fixture(scope="session")
def weights() -> Weights:
    return find_weights()


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def embedder() -> AsyncIterator[OnnxEmbedder]:
    embedder = OnnxEmbedder()
    await embedder.load()
    yield embedder
    await embedder.close()


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def fp32() -> AsyncIterator[OnnxEmbedder]:
    embedder = OnnxEmbedder(precision="fp32")
    await embedder.load()
    yield embedder
    await embedder.close()


@pytest.fixture(scope="session")
def counter() -> TokenCounter:
    return TokenCounter()


@pytest.fixture(scope="session")
def sparse() -> SparseEncoder:
    return SparseEncoder()
