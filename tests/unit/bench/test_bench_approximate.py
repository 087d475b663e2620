from __future__ import annotations

from pathlib import Path

import pytest

from orion_recall.index.embedded import points as edge_points
from orion_recall.index.embedded import shard as edge_shard
from tests.bench.approximate import clustered, compare


@pytest.mark.slow
async def test_a_recall_finds_what_is_nearest_in_a_search_graph(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Vectors are so wide that few of them have a graph: from 1,250 on, those of a tenant."""
    monkeypatch.setattr(edge_shard, "_GRAPH_FROM_KB", 1_000)
    monkeypatch.setattr(edge_points, "_SCANNED_OF_A_PART", 1)
    monkeypatch.setattr(edge_points, "_SCANNED_OF_ALL", 1)
    small, large = await compare(clustered(5_000, 60, dimension=2_048, rank=32, spread=2.0), tmp_path, [500])
    assert (small.memories, large.memories) == (500, 4_500)
    assert min(small.recall[10], small.recall[100], large.recall[100]) >= 0.99
    assert 0 < large.p50_ms <= large.p95_ms
