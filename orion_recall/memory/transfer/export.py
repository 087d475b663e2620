"""Exports memories as JSON lines in the import format."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import aclosing

from orion_recall.memory.record.compose import as_message
from orion_recall.memory.record.reader import ExportFilters, MemoryName, RecordReader
from orion_recall.values import Memory


async def exported_lines(
    reader: RecordReader, filters: ExportFilters, *, with_history: bool = False
) -> AsyncGenerator[list[str]]:
    """The live memories, one JSON object a line, in pages; read in one snapshot by a cursor.

    A history stands in `history`, which an import puts into the metadata like every field that it does not know.
    """
    async with aclosing(reader.exported(filters)) as pages:
        async for memories in pages:
            histories = {}
            if with_history:
                histories = await reader.histories([MemoryName(one.tenant, one.id) for one in memories])
            lines: list[str] = []
            for memory in memories:
                line = _as_sent(memory)
                if steps := histories.get(MemoryName(memory.tenant, memory.id)):
                    line["history"] = steps
                lines.append(json.dumps(line, ensure_ascii=False))
            yield lines


def _as_sent(memory: Memory) -> dict[str, object]:
    """What the sender gave of it. Names and statements found in the text are found again by the import."""
    return as_message(memory).model_dump(mode="json", exclude_defaults=True)
