"""Opens the extractor that the settings name."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import AsyncGenerator

from orion_recall.errors import SettingsError
from orion_recall.memory.extraction.light import Extractor, LightExtractor
from orion_recall.memory.extraction.llm import LlmExtractor
from orion_recall.memory.extraction.spacy import SpacyExtractor, load_pipeline
from orion_recall.models.chat import ChatServer
from orion_recall.settings import Settings

log = logging.getLogger("orion_recall.memory")


@contextlib.asynccontextmanager
async def open_extractors(settings: Settings) -> AsyncGenerator[tuple[Extractor, ...]]:
    """Light extraction, and the one that is chosen, ready; closed at the end of the block."""
    _warn_of_what_nobody_reads(settings)
    async with contextlib.AsyncExitStack() as stack:
        chosen: list[Extractor] = [LightExtractor()]
        if settings.extractor == "spacy":
            spacy = SpacyExtractor(await load_pipeline(settings.spacy_model))
            stack.push_async_callback(spacy.close)
            chosen.append(spacy)
        elif settings.extractor == "llm":
            llm = LlmExtractor(_server(settings), at_once=settings.llm_concurrency)
            stack.push_async_callback(llm.close)
            chosen.append(llm)
        yield tuple(chosen)


def _server(settings: Settings) -> ChatServer:
    if not settings.llm_url or not settings.llm_model:
        missing = "ORION_LLM_MODEL" if settings.llm_url else "ORION_LLM_URL"
        raise SettingsError(f"{missing} is not set, and ORION_EXTRACTOR=llm needs it")
    key = settings.llm_api_key
    return ChatServer(
        settings.llm_url,
        settings.llm_model,
        key.get_secret_value() if key else None,
        timeout_s=settings.llm_timeout_s,
        connections=settings.llm_concurrency,
    )


def _warn_of_what_nobody_reads(settings: Settings) -> None:
    if settings.extractor != "llm":
        for name, value in (("ORION_LLM_URL", settings.llm_url), ("ORION_LLM_MODEL", settings.llm_model)):
            if value is not None:
                log.warning("%s is set and not used: only ORION_EXTRACTOR=llm reads it", name)
