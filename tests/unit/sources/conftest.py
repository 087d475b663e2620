from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from orion_recall.models.sparse import SparseEncoder


@pytest.fixture
def folder() -> Iterator[Path]:
    """A short path of its own, with nothing in it."""
    made = Path(tempfile.mkdtemp(prefix="orion-test-"))
    yield made
    shutil.rmtree(made, ignore_errors=True)


@pytest.fixture(scope="session")
def sparse() -> SparseEncoder:
    return SparseEncoder()
