from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from orion_recall.graph.walks.spreading import personalised_pagerank


def ranks(
    edges: Sequence[tuple[int, int, float]], bias: Sequence[float], *, damping: float = 0.85, rounds: int = 200
) -> list[float]:
    ends = np.array([edge[:2] for edge in edges], dtype=np.int64).reshape(-1, 2)
    weight = np.array([edge[2] for edge in edges], dtype=np.float64)
    found = personalised_pagerank(ends[:, 0], ends[:, 1], weight, np.array(bias), damping=damping, rounds=rounds)
    return found.tolist()


def test_a_chain_of_three_nodes_worked_by_hand():
    # 0 - 1 - 2, restarted at 0, damping d = 1/2. From 1 half goes each way, from 0 and 2 all goes to 1:
    # r0 = d * r1/2 + 1/2,  r1 = d * (r0 + r2),  r2 = d * r1/2   =>   r1 = 2/6, r2 = 1/12, r0 = 7/12.
    assert ranks([(0, 1, 1.0), (1, 2, 1.0)], [1, 0, 0], damping=0.5) == pytest.approx([7 / 12, 4 / 12, 1 / 12])


def test_less_damping_keeps_the_walk_nearer_to_its_start():
    edges = [(0, 1, 1.0), (1, 2, 1.0), (2, 3, 1.0)]
    near, far = ranks(edges, [1, 0, 0, 0], damping=0.2), ranks(edges, [1, 0, 0, 0], damping=0.9)
    assert near[0] > far[0]
    assert near[3] < far[3]
    assert ranks(edges, [1, 0, 0, 0], damping=0.0) == [1, 0, 0, 0]


@given(
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4), st.floats(0.01, 10)), max_size=12),
    st.lists(st.floats(0.01, 1), min_size=5, max_size=5),
    st.floats(0, 1),
    st.integers(1, 30),
)
def test_ranks_are_a_distribution(
    edges: list[tuple[int, int, float]], bias: list[float], damping: float, rounds: int
):
    found = ranks(edges, bias, damping=damping, rounds=rounds)
    assert sum(found) == pytest.approx(1.0)
    assert min(found) >= -1e-12
