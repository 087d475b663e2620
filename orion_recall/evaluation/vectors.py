"""A cache of document vectors between runs: embedding takes most of the time of a first run.

The key of a vector is all it depends on: the text, the model's weights, and the code that embeds. Index and graph
are built anew from the vectors, so a changed text form, extractor or index format is measured as it is now.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import os
import sqlite3
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from pathlib import Path
from typing import Self

import numpy as np

from orion_recall.models import embedder as embedding
from orion_recall.models.embedder import Embedder
from orion_recall.models.token_space import Tokens, TokenVectors, Vectors, token_space_of

log = logging.getLogger("orion_recall.evaluation")

FILE_NAME = "vectors.sqlite3"
MOST_BYTES = 1 << 30
_WAIT_S = 30.0
_SCHEMA = "CREATE TABLE IF NOT EXISTS vectors (key BLOB PRIMARY KEY, vector BLOB NOT NULL) WITHOUT ROWID"


def default_folder() -> Path:
    home = os.environ.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path.home() / ".cache") / "orion-recall" / "evaluation"


class VectorCache:
    """One SQLite file for all models and runs, open inside `with`; one of more than a GiB is begun anew.

    Every write is a transaction, so a killed run leaves nothing half-written, and concurrent runs wait for each
    other. Where the file cannot be used, the run goes on without it and the log says so.
    """

    def __init__(self, folder: Path) -> None:
        self.file = folder / FILE_NAME
        self._connection: sqlite3.Connection | None = None

    def __enter__(self) -> Self:
        with self._without():
            self.file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            if self.file.exists() and self.file.stat().st_size > MOST_BYTES:
                self.file.unlink()
            # Calls come from threads of a pool, one at a time.
            self._connection = connection = sqlite3.connect(self.file, timeout=_WAIT_S, check_same_thread=False)
            with connection:
                connection.execute(_SCHEMA)
        return self

    def __exit__(self, *_: object) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def get(self, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        found: dict[bytes, bytes] = {}
        with self._without():
            if (connection := self._connection) is not None:
                for key in keys:
                    found |= connection.execute("SELECT key, vector FROM vectors WHERE key = ?", (key,))
        return found

    def put(self, vectors: Mapping[bytes, bytes]) -> None:
        with self._without():
            if self._connection is not None:
                with self._connection:
                    self._connection.executemany("INSERT OR IGNORE INTO vectors VALUES (?, ?)", vectors.items())

    @contextlib.contextmanager
    def _without(self) -> Generator[None]:
        """Goes on without the cache where the file cannot be used."""
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            log.warning("vectors are not cached in %s (delete it if it is broken): %s", self.file, error)
            with contextlib.suppress(sqlite3.Error):
                self.__exit__()


class CachedEmbedder:
    """An embedder with a cache of the vectors of documents and of their tokens; queries are always embedded."""

    def __init__(self, embedder: Embedder, cache: VectorCache) -> None:
        self._embedder, self._cache = embedder, cache
        self._tokens = embedder if isinstance(embedder, TokenVectors) else None
        self._space = space_of(embedder)
        self.name, self.dimension = embedder.name, embedder.dimension
        self.weights_sha256 = embedder.weights_sha256
        self.token_space = token_space_of(embedder)
        self.token_width = 0 if self._tokens is None else self._tokens.token_width
        self.from_cache = self.embedded = 0

    async def embed_query(self, text: str) -> Vectors:
        return await self._embedder.embed_query(text)

    async def embed_documents(self, texts: Sequence[str]) -> Vectors:
        async def made(missing: Sequence[str]) -> list[bytes]:
            return [vector.astype("<f4").tobytes() for vector in await self._embedder.embed_documents(missing)]

        return self._dense(await self._kept(texts, b"", made))

    async def query_tokens(self, text: str) -> Tokens:
        assert self._tokens is not None
        return await self._tokens.query_tokens(text)

    async def documents_with_tokens(self, texts: Sequence[str]) -> tuple[Vectors, list[Tokens]]:
        """A text's vector is kept as float32, and those of its tokens as float16."""
        assert self._tokens is not None
        of_tokens = self._tokens

        async def made(missing: Sequence[str]) -> list[bytes]:
            both = zip(*await of_tokens.documents_with_tokens(missing), strict=True)
            return [one.astype("<f4").tobytes() + tokens.astype("<f2").tobytes() for one, tokens in both]

        kept = await self._kept(texts, self.token_space.encode(), made)
        halves = (np.frombuffer(blob, dtype="<f2", offset=4 * self.dimension) for blob in kept)
        return self._dense(kept), [theirs.reshape(-1, self.token_width).astype(np.float32) for theirs in halves]

    def _dense(self, kept: Sequence[bytes]) -> Vectors:
        rows = [np.frombuffer(blob, dtype="<f4", count=self.dimension) for blob in kept]
        return np.array(rows, dtype=np.float32).reshape(len(kept), self.dimension)

    async def _kept(
        self, texts: Sequence[str], kind: bytes, make: Callable[[Sequence[str]], Awaitable[Sequence[bytes]]]
    ) -> list[bytes]:
        """The cached value of each text, in their order; missing ones are made and cached."""
        keys = [
            hashlib.blake2b(self._space + kind + text.encode("utf-8", "replace"), digest_size=32).digest()
            for text in texts
        ]
        known = await asyncio.to_thread(self._cache.get, keys)
        missing = {key: text for key, text in zip(keys, texts, strict=True) if key not in known}
        if missing:
            new = dict(zip(missing, await make(list(missing.values())), strict=True))
            await asyncio.to_thread(self._cache.put, new)
            known |= new
        self.embedded += len(missing)
        self.from_cache += len(texts) - len(missing)
        return [known[key] for key in keys]


def space_of(embedder: Embedder) -> bytes:
    """A hash of all that a vector depends on beside its text: the model, its weights, and the embedding code."""
    digest = hashlib.blake2b(f"{embedder.name}\0{embedder.weights_sha256}\0{embedder.dimension}".encode())
    for path in sorted(Path(embedding.__file__).parent.rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.digest()[:32]
