"""Extraction by a language model behind any OpenAI-compatible address."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from orion_recall.errors import ModelError
from orion_recall.memory.extraction.extractor import Passage, light
from orion_recall.memory.extraction.light import Extraction, choose_entities, spelt, usable_names
from orion_recall.memory.extraction.llm_lines import MAX_STATEMENTS, question, read_lines
from orion_recall.models.chat import ChatServer

_MAX_TOKENS = 800
# An answer that cannot be used is asked for once more.
_ASKS = 2


class LlmExtractor:
    """Asks a model about each memory alone. Names and times are light extraction's, with those that statements add.

    What cannot be had from the model is light extraction's too, and the note says why.
    """

    name = "llm"
    batch = 1

    def __init__(self, server: ChatServer, *, at_once: int) -> None:
        self.at_once = at_once
        self._server = server

    @property
    def longest_s(self) -> float:
        """What one memory takes at most."""
        return _ASKS * self._server.longest_s + 5.0

    async def extract(self, passages: Sequence[Passage]) -> list[Extraction]:
        """What each passage says, in the order of the passages."""
        return [await self._one(passage) for passage in passages]

    async def close(self) -> None:
        """Closes the connections."""
        await self._server.close()

    async def _one(self, passage: Passage) -> Extraction:
        why = ""
        try:
            for _ in range(_ASKS):
                answer = await self._server.complete(question(passage), max_tokens=_MAX_TOKENS)
                lines = read_lines(answer.text, passage, is_cut=answer.is_cut)
                if lines.statements or lines.is_none:
                    found = await asyncio.to_thread(light, passage)
                    voice = next(iter(usable_names([passage.speaker or ""])), None)
                    ends = [end for edge in lines.statements for end in (edge.subject, edge.object)]
                    entities = choose_entities([*ends, *found.entities], voice)
                    statements = spelt(lines.statements, entities, MAX_STATEMENTS)
                    return replace(found, entities=entities, statements=statements, by=self.name)
                why = f"none of {lines.ignored} lines is SOURCE - RELATION - DESTINATION with names of the text"
        except ModelError as error:
            why = str(error)
        return await asyncio.to_thread(light, passage, f"{self.name}: {why}")
