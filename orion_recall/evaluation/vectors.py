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
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from orion_recall.models import embedder as embedding
from orion_recall.models.embedder import Embedder
from orion_recall.models.token_space import Tokens, TokenVectors

log = logging.getLogger("orion_recall.evaluation")

Vectors = npt.NDArray[np.float32]
R = TypeVar("R")

FILE_NAME = "document-vectors.sqlite3"
MOST_BYTES = 1 << 30
_WAIT_S = 30.0
_AT_ONCE = 500
_DAY_S = 86_400
_SCHEMA = """
CREATE TABLE IF NOT EXISTS vectors (
    space BLOB NOT NULL, text BLOB NOT NULL, vector BLOB NOT NULL, used INTEGER NOT NULL,
    PRIMARY KEY (space, text)
)
"""


def default_folder() -> Path:
    """The default folder of the cache, in the user's cache folder."""
    home = os.environ.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path.home() / ".cache") / "orion-recall" / "evaluation"


class VectorCache:
    """One SQLite file for all models and runs, up to about `most_bytes`; least recently used vectors go first.

    Every write is a transaction, so a killed run leaves nothing half-written, and concurrent runs wait for each
    other. A broken file is replaced. Where the file cannot be used, the run goes on without it and the log says so.
    """

    def __init__(self, folder: Path, *, most_bytes: int = MOST_BYTES) -> None:
        self.file = folder / FILE_NAME
        self._most_bytes = most_bytes
        self._connection: sqlite3.Connection | None = None

    def open(self) -> None:
        """Open the file; does nothing when it is open."""
        if self._connection is None:
            self._connection = self._attempt(self._connected)

    def close(self) -> None:
        """Evict vectors beyond the limit, and close the file."""
        connection = self._connection
        if connection is not None:
            self._attempt(lambda: self._make_room(connection))
            connection.close()
            self._connection = None

    def get(self, space: bytes, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        """The cached vectors, by key."""
        connection = self._connection
        return {} if connection is None else self._attempt(lambda: _read(connection, space, keys)) or {}

    def put(self, space: bytes, vectors: Mapping[bytes, bytes]) -> None:
        """Add vectors; existing ones stay."""
        connection, now = self._connection, int(time.time())

        def write(connection: sqlite3.Connection) -> None:
            rows = [(space, key, vector, now) for key, vector in vectors.items()]
            with connection:
                connection.executemany("INSERT OR IGNORE INTO vectors VALUES (?, ?, ?, ?)", rows)

        if connection is not None:
            self._attempt(lambda: write(connection))

    def _connected(self) -> sqlite3.Connection:
        self.file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            return _opened(self.file)
        except sqlite3.OperationalError:
            raise
        except sqlite3.DatabaseError as error:
            log.warning("the cache %s is broken (%s): it is made anew", self.file, error)
            self.file.unlink(missing_ok=True)
            return _opened(self.file)

    def _attempt(self, step: Callable[[], R]) -> R | None:
        """The result of the step; after an error the run goes on without a cache."""
        try:
            return step()
        except (sqlite3.Error, OSError) as error:
            log.warning("vectors are not cached in %s: %s", self.file, error)
            if self._connection is not None:
                with contextlib.suppress(sqlite3.Error):
                    self._connection.close()
                self._connection = None
            return None

    def _make_room(self, connection: sqlite3.Connection) -> None:
        held = _held_bytes(connection)
        if held <= self._most_bytes:
            return
        (rows,) = connection.execute("SELECT count(*) FROM vectors").fetchone()
        too_many = rows - int(rows * 0.8 * self._most_bytes / held)
        with connection:
            connection.execute(
                "DELETE FROM vectors WHERE rowid IN (SELECT rowid FROM vectors ORDER BY used LIMIT ?)",
                (too_many,),
            )


class CachedEmbedder:
    """An embedder with a cache of document vectors; queries are always embedded."""

    def __init__(self, embedder: Embedder, cache: VectorCache) -> None:
        self._embedder, self._cache = embedder, cache
        self._space = space_of(embedder)
        self.from_cache = 0
        self.embedded = 0

    @property
    def name(self) -> str:
        return self._embedder.name

    @property
    def dimension(self) -> int:
        return self._embedder.dimension

    @property
    def weights_sha256(self) -> str:
        return self._embedder.weights_sha256

    async def embed_query(self, text: str) -> Vectors:
        """A unit vector, float32, shape (dimension,)."""
        return await self._embedder.embed_query(text)

    async def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """Unit vectors, float32, shape (texts, dimension), in the order of the texts."""

        async def made(missing: Sequence[str]) -> list[bytes]:
            return [vector.astype("<f4").tobytes() for vector in await self._embedder.embed_documents(missing)]

        kept = await self._kept(texts, self._space, lambda blob: len(blob) == self._size, made)
        return self._dense(kept)

    @property
    def _size(self) -> int:
        """Bytes of a text's vector."""
        return 4 * self.dimension

    def _dense(self, kept: Sequence[bytes]) -> Vectors:
        rows = [np.frombuffer(blob, dtype="<f4", count=self.dimension) for blob in kept]
        return np.array(rows, dtype=np.float32).reshape(len(kept), self.dimension)

    async def _kept(
        self,
        texts: Sequence[str],
        space: bytes,
        is_whole: Callable[[bytes], bool],
        make: Callable[[Sequence[str]], Awaitable[Sequence[bytes]]],
    ) -> list[bytes]:
        """The cached value of each text, in their order; missing ones are made and cached."""
        keys = [hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=32).digest() for text in texts]
        found = await asyncio.to_thread(self._cache.get, space, keys)
        known = {key: blob for key, blob in found.items() if is_whole(blob)}
        missing = {key: text for key, text in zip(keys, texts, strict=True) if key not in known}
        if missing:
            new = dict(zip(missing, await make(list(missing.values())), strict=True))
            await asyncio.to_thread(self._cache.put, space, new)
            known |= new
        self.embedded += len(missing)
        self.from_cache += len(texts) - len(missing)
        return [known[key] for key in keys]


