"""Embedding and reranking by a server, against a process that computes real vectors and fails on request."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import numpy as np
import pytest

from orion_recall.errors import ModelError
from orion_recall.models.onnx_encoder import OnnxEncoder, find_weights, prepared
from orion_recall.models.tei import TeiEmbedder, TeiReranker, TeiServer
from tests.stand_ins.model_servers import ModelServer, tei_server
from tests.stand_ins.ports import free_port
from tests.stand_ins.servers import Answer, answering

pytestmark = pytest.mark.slow

SECRET = "k-" + "0" * 8
TEXTS = ["Where did Ann go?", "crane " * 90, "", "日本語 \x00 and half \ud83d of a pair", *map(str, range(9))]


@pytest.fixture(scope="module")
async def _process() -> AsyncGenerator[ModelServer]:
    async with tei_server() as started:
        yield started


@pytest.fixture
async def tei(_process: ModelServer) -> AsyncGenerator[ModelServer]:
    yield _process
    _process.behave()


@asynccontextmanager
async def embedding(
    tei: ModelServer, *, timeout_s: float = 30.0, key: str | None = None
) -> AsyncGenerator[TeiEmbedder]:
    embedder = TeiEmbedder(TeiServer(tei.url, key, timeout_s=timeout_s))
    try:
        yield embedder
    finally:
        await embedder.close()


async def test_vectors_are_those_of_the_model_in_the_order_of_the_texts(tei: ModelServer) -> None:
    encoder = OnnxEncoder(find_weights())
    async with embedding(tei) as embedder:
        await embedder.load()
        documents = await embedder.embed_documents(TEXTS)
        queries = [await embedder.embed_query(text) for text in TEXTS]
        assert (embedder.name, embedder.dimension) == ("all-MiniLM-L6-v2", 384)
        assert len(embedder.weights_sha256) == 64
        assert (await embedder.embed_documents([])).shape == (0, 384)
    expected = encoder.encode([prepared(text) for text in TEXTS])
    assert documents.dtype == np.float32
    np.testing.assert_allclose(documents, expected, atol=1e-4)
    np.testing.assert_allclose(queries, expected, atol=1e-4)


async def test_no_request_is_larger_than_the_server_allows(tei: ModelServer) -> None:
    before = len(tei.seen)
    async with embedding(tei) as embedder:
        await embedder.embed_documents([f"turn {number}" for number in range(11)])
    assert tei.seen[before:] == [1, 4, 4, 3]


async def test_documents_wait_for_a_busy_server_and_a_query_does_not(tei: ModelServer) -> None:
    async with embedding(tei) as embedder:
        await embedder.load()
        tei.behave(failure=429, times=2)
        assert (await embedder.embed_documents(["crane"])).shape == (1, 384)
        tei.behave(failure=429)
        with pytest.raises(ModelError, match="busy or broken: it answered /embed with 429"):
            await embedder.embed_query("crane")


@pytest.mark.parametrize(
    ("failure", "said"),
    [
        (500, "answered /embed with 500"),
        ("not_json", "what is not JSON"),
        ("rows", r"answered /embed with \(0,\) floats, expected \(1, 384\)"),
        ("floats", r"answered /embed with \(1, 383\) floats, expected \(1, 384\)"),
        ("nan", "not finite"),
        ("hang", r"no answer to /embed in time"),
        ("drip", r"no answer to /embed in time"),
    ],
    ids=str,
)
async def test_what_goes_wrong_is_said_without_text_or_key_and_passes(
    tei: ModelServer, failure: Any, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with embedding(tei, timeout_s=60, key=SECRET) as embedder:
        good = await embedder.embed_query("crane")
        tei.behave(failure=failure)
        if "in time" in said:  # for this call alone: on a busy machine a good answer may take longer
            monkeypatch.setattr(embedder._server, "_timeout_s", 0.5)  # pyright: ignore[reportPrivateUsage]
        with pytest.raises(ModelError, match=said) as caught:
            await embedder.embed_query("a secret crane")
        monkeypatch.undo()
        assert tei.url in str(caught.value)
        assert not {"secret", SECRET} & set(str(caught.value).split())
        tei.behave()
        np.testing.assert_allclose(await embedder.embed_query("crane"), good, atol=1e-5)


async def test_a_caller_who_gives_up_leaves_no_connection_in_the_way(tei: ModelServer) -> None:
    async with embedding(tei, timeout_s=60) as embedder:
        await embedder.load()
        tei.behave(failure="hang")

        async def give_up() -> None:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.2):
                    await embedder.embed_query("crane")

        await asyncio.gather(*(give_up() for _ in range(40)))
        tei.behave()
        async with asyncio.timeout(30):
            assert (await embedder.embed_query("crane")).shape == (384,)


async def test_a_server_whose_model_has_changed_is_refused(tei: ModelServer) -> None:
    async with embedding(tei) as embedder:
        await embedder.load()
        tei.behave(failure=500, model="bge-m3")
        with pytest.raises(ModelError, match="500"):
            await embedder.embed_query("crane")
        tei.behave(model="bge-m3")
        with pytest.raises(ModelError, match=r"served all-MiniLM-L6-v2 and serves bge-m3 now .* restart"):
            await embedder.embed_query("crane")


async def test_an_embedding_server_does_not_rerank(tei: ModelServer) -> None:
    reranker = TeiReranker(TeiServer(tei.url))
    with pytest.raises(ModelError, match="it does not rerank"):
        await reranker.scores("crane", ["boat"])
    await reranker.close()


async def test_without_the_right_key_the_error_names_the_setting_and_no_key() -> None:
    async with tei_server(SECRET) as guarded:
        async with embedding(guarded, key=SECRET) as embedder:
            assert (await embedder.embed_query("crane")).shape == (384,)
        for wrong in (None, "k-wrong"):
            async with embedding(guarded, key=wrong) as embedder:
                with pytest.raises(ModelError, match="ORION_TEI_API_KEY") as caught:
                    await embedder.embed_query("crane")
                assert "k-wrong" not in str(caught.value)


async def test_a_server_that_is_away_at_first_is_used_when_it_comes() -> None:
    port = free_port()
    async with embedding(ModelServer(f"http://127.0.0.1:{port}")) as embedder:
        await embedder.load()
        with pytest.raises(ModelError, match=r"cannot be reached for /info \(ConnectError\)"):
            _ = embedder.dimension
        with pytest.raises(ModelError, match="cannot be reached"):
            await embedder.embed_query("crane")
        async with tei_server(port=port):
            assert (await embedder.embed_query("crane")).shape == (384,)
            assert embedder.dimension == 384
        with pytest.raises(ModelError, match="cannot be reached"):
            await embedder.embed_query("crane")


async def test_a_reranking_server_gives_a_score_for_every_text_in_order() -> None:
    texts = [f"the weather of day {number}" for number in range(6)]
    texts[4] = "The harbour crane needs a gearbox."
    async with tei_server(task="reranker") as judge:
        reranker = TeiReranker(TeiServer(judge.url))
        scores = await reranker.scores("what does the harbour crane need?", texts)
        assert judge.seen == [4, 2]
        assert len(scores) == 6
        assert max(scores) == scores[4] > 0.5
        assert await reranker.scores("crane", []) == []
        for failure in ("rows", "floats", "nan"):
            judge.behave(failure=failure)
            with pytest.raises(ModelError, match="not the scores of 2 texts"):
                await reranker.scores("crane", texts[:2])
        judge.behave()
        async with embedding(judge) as embedder:
            with pytest.raises(ModelError, match="is a reranker: it does not embed"):
                await embedder.embed_query("crane")
        await reranker.close()


@pytest.mark.parametrize("said", ["[]", '{"model_id": 7}', '"hello"', "{}"])
async def test_what_is_no_tei_server_is_told_so(said: str) -> None:
    async with (
        answering(lambda _: Answer(body=said.encode())) as running,
        embedding(ModelServer(running.url)) as embedder,
    ):
        with pytest.raises(ModelError, match="none of a text-embeddings-inference server"):
            await embedder.embed_query("crane")
