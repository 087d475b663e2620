"""A retrieval source over an OpenSearch index, and a score part for what carries the tag `runbook`."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager

from orion_recall.scoring.candidates import Column
from orion_recall.scoring.parts import PartInputs, ScorePart
from orion_recall.source_specs import Source, SourceSettings, SourceSpec


def _open(settings: SourceSettings) -> AbstractAsyncContextManager[Source]:
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
