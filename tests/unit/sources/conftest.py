from __future__ import annotations

import shutil
import tempfile
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path

import pytest

from orion_recall.models.sparse import SparseEncoder
from tests.stand_ins.oxigraph import Oxigraph, oxigraph


@pytest.fixture
def folder() -> Iterator[Path]:
    """A short path of its own, with nothing in it."""
    made = Path(tempfile.mkdtemp(prefix="orion-test-"))
    yield made
    shutil.rmtree(made, ignore_errors=True)


@pytest.fixture(scope="session")
def sparse() -> SparseEncoder:
    return SparseEncoder()


@pytest.fixture(scope="session")
async def _oxigraph() -> AsyncGenerator[Oxigraph]:
    async with oxigraph() as server:
        yield server


@pytest.fixture
async def empty_oxigraph(_oxigraph: Oxigraph) -> Oxigraph:
    """A running SPARQL server that holds nothing."""
    await _oxigraph.update("DROP ALL")
    return _oxigraph
