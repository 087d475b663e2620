"""How the embedded index searches for the nearest vectors: by a scan or in its graph, by how many pass the filter.

A search of the engine's graph goes only through vectors that the filter lets pass: where those are a part of all,
few edges remain, and the nearest lie behind others. The engine adds edges for some values of a field, and none for
a value whose vectors it takes to be connected: of a tenant with a quarter of 110,000 memories that the model
embedded, it found .62 of the exact first hundred, and .07 of those of one kind. So a search says more:

- **Few** are scanned, each compared with the question: no dearer than to find nearly as much in the graph.
- **A part** is searched in the graph through the neighbours of neighbours as well (ACORN).
- **Nearly all** are searched in the plain graph, with more candidates than the engine keeps by itself.
"""

from __future__ import annotations

import qdrant_edge as qe

# Measured with up to 110,000 memories (the page Figures). Each finds at least .98 of the exact first hundred.
_EF_OF_A_PART, _EF_OF_ALL = 200, 500
# So many vectors are scanned in the time that a candidate takes in the graph, with ACORN and without.
_SCANNED_OF_A_PART, _SCANNED_OF_ALL = 80, 20
_NEARLY_ALL = 0.8


def params_of(shard: qe.EdgeShard, wanted: qe.Filter, limit: int) -> qe.SearchParams:
    """The parameters of a search for `limit` points that the filter lets pass. Both counts are estimates: 3 us."""
    matching = shard.count(qe.CountRequest(exact=False, filter=wanted))
    return graph_search(matching, shard.count(qe.CountRequest(exact=False)), limit)


def graph_search(matching: int, held: int, limit: int) -> qe.SearchParams:
    """The parameters of a search for `limit` points among those that match, of all that are held."""
    if matching >= _NEARLY_ALL * held:
        ef = max(limit, _EF_OF_ALL)
        is_scanned = matching <= _SCANNED_OF_ALL * ef
        return qe.SearchParams(exact=True) if is_scanned else qe.SearchParams(hnsw_ef=ef)
    ef = max(limit, _EF_OF_A_PART)
    if matching <= _SCANNED_OF_A_PART * ef:
        return qe.SearchParams(exact=True)
    return qe.SearchParams(hnsw_ef=ef, acorn=qe.AcornSearchParams(enable=True, max_selectivity=1.0))
