"""The evidence of memories in the graph: how often their statements are stated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rdflib.namespace import PROV

from orion_recall.graph.tenant_graph import Queryable, TenantGraph
from orion_recall.graph.vocabulary import ORION, key_of, memory_iri, reading_rows


class GraphEvidence:
    """Reads the weights of memories' statements, all of a recall in one query."""

    def __init__(self, graph: Queryable) -> None:
        self._graph = graph

    async def weights(self, tenant: str, keys: Sequence[int]) -> Mapping[int, float]:
        """The sum of the weights of each memory's statements, by key. SourceError when the graph gives none."""
        if not keys:
            return {}
        values = " ".join(memory_iri(key).n3() for key in keys)
        rows = await TenantGraph(self._graph, tenant).rows(
            f"{{ SELECT ?memory (SUM(?weight) AS ?total) WHERE {{ VALUES ?memory {{ {values} }} "
            f"?edge {PROV.wasDerivedFrom.n3()} ?memory ; {ORION.weight.n3()} ?weight }} GROUP BY ?memory }}"
        )
        with reading_rows():
            return {key_of(row["memory"]): float(row["total"]) for row in rows}
