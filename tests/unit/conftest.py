from __future__ import annotations

import shutil
import tempfile
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from orion_recall.models.sparse import SparseEncoder
from orion_recall.models.tokenizer import TokenCounter
from tests.stand_ins.oxigraph import Oxigraph, oxigraph
from tests.stand_ins.qdrant_process import QdrantStandIn, qdrant_stand_in

# `make test-slow` tries each property more often. Time limits per example would measure the machine's other work.
# Fixtures that a property's examples share are empty folders and the like.
_ANYWHERE = settings(
    deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
settings.register_profile("quick", _ANYWHERE, max_examples=8)
settings.register_profile("thorough", _ANYWHERE, max_examples=200)
settings.load_profile("quick")


@pytest.fixture(scope="session")
def tokens() -> TokenCounter:
    return TokenCounter()


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
def stand_in() -> Iterator[QdrantStandIn]:
    """A Qdrant stand-in for the whole run. Tests use collections of their own, and do not stop it."""
    with qdrant_stand_in() as one:
        yield one


@pytest.fixture(scope="session")
async def _oxigraph() -> AsyncGenerator[Oxigraph]:
    async with oxigraph() as server:
        yield server


@pytest.fixture
async def empty_oxigraph(_oxigraph: Oxigraph) -> Oxigraph:
    """A running SPARQL server that holds nothing."""
    await _oxigraph.update("DROP ALL")
    return _oxigraph
