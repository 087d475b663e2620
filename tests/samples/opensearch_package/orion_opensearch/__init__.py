"""A source over an OpenSearch index, a score part for runbooks, a style of lines, and an extractor of tickets."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from orion_recall.memory.extraction.extractors import ExtractorSpec
from orion_recall.memory.extraction.light import Extraction, Passage
from orion_recall.packages import PackageSettings
from orion_recall.renderers import Renderer
from orion_recall.scoring.candidates import Column
from orion_recall.scoring.parts import PartInputs, ScorePart
from orion_recall.source_specs import Source, SourceSpec


def _open(settings: PackageSettings) -> AbstractAsyncContextManager[Source]:
    from orion_opensearch.source import opened  # every command loads this module, and only a worker needs httpx

    return opened(settings)


async def _check(source: Source) -> str:
    from orion_opensearch.source import OpenSearchSource

    assert isinstance(source, OpenSearchSource)
    return f"{await source.count()} documents"


SOURCE = SourceSpec(
    name="opensearch",
    label="search",
    title="the OpenSearch source",
    found_by="in OpenSearch",
    found_in="opensearch",
    source_ref="opensearch",
    weight=0.5,
    layers=("episodic", "procedural"),
    open=_open,
    check=_check,
)


@ScorePart("runbook", "'the memory has the tag `runbook`'", "being from a runbook", needs_weight=True)
def runbook(given: PartInputs) -> Column:
    """1 for a memory with the tag, 0 for any other."""
    return [1.0 if "runbook" in memory.tags else 0.0 for memory in given.memories]


CITED = Renderer(
    name="cited", shows="`<source_ref>` and the date", head=lambda line: f"<{line.source_ref}> {line.days}"
)


class Tickets:
    """The tickets that a memory names, as OPS-12."""

    name, at_once, batch, longest_s = "tickets", 1, 50, 10.0

    async def extract(self, passages: Sequence[Passage]) -> list[Extraction]:
        return [Extraction(entities=tuple(re.findall(r"\b[A-Z]{2,8}-\d+\b", one.text))) for one in passages]


@asynccontextmanager
async def _tickets(_: PackageSettings) -> AsyncGenerator[Tickets]:
    yield Tickets()


TICKETS = ExtractorSpec(name="tickets", open=_tickets)
