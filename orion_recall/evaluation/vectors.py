"""Document vectors kept from one run to the next: most of a first run is the embedding of its memories.

Vectors are kept by what they were made of - the text, the model's weights, and the code that embeds - and index and
graph are built anew from them in every run. So a changed form of the text, extractor or index format is measured as
it is now, and nothing stale can be.
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
    """Where the cache is unless somebody says otherwise: in the user's cache folder."""
    home = os.environ.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path.home() / ".cache") / "orion-recall" / "evaluation"


class VectorCache:
    """One SQLite file for all models and runs, of about `most_bytes` at most; what was not used for longest goes.

    A write is a transaction, so that a run that is killed leaves nothing half-written, and two runs at once wait
    for each other. A file that is broken is made anew; where nothing can be kept, nothing is, and the log says so.
    """

    def __init__(self, folder: Path, *, most_bytes: int = MOST_BYTES) -> None:
        self.file = folder / FILE_NAME
        self._most_bytes = most_bytes
        self._connection: sqlite3.Connection | None = None

    def open(self) -> None:
        """Ready to use; twice does no harm."""
        if self._connection is None:
            self._connection = self._attempt(self._connected)

    def close(self) -> None:
        """Make room where there is too much, and let the file go."""
        connection = self._connection
        if connection is not None:
            self._attempt(lambda: self._make_room(connection))
            connection.close()
            self._connection = None

    def get(self, space: bytes, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        """The vectors that are there, by key."""
        connection = self._connection
        return {} if connection is None else self._attempt(lambda: _read(connection, space, keys)) or {}

    def put(self, space: bytes, vectors: Mapping[bytes, bytes]) -> None:
        """Keep vectors; those that are there already stay."""
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
        """What the step gives; after an error the run goes on without a cache."""
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
    """An embedder that asks the cache before it embeds documents; queries are always embedded."""

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
        """What is kept of each text, in their order; what is not is made, and kept from now on."""
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
    """One that gives vectors of tokens as well, and keeps a text's together: its own float32, theirs float16."""

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
        """As `TokenVectors` says; the tokens as exact as half a float is."""
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
    """The embedder with the cache before it; it gives what the embedder gives."""
    if isinstance(embedder, TokenVectors) and embedder.token_space:
        return CachedTokenEmbedder(embedder, embedder, cache)
    return CachedEmbedder(embedder, cache)


def space_of(embedder: Embedder) -> bytes:
    """What a vector depends on beside its text: the model, its weights, and the code that embeds with it."""
    digest = hashlib.blake2b(f"{embedder.name}\0{embedder.weights_sha256}\0{embedder.dimension}".encode())
    for path in sorted(Path(embedding.__file__).parent.glob("*.py")):
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
