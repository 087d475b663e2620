"""The evidence of the candidates in the graph, for the score part `evidence`; looked up where that has a weight."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Protocol

from orion_recall.errors import SourceError
from orion_recall.tasks import in_time

log = logging.getLogger("orion_recall.recall")


class FindsEvidence(Protocol):
    """Finds the weights of memories' statements: see `sources.graph_evidence.GraphEvidence`."""

    async def weights(self, tenant: str, keys: Sequence[int]) -> Mapping[int, float]: ...


async def evidence_of(
    keys: Sequence[int], tenant: str, found_by: FindsEvidence | None, *, weight: float, timeout_s: float
) -> Mapping[int, float]:
    """The evidence by key; none where the part weighs nothing, or the graph does not answer in time."""
    if found_by is None or weight <= 0 or timeout_s <= 0:
        return {}
    try:
        return await in_time(found_by.weights(tenant, keys), timeout_s)
    except (SourceError, TimeoutError) as error:
        log.debug("no evidence from the graph: %s", error or "no answer in time")
        return {}
