"""What a source has read itself, and what cannot be read of it."""

from __future__ import annotations

import pytest

from orion_recall.recall.candidates.fetch import read_of
from orion_recall.scoring.candidates import Candidate
from orion_recall.values import MemoryView
from tests.samples.recall_fakes import hit


@pytest.mark.parametrize("error", [RecursionError("too deep"), ValueError("no number"), KeyError("text")])
def test_a_hit_that_cannot_be_read_is_no_memory(error: Exception) -> None:
    def read() -> MemoryView:
        raise error

    assert read_of(Candidate(key=hit("m1", 1.0).key, read=read)) is None
