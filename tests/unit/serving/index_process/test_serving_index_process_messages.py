"""Messages between a worker and the process of its index."""

from __future__ import annotations

import pickle

import pytest

from orion_recall.serving.index_process.messages import Packed, Scored
from orion_recall.text.normal import memory_key


@pytest.mark.parametrize(
    "scored",
    [
        [],
        [(memory_key("t", f"m{place}"), 1 / (place + 3)) for place in range(100)],
        [(0, -1.0), ((1 << 63) - 1, 1e-300)],
    ],
    ids=["none", "many", "extremes"],
)
def test_packed_pairs_come_back_as_they_were(scored: Scored):
    assert pickle.loads(pickle.dumps(Packed.of(scored))).pairs() == scored