class CachedTokenEmbedder(CachedEmbedder):
    """A cached embedder with token vectors: a text's vector as float32 and those of its tokens as float16."""

    def __init__(self, embedder: Embedder, tokens: TokenVectors, cache: VectorCache) -> None:
        super().__init__(embedder, cache)
        self._tokens = tokens
        self._together = hashlib.blake2b(self._space + tokens.token_space.encode(), digest_size=32).digest()

    @property
    def token_space(self) -> str:
        return self._tokens.token_space

    @property
    def token_width(self) -> int:
        return self._tokens.token_width

    async def query_tokens(self, text: str) -> Tokens:
        """As `TokenVectors` says."""
        return await self._tokens.query_tokens(text)

    async def documents_with_tokens(self, texts: Sequence[str]) -> tuple[Vectors, list[Tokens]]:
        """As `TokenVectors` says; token vectors have the precision of float16."""
        width = self.token_width

        async def made(missing: Sequence[str]) -> list[bytes]:
            vectors, tokens = await self._tokens.documents_with_tokens(missing)
            return [
                vector.astype("<f4").tobytes() + theirs.astype("<f2").tobytes()
                for vector, theirs in zip(vectors, tokens, strict=True)
            ]

        def is_whole(blob: bytes) -> bool:
            return len(blob) > self._size and (len(blob) - self._size) % (2 * width) == 0

        kept = await self._kept(texts, self._together, is_whole, made)
        halves = (np.frombuffer(blob, dtype="<f2", offset=self._size).reshape(-1, width) for blob in kept)
        return self._dense(kept), [theirs.astype(np.float32) for theirs in halves]


def cached(embedder: Embedder, cache: VectorCache) -> CachedEmbedder:
    """The embedder behind the cache."""
    if isinstance(embedder, TokenVectors) and embedder.token_space:
        return CachedTokenEmbedder(embedder, embedder, cache)
    return CachedEmbedder(embedder, cache)


def space_of(embedder: Embedder) -> bytes:
    """A hash of all that a vector depends on beside its text: the model, its weights, and the embedding code."""
    digest = hashlib.blake2b(f"{embedder.name}\0{embedder.weights_sha256}\0{embedder.dimension}".encode())
    for path in sorted(Path(embedding.__file__).parent.rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.digest()[:32]


def _opened(file: Path) -> sqlite3.Connection:
    # Calls come from threads of a pool, one at a time.
    connection = sqlite3.connect(file, timeout=_WAIT_S, check_same_thread=False)
    try:
        with connection:
            connection.execute(_SCHEMA)
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def _read(connection: sqlite3.Connection, space: bytes, keys: Sequence[bytes]) -> dict[bytes, bytes]:
    found: dict[bytes, bytes] = {}
    now, old = int(time.time()), list[tuple[int, bytes, bytes]]()
    for some in _chunks(keys, _AT_ONCE):
        marks = ",".join("?" * len(some))
        rows = connection.execute(
            f"SELECT text, vector, used FROM vectors WHERE space = ? AND text IN ({marks})",  # noqa: S608 (marks)
            (space, *some),
        )
        for text, vector, used in rows:
            found[text] = vector
            if used < now - _DAY_S:  # to the day is enough, and a second run writes nothing
                old.append((now, space, text))
    if old:
        with connection:
            connection.executemany("UPDATE vectors SET used = ? WHERE space = ? AND text = ?", old)
    return found


def _held_bytes(connection: sqlite3.Connection) -> int:
    pages, free, size = (
        int(connection.execute(f"PRAGMA {name}").fetchone()[0])
        for name in ("page_count", "freelist_count", "page_size")
    )
    return (pages - free) * size


def _chunks(keys: Sequence[bytes], size: int) -> Iterable[Sequence[bytes]]:
    return (keys[start : start + size] for start in range(0, len(keys), size))
