"""Hindsight's HTTP server on a Postgres with pgvector, asked by HTTP.

Without a language model (`LLM_PROVIDER=none`) it stores each memory as one fact, as it was told, and finds no
entities; without a cross-encoder (`RERANKER_PROVIDER=rrf`) the order is that of its rank fusion and its boosts. The
budget is its default (`mid`). Its embeddings are MiniLM by ONNX, which needs no torch.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any

from tests.bench.peers.peer import Place, Told, library

_BATCH = 100
_START_TIMEOUT_S, _REQUEST_TIMEOUT_S, _STOP_TIMEOUT_S = 180.0, 600.0, 30.0
_MODEL = "all-MiniLM-L6-v2"


class Hindsight:
    """The server is a child of this process; each `fill` has a bank of its own."""

    def __init__(self, place: Place) -> None:
        port = _free_port()
        self._server = subprocess.Popen(
            [sys.executable, "-m", "hindsight_api.main", "--host", "127.0.0.1", "--port", str(port)],
            env={**os.environ, **settings(place)},
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
            try:
                if self._client.get("/health", timeout=5).status_code == 200:
                    return
            except library("httpx").TransportError:
                pass
            time.sleep(0.5)
        raise TimeoutError(f"the server was not ready within {_START_TIMEOUT_S:.0f} s")

    def fill(self, memories: Sequence[Told]) -> None:
        self._bank += 1
        for start in range(0, len(memories), _BATCH):
            batch = memories[start : start + _BATCH]
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


def settings(place: Place) -> dict[str, str]:
    """The server's environment: no language model, no cross-encoder, the same MiniLM."""
    if place.postgres_dsn is None or place.onnx_model is None:
        raise ValueError("Hindsight needs a Postgres and the ONNX model")
    named = {
        "DATABASE_URL": place.postgres_dsn,
        "LLM_PROVIDER": "none",
        "RERANKER_PROVIDER": "rrf",
        "EMBEDDINGS_PROVIDER": "onnx",
        "EMBEDDINGS_ONNX_MODEL_ID": _MODEL,
        "EMBEDDINGS_ONNX_MODEL_PATH": str(place.onnx_model),
        "EMBEDDINGS_ONNX_TOKENIZER_NAME_OR_PATH": str(place.onnx_model.parent.parent),
        "EMBEDDINGS_ONNX_QUERY_PREFIX": "",
        "EMBEDDINGS_ONNX_PASSAGE_PREFIX": "",
        "EMBEDDINGS_ONNX_MAX_TOKENS": "256",
        "MCP_ENABLED": "false",
        "LOG_LEVEL": "warning",
    }
    return {f"HINDSIGHT_API_{name}": value for name, value in named.items()} | {"HF_HUB_OFFLINE": "1"}


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def open_peer(place: Place) -> Hindsight:
    """Starts the server, which makes its tables."""
    return Hindsight(place)
