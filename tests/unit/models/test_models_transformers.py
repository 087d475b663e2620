"""What does not need the library; what does is in tests/models."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from orion_recall.errors import ModelError
from orion_recall.models.transformers import TransformersEmbedder, model_id


async def test_without_the_library_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    embedder = TransformersEmbedder("BAAI/bge-m3")
    with pytest.raises(ModelError, match=r'pip install "orion-recall\[transformers\]"'):
        await embedder.load()
    await embedder.close()


async def test_what_is_not_loaded_says_so() -> None:
    embedder = TransformersEmbedder("BAAI/bge-m3")
    assert embedder.name == "BAAI/bge-m3"
    with pytest.raises(ModelError, match="not loaded"):
        _ = embedder.dimension
    with pytest.raises(ModelError, match="not loaded"):
        await embedder.embed_documents(["crane"])
    await embedder.close()


def test_a_model_is_known_by_its_name_and_a_folder_by_its_last_part(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    assert model_id(str(tmp_path / "mine")) == "mine"
    assert model_id("sentence-transformers/all-MiniLM-L6-v2") == "all-MiniLM-L6-v2"
    assert model_id("BAAI/bge-m3") == "BAAI/bge-m3"
