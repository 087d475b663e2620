from __future__ import annotations

import hashlib
import logging
import sqlite3
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from orion_recall.evaluation import vectors
from orion_recall.evaluation.vectors import (
    CachedEmbedder,
    CachedTokenEmbedder,
    VectorCache,
    cached,
    default_folder,
    space_of,
)


class CountingEmbedder:
    """Vectors out of a text's hash; remembers what it was asked."""

    def __init__(self, weights: str = "w") -> None:
        self.name, self.dimension, self.weights_sha256 = "counting", 4, weights
        self.asked: list[str] = []

    async def embed_query(self, text: str) -> npt.NDArray[np.float32]:
        return np.frombuffer(hashlib.sha256(text.encode()).digest()[:16], dtype=np.uint32).astype(np.float32)

    async def embed_documents(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        self.asked += texts
        return np.array([await self.embed_query(text) for text in texts], dtype=np.float32)


@contextmanager
def opened(folder: Path, most_bytes: int = 1 << 30) -> Generator[VectorCache]:
    cache = VectorCache(folder, most_bytes=most_bytes)
    cache.open()
    try:
        yield cache
    finally:
        cache.close()


async def test_what_was_embedded_once_is_not_embedded_again(tmp_path: Path) -> None:
    first, second = CountingEmbedder(), CountingEmbedder()
    with opened(tmp_path) as cache:
        made = await CachedEmbedder(first, cache).embed_documents(["a", "b", "a"])
    with opened(tmp_path) as cache:
        cached = CachedEmbedder(second, cache)
        again = await cached.embed_documents(["b", "c", "a", "a"])
    assert (first.asked, second.asked) == (["a", "b"], ["c"])
    assert (cached.embedded, cached.from_cache) == (1, 3)
    assert np.array_equal(again, await second.embed_documents(["b", "c", "a", "a"]))
    assert np.array_equal(made[0], again[2])
    assert again.dtype == np.float32
    assert (await cached.embed_documents([])).shape == (0, 4)


async def test_other_weights_have_vectors_of_their_own(tmp_path: Path) -> None:
    other = CountingEmbedder("other")
    with opened(tmp_path) as cache:
        await CachedEmbedder(CountingEmbedder(), cache).embed_documents(["a"])
        await CachedEmbedder(other, cache).embed_documents(["a"])
    assert other.asked == ["a"]


def test_the_code_that_embeds_is_part_of_the_space(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "embedder.py").write_text("one")
    monkeypatch.setattr(vectors.embedding, "__file__", str(tmp_path / "embedder.py"))
    before = space_of(CountingEmbedder())
    assert space_of(CountingEmbedder()) == before
    (tmp_path / "embedder.py").write_text("two")
    assert space_of(CountingEmbedder()) != before


async def test_a_broken_file_is_made_anew_and_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / vectors.FILE_NAME).write_bytes(b"no database at all" * 100)
    with opened(tmp_path) as cache:
        await CachedEmbedder(CountingEmbedder(), cache).embed_documents(["a"])
    assert "made anew" in caplog.text
    with opened(tmp_path) as cache:
        cached = CachedEmbedder(CountingEmbedder(), cache)
        await cached.embed_documents(["a"])
    assert cached.from_cache == 1


async def test_where_nothing_can_be_kept_the_run_goes_on(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").write_text("in the way")
    embedder = CountingEmbedder()
    with opened(tmp_path / "file") as cache:
        await CachedEmbedder(embedder, cache).embed_documents(["a"])
    assert embedder.asked == ["a"]
    own = [record for record in caplog.records if record.name == vectors.log.name]  # others may log meanwhile
    assert [record.levelno for record in own] == [logging.WARNING]
    assert "not cached" in caplog.text


async def test_two_runs_at_once_share_the_file(tmp_path: Path) -> None:
    with opened(tmp_path) as one, opened(tmp_path) as other:
        await CachedEmbedder(CountingEmbedder(), one).embed_documents(["a"])
        cached = CachedEmbedder(CountingEmbedder(), other)
        await cached.embed_documents(["a", "b"])
        assert cached.from_cache == 1


def test_what_was_not_used_for_longest_goes(tmp_path: Path) -> None:
    keys = {number.to_bytes(4, "big"): bytes(2000) for number in range(1000)}
    with opened(tmp_path) as cache:
        cache.put(b"s", keys)
    with sqlite3.connect(tmp_path / vectors.FILE_NAME) as connection:
        connection.execute("UPDATE vectors SET used = 0 WHERE text >= ?", ((300).to_bytes(4, "big"),))
    connection.close()
    with opened(tmp_path, most_bytes=1_200_000) as cache:
        assert len(cache.get(b"s", list(keys)[:350])) == 350
    with opened(tmp_path) as cache:
        left = cache.get(b"s", list(keys))
    # Used now: the first 300 and the 50 that were just read.
    assert 350 <= len(left) < 500
    assert set(list(keys)[:350]) <= set(left)


def test_the_cache_is_in_the_users_own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert default_folder() == tmp_path / "orion-recall" / "evaluation"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert default_folder() == Path.home() / ".cache" / "orion-recall" / "evaluation"


class CountingTokens(CountingEmbedder):
    """Gives two tokens a text as well."""

    token_space, token_width = "counting", 3

    async def query_tokens(self, text: str) -> npt.NDArray[np.float32]:
        return np.full((2, 3), len(text), dtype=np.float32)

    async def documents_with_tokens(
        self, texts: Sequence[str]
    ) -> tuple[npt.NDArray[np.float32], list[npt.NDArray[np.float32]]]:
        return await self.embed_documents(texts), [await self.query_tokens(text) for text in texts]


async def test_vectors_of_tokens_are_kept_with_those_of_the_text(tmp_path: Path) -> None:
    first, second = CountingTokens(), CountingTokens()
    with opened(tmp_path) as cache:
        plain = await CachedEmbedder(first, cache).embed_documents(["a", "bb"])
        await cached(first, cache).embed_documents(["a"])
    assert first.asked == ["a", "bb"]
    with opened(tmp_path) as cache:
        kept = cached(second, cache)
        assert isinstance(kept, CachedTokenEmbedder)
        await kept.documents_with_tokens(["a"])
        vectors, tokens = await kept.documents_with_tokens(["bb", "a", "bb"])
    assert second.asked == ["a", "bb"], "once each"
    np.testing.assert_array_equal(vectors, plain[[1, 0, 1]])
    assert [one.tolist() for one in tokens] == [[[2.0] * 3] * 2, [[1.0] * 3] * 2, [[2.0] * 3] * 2]
    assert (kept.token_space, kept.token_width, len(await kept.query_tokens("a"))) == ("counting", 3, 2)
    third = CountingTokens()
    third.token_space = "another"
    with opened(tmp_path) as cache:
        await cached(third, cache).embed_documents(["a"])
        assert third.asked == []
        made = cached(third, cache)
        assert isinstance(made, CachedTokenEmbedder)
        await made.documents_with_tokens(["a"])
    assert third.asked == ["a"]


def test_an_embedder_without_tokens_has_none_behind_the_cache_either(tmp_path: Path) -> None:
    off = CountingTokens()
    off.token_space = ""
    with opened(tmp_path) as cache:
        assert not isinstance(cached(CountingEmbedder(), cache), CachedTokenEmbedder)
        assert not isinstance(cached(off, cache), CachedTokenEmbedder)
