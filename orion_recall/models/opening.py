"""Opens the embedder and the reranker that the settings choose."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator
from importlib.util import find_spec

from orion_recall.errors import ModelError, SettingsError
from orion_recall.models.embedder import Embedder, OnnxEmbedder
from orion_recall.models.onnx_encoder import find_weights
from orion_recall.models.reranker import CrossEncoderReranker, Reranker
from orion_recall.models.tei import TeiEmbedder, TeiReranker, TeiServer
from orion_recall.models.transformers import NO_LIBRARY, TransformersEmbedder
from orion_recall.settings import Settings

log = logging.getLogger("orion_recall.models")


@contextlib.asynccontextmanager
async def open_embedder(settings: Settings) -> AsyncGenerator[Embedder]:
    """The embedder, loaded and warm; closed at the end of the block. A server may still be away.

    ModelError when it cannot be loaded, SettingsError when its address or name is missing.
    """
    _warn_of_what_nobody_reads(settings)
    embedder = _embedder(settings)
    try:
        await embedder.load()
        yield embedder
    finally:
        await embedder.close()


@contextlib.asynccontextmanager
async def open_reranker(settings: Settings) -> AsyncGenerator[Reranker | None]:
    """The reranker, loaded and warm, or None when none is configured; closed at the end of the block."""
    reranker = _reranker(settings)
    if reranker is None:
        yield None
        return
    try:
        await reranker.load()
        yield reranker
    finally:
        await reranker.close()


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


def _warn_of_what_nobody_reads(settings: Settings) -> None:
    """SettingsError for a model's name that is set but not used: it was most likely meant to be used."""
    chosen_by = {
        "ORION_MODEL": (settings.model, settings.embedder == "transformers", "ORION_EMBEDDER=transformers"),
        "ORION_TEI_URL": (settings.tei_url, settings.embedder == "tei", "ORION_EMBEDDER=tei"),
        "ORION_MODEL_PATH": (settings.model_path, settings.embedder == "onnx", "ORION_EMBEDDER=onnx"),
        "ORION_RERANKER_MODEL": (
            settings.reranker_model,
            settings.reranker == "transformers",
            "ORION_RERANKER=transformers",
        ),
        "ORION_RERANKER_URL": (settings.reranker_url, settings.reranker == "tei", "ORION_RERANKER=tei"),
    }
    for name, (value, is_read, reader) in chosen_by.items():
        if value is not None and not is_read:
            log.warning("%s is set and not used: only %s reads it", name, reader)


def _embedder(settings: Settings) -> OnnxEmbedder | TransformersEmbedder | TeiEmbedder:
    match settings.embedder:
        case "onnx":
            return OnnxEmbedder(
                path=settings.model_path,
                token_vectors=settings.token_vectors,
                precision=settings.embedding_precision,
            )
        case "transformers":
            return TransformersEmbedder(_needed(settings.model, "ORION_MODEL", "ORION_EMBEDDER=transformers"))
        case "tei":
            return TeiEmbedder(_server(_needed(settings.tei_url, "ORION_TEI_URL", "ORION_EMBEDDER=tei"), settings))


def _reranker(settings: Settings) -> CrossEncoderReranker | TeiReranker | None:
    match settings.reranker:
        case "none":
            return None
        case "transformers":
            name = _needed(settings.reranker_model, "ORION_RERANKER_MODEL", "ORION_RERANKER=transformers")
            return CrossEncoderReranker(name)
        case "tei":
            url = _needed(settings.reranker_url, "ORION_RERANKER_URL", "ORION_RERANKER=tei")
            return TeiReranker(_server(url, settings))


def _server(url: str, settings: Settings) -> TeiServer:
    key = settings.tei_api_key
    return TeiServer(url, key.get_secret_value() if key else None)


def _needed(value: str | None, name: str, chosen: str) -> str:
    if not value:
        raise SettingsError(f"{name} is not set, and {chosen} needs it")
    return value
