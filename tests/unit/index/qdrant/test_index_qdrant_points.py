from __future__ import annotations

from orion_recall.index.qdrant.points import QdrantRequests
from orion_recall.values import Scope


def test_a_server_is_told_to_search_a_part_of_its_graph_through_neighbours_of_neighbours() -> None:
    params = QdrantRequests().dense_query([1.0, 0.0], Scope(tenant="t"), 100, 0.0).params
    assert params is not None
    assert params.acorn is not None
    assert params.acorn.enable
    assert params.hnsw_ef == 400
