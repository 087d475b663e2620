"""Fills one side of the stores with synthetic memories, in a process of its own, so that two cores have work.

    python -m tests.bench.fill_child index|graph SIZE model|words FOLDER DSN

`index` is the index, optimised in the end; `graph` is the graph and the record in Postgres. Both are written by
what writes a worker's, a page at a time; each page is told by a line with the number of memories so far. The
vectors are the model's own, or made of those of their words.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from pydantic import SecretStr

from orion_recall.contracts import MemoryV1
from orion_recall.evaluation.fill import changes
from orion_recall.evaluation.run_stores import private_settings
from orion_recall.evaluation.word_vectors import WordVectors
from orion_recall.index.embedded.folders import live_place
from orion_recall.index.embedded.optimised_copy import optimise_apart
from orion_recall.memory.record.compose import compose
from orion_recall.memory.record.record import Record
from orion_recall.models.embedder import Embedder
from orion_recall.models.opening import open_embedder
from orion_recall.models.sparse import SparseEncoder
from orion_recall.models.token_space import TokenVectors
from orion_recall.postgres.pool import open_pool
from orion_recall.postgres.schema import migrate
from orion_recall.serving.backends import graph_of, index_of
from orion_recall.settings import Settings
from orion_recall.values import Change
from tests.bench.corpus import corpus

NOW = 1_767_225_600.0
"""When the last memory was told, epoch seconds: the first moment of 2026."""
MODEL, WORDS = "model", "words"
"""Where the vectors of memories come from."""
SESSIONS = "sessions.json"
"""The file beside the stores that names the sessions that are going on: to make memories again takes a while."""
_PAGE = 200
# The index is closed so often that it does not begin to optimise a copy of itself: that is done once, in the end.
_PAGES_OPEN = 10


def settings_of(folder: Path, dsn: str) -> Settings:
    """Those of stores in the folder, with the default model, whatever the environment says of other stores."""
    return private_settings(Settings.read(), folder).changed(postgres_dsn=SecretStr(dsn))


async def fill_index(settings: Settings, steps: Sequence[Change], vectors: str) -> None:
    """The index, closed and optimised."""
    sparse = SparseEncoder()
    async with open_embedder(settings) as embedder:
        given = embedder if vectors == MODEL else _made(embedder)
        for start in range(0, len(steps), _PAGE * _PAGES_OPEN):
            some = steps[start : start + _PAGE * _PAGES_OPEN]
            index = index_of(settings, given, sparse)
            await index.open()
            try:
                for page in _pages(some):
                    await index.apply(page)
                    _tell(page)
            finally:
                await index.close()
    await optimise_apart(live_place(settings.data_dir / "index") / "shard")


async def fill_graph(settings: Settings, steps: Sequence[Change]) -> None:
    """The graph and the record."""
    assert settings.dsn is not None
    await migrate(settings.dsn)
    pool = await open_pool(settings.dsn, name="bench", max_size=1)
    graph = graph_of(settings)
    await graph.open()
    try:
        record = Record(pool)
        for page in _pages(steps):
            await asyncio.gather(record.store([step.memory for step in page]), graph.apply(page))
            _tell(page)
    finally:
        await graph.close()
        await pool.close()


def _made(embedder: Embedder) -> WordVectors:
    assert isinstance(embedder, TokenVectors)
    return WordVectors(embedder)


def _pages(steps: Sequence[Change]) -> list[Sequence[Change]]:
    return [steps[start : start + _PAGE] for start in range(0, len(steps), _PAGE)]


def _tell(page: Sequence[Change]) -> None:
    print(page[-1].position, flush=True)


def main() -> None:
    """Make the memories and fill what is asked for."""
    what, size, vectors, folder, dsn = sys.argv[1:]
    settings = settings_of(Path(folder), dsn)
    told = corpus(int(size), now=NOW)
    (settings.data_dir / f"{SESSIONS}.{what}").write_text(json.dumps(told.recent_sessions), "utf-8")
    (settings.data_dir / f"{SESSIONS}.{what}").replace(settings.data_dir / SESSIONS)
    steps = changes([compose(MemoryV1(**one), settings.default_tenant) for one in told.memories])
    asyncio.run(fill_index(settings, steps, vectors) if what == "index" else fill_graph(settings, steps))


if __name__ == "__main__":
    main()
