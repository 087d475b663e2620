"""A stand-in for a text-embeddings-inference server, as a process: real vectors, and every way to go wrong.

`python -m tests.stand_ins.tei [--port N] [--key KEY] [--task embedding|reranker]` prints its URL once it listens.
Vectors are those of the default model, a rerank score is the cosine, from 0 to 1. POST /behave changes it:
`{"failure": "hang" | "slow" | "drip" | "text" | "rows" | "floats" | "nan" | 413 | 429 | 500 | null, "times": N,
"model": …, "max_chars": …}`; GET /seen tells how many texts came with each request.
"""

from __future__ import annotations

import argparse
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, cast

from orion_recall.models.onnx_encoder import OnnxEncoder, find_weights, prepared

MAX_BATCH = 4
_FOREVER_S = 600.0
_SLOW_S = 0.4


class _State:
    def __init__(self, key: str | None, task: str) -> None:
        self.key, self.task = key, task
        self.behaviour: dict[str, Any] = {"failure": None, "times": 0, "model": "all-MiniLM-L6-v2", "max_chars": 0}
        self.seen: list[int] = []
        self.lock = threading.Lock()
        self.encoder = OnnxEncoder(find_weights())

    def failure(self) -> Any:
        """What goes wrong with this request; `times` counts down, 0 is always."""
        with self.lock:
            now = self.behaviour["failure"]
            if now is not None and self.behaviour["times"]:
                self.behaviour["times"] -= 1
                if not self.behaviour["times"]:
                    self.behaviour["failure"] = None
            return now


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    state: _State


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    @property
    def state(self) -> _State:
        return cast("_Server", self.server).state

    def log_message(self, format: str, *args: Any) -> None:
        """Says nothing."""

    def do_GET(self) -> None:
        """Info, and what was seen."""
        if self.path == "/seen":
            self._answer(self.state.seen)
        elif self._may():
            said = self.state.behaviour
            self._answer(
                {
                    "model_id": said["model"],
                    "model_sha": "fca14538aa9956a46526bd1d0d11d69e19b5a101",
                    "model_dtype": "float32",
                    "model_type": {self.state.task: {"pooling": "mean"}},
                    "max_client_batch_size": MAX_BATCH,
                    "max_input_length": 256,
                }
            )

    def do_POST(self) -> None:
        """Embeds, reranks, or behaves differently from now on."""
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path == "/behave":
            self.state.behaviour |= body
            self._answer(None)
            return
        if not self._may():
            return
        texts: list[str] = body["inputs" if self.path == "/embed" else "texts"]
        self.state.seen.append(len(texts))
        most = self.state.behaviour["max_chars"]
        if len(texts) > MAX_BATCH or (most and sum(map(len, texts)) > most):
            self._answer({"error": f"too much: {texts[0]}", "error_type": "validation"}, 413)
            return
        vectors = self.state.encoder.encode([prepared(text) for text in texts])
        if self.path == "/embed":
            self._answer(self._bent([[float(number) for number in row] for row in vectors]))
            return
        query = self.state.encoder.encode([prepared(body["query"])])[0]
        cosines = [float(row @ query) for row in vectors]
        scores = [{"index": index, "score": max(0.0, cosine)} for index, cosine in enumerate(cosines)]
        self._answer(self._bent(sorted(scores, key=lambda one: -one["score"])))

    def _may(self) -> bool:
        """Whether to go on: the key is right, and nothing goes wrong with the request as a whole."""
        key = self.state.key
        if key is not None and self.headers.get("Authorization") != f"Bearer {key}":
            self._answer({"error": f"wrong: {self.headers.get('Authorization')}"}, 401)
            return False
        if self.command == "GET":
            return True
        self._failure = self.state.failure()
        if isinstance(self._failure, int):
            self._answer({"error": "no", "error_type": "overloaded"}, self._failure)
            return False
        if self._failure == "hang":
            time.sleep(_FOREVER_S)
        elif self._failure == "slow":
            time.sleep(_SLOW_S)
        elif self._failure == "text":
            self._send(b"<html>a proxy says no</html>", 200)
            return False
        elif self._failure == "drip":
            self.send_response(200)
            self.send_header("Content-Length", "1000000")
            self.end_headers()
            for _ in range(6000):
                self.wfile.write(b" ")
                self.wfile.flush()
                time.sleep(0.1)
            return False
        return True

    def _bent(self, answer: list[Any]) -> Any:
        """The answer, or the wrong one that was asked for."""
        match self._failure:
            case "rows":
                return answer[:-1]
            case "floats":
                return [row[:-1] if isinstance(row, list) else {"index": 0} for row in answer]
            case "nan":
                return [
                    [float("nan")] * 384 if isinstance(row, list) else {**row, "score": float("nan")}
                    for row in answer
                ]
            case _:
                return answer

    def _answer(self, value: object, status: int = 200) -> None:
        self._send(json.dumps(value).encode(), status)

    def _send(self, body: bytes, status: int) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def main() -> None:
    """Serves until it is killed."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--key")
    parser.add_argument("--task", default="embedding")
    given = parser.parse_args()
    server = _Server(("127.0.0.1", given.port), _Handler)
    server.state = _State(given.key, given.task)
    print(f"http://127.0.0.1:{server.server_address[1]}", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
