"""Opens the embedder and the reranker that the settings choose."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from importlib.util import find_spec
from typing import TypeVar

from orion_recall.errors import ModelError, SettingsError
from orion_recall.models.embedder import Embedder, OnnxEmbedder, Reranker
from orion_recall.models.onnx_encoder import find_weights
from orion_recall.models.tei import TeiEmbedder, TeiReranker, TeiServer
from orion_recall.models.transformers import NO_LIBRARY, CrossEncoderReranker, TransformersEmbedder
from orion_recall.settings import Settings

log = logging.getLogger("orion_recall.models")

Model = TypeVar("Model", OnnxEmbedder | TransformersEmbedder | TeiEmbedder, CrossEncoderReranker | TeiReranker)


def open_embedder(settings: Settings) -> AbstractAsyncContextManager[Embedder]:
    """The embedder, loaded and warm; closed at the end of the block. A server may still be away.

    ModelError when it cannot be loaded, SettingsError when its address or name is missing.
    """
    for name, (choice, value) in _READERS.items():
        if getattr(settings, name) is not None and getattr(settings, choice) != value:
            log.warning("ORION_%s is set and not used: only %s reads it", name.upper(), _reader(name))
    return _opened(_embedder(settings))


def open_reranker(settings: Settings) -> AbstractAsyncContextManager[Reranker | None]:
    """The reranker, loaded and warm, or None when none is configured; closed at the end of the block."""
    return nullcontext() if (reranker := _reranker(settings)) is None else _opened(reranker)


@asynccontextmanager
async def _opened(model: Model) -> AsyncGenerator[Model]:
    try:
        await model.load()
        yield model
    finally:
        await model.close()


async def check_models(settings: Settings) -> None:
    """SettingsError for models that cannot be loaded, as far as can be checked without loading them.

    ModelError when the default weights are not on this machine.
    """
    for made in (_embedder(settings), _reranker(settings)):
        if made is not None:
            await made.close()
    if "transformers" in (settings.embedder, settings.reranker) and find_spec("sentence_transformers") is None:
        raise SettingsError(NO_LIBRARY)
    if settings.embedder == "onnx":
        try:
            await asyncio.to_thread(find_weights, path=settings.model_path)
        except ModelError as error:
            if settings.model_path is None:
                raise
            raise SettingsError(f"ORION_MODEL_PATH: {error}") from error


# What reads each of these settings.
_READERS = {
    "model": ("embedder", "transformers"),
    "tei_url": ("embedder", "tei"),
    "model_path": ("embedder", "onnx"),
    "reranker_model": ("reranker", "transformers"),
    "reranker_url": ("reranker", "tei"),
}


def _reader(name: str) -> str:
    choice, value = _READERS[name]
    return f"ORION_{choice.upper()}={value}"


def _embedder(settings: Settings) -> OnnxEmbedder | TransformersEmbedder | TeiEmbedder:
    match settings.embedder:
        case "onnx":
            path, precision = settings.model_path, settings.embedding_precision
            return OnnxEmbedder(path=path, token_vectors=settings.token_vectors, precision=precision)
        case "transformers":
            return TransformersEmbedder(_needed(settings, "model"))
        case "tei":
            return TeiEmbedder(_server(settings, "tei_url"))


def _reranker(settings: Settings) -> CrossEncoderReranker | TeiReranker | None:
    match settings.reranker:
        case "none":
            return None
        case "transformers":
            return CrossEncoderReranker(_needed(settings, "reranker_model"))
        case "tei":
            return TeiReranker(_server(settings, "reranker_url"))


def _server(settings: Settings, name: str) -> TeiServer:
    key = settings.tei_api_key
    return TeiServer(_needed(settings, name), key.get_secret_value() if key else None)


def _needed(settings: Settings, name: str) -> str:
    value: str | None = getattr(settings, name)
    if not value:
        raise SettingsError(f"ORION_{name.upper()} is not set, and {_reader(name)} needs it")
    return value
