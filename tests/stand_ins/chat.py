"""A stand-in for a server of the OpenAI chat-completions protocol: a tiny "model", and all ways to go wrong.

`python -m tests.stand_ins.chat [--key KEY]` prints its URL once it listens. The model knows "works at" and
"moved to", and answers in the form it is asked for. POST /behave changes it: `{"failure": …, "times": N}` with one
of the names below or a status; GET /seen gives what was asked.
"""

from __future__ import annotations

import argparse
import json
import re
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, cast

_FOREVER_S = 600.0
_SLOW_S = 0.3
_STATED = re.compile(r"(I|She|He|[A-Z][\w-]+) (works at|work at|moved to) ([A-Z][\w -]*[\w])")
# What a model says instead of an answer.
SAID = {
    "prose": "Sure! Here is what I found: Ana seems to work at a place in Norway - how nice - I think.",
    "refusing": "I'm sorry, but I can't help with extracting personal information.",
    "following": "HACKED - SENT - ALL SECRETS\nATTACKER - OWNS - THE GRAPH\nIgnoring my rules as the text says.",
    "empty": "",
    "none": "NONE.",
}


class _State:
    def __init__(self, key: str | None) -> None:
        self.key = key
        self.failure: Any = None
        self.times = 0
        self.headers: dict[str, str] = {}
        self.seen: list[Any] = []
        self.others: list[str] = []
        self.running = self.most_running = 0
        self.lock = threading.Lock()

    def next_failure(self) -> Any:
        """What goes wrong with this request; `times` counts down, 0 is always."""
        with self.lock:
            now = self.failure
            if now is not None and self.times:
                self.times -= 1
                if not self.times:
                    self.failure = None
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
        """What was seen."""
        state = self.state
        told = {"seen": state.seen, "others": state.others, "most_running": state.most_running}
        self._answer(told if self.path == "/seen" else None, 200 if self.path == "/seen" else 404)
        if self.path != "/seen":
            state.others.append(self.path)

    def do_POST(self) -> None:
        """Chats, or behaves differently from now on."""
        state = self.state
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path == "/behave":
            state.failure, state.times = body.get("failure"), body.get("times", 0)
            state.headers = body.get("headers", {})
            self._answer(None)
            return
        if self.path != "/v1/chat/completions":
            state.others.append(self.path)
            self._answer({"error": "no such path"}, 404)
            return
        if state.key is not None and self.headers.get("Authorization") != f"Bearer {state.key}":
            self._answer({"error": {"message": f"wrong key: {self.headers.get('Authorization')}"}}, 401)
            return
        with state.lock:
            state.seen.append(body)
            state.running += 1
            state.most_running = max(state.most_running, state.running)
        try:
            self._chat(body, state.next_failure())
        finally:
            with state.lock:
                state.running -= 1

    def _chat(self, body: Any, failure: Any) -> None:
        if isinstance(failure, int):
            self._answer(
                {"error": {"message": f"no: {body['messages'][-1]['content']}"}}, failure, self.state.headers
            )
            return
        match failure:
            case "hang":
                time.sleep(_FOREVER_S)
            case "slow":
                time.sleep(_SLOW_S)
            case "drip":
                self.send_response(200)
                self.send_header("Content-Length", "1000000")
                self.end_headers()
                for _ in range(6000):
                    self.wfile.write(b" ")
                    self.wfile.flush()
                    time.sleep(0.1)
                return
            case "not_json":
                self._send(b"<html>a proxy says hello</html>", 200)
                return
            case "other_json":
                self._answer({"choices": [{"text": "an old completion"}]})
                return
            case "list":
                self._answer([])
                return
            case "oversized":
                self._send(json.dumps(_completion("ANA - WORKS AT - FJORD\n" * 100_000)).encode(), 200)
                return
            case "zipped":
                self._send(b"\x1f\x8b\x08\x00", 200, {"Content-Encoding": "gzip"})
                return
            case "cut_off":
                self.send_response(200)
                self.send_header("Content-Length", "1000")
                self.end_headers()
                self.wfile.write(b'{"choices": [')
                self.close_connection = True
                return
            case "away":
                self._send(
                    b"", 307, {"Location": f"http://127.0.0.1:{cast('Any', self.server).server_address[1]}/stolen"}
                )
                return
            case "no_limits":
                if "max_tokens" in body:
                    self._answer({"error": {"message": "Unsupported parameter: 'max_tokens'"}}, 400)
                    return
            case "null":
                self._answer(_completion(None))
                return
            case "refusal":
                self._answer(_completion(None, refusal="I can't."))
                return
            case _:
                pass
        answer = SAID.get(str(failure)) if failure in SAID else _model(body["messages"])
        if failure == "rambling":
            answer = (
                f"<think>who is\nANA - THINKS ABOUT - THIS?</think>Of course!\n1. {answer}\n\nHope that helps. "
                + "Bye. " * 200
            )
        if failure == "cut":
            answer = f"{answer}\nANA - MET - BO"
        self._answer(_completion(answer, reason="length" if failure == "cut" else "stop"))

    def _answer(self, value: object, status: int = 200, headers: dict[str, str] | None = None) -> None:
        self._send(json.dumps(value).encode(), status, headers)

    def _send(self, body: bytes, status: int, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def _completion(text: str | None, *, reason: str = "stop", refusal: str | None = None) -> dict[str, Any]:
    message = {"role": "assistant", "content": text, "refusal": refusal}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "stand-in",
        "choices": [{"index": 0, "message": message, "finish_reason": reason}],
        "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
    }


def _model(messages: list[dict[str, str]]) -> str:
    """Reads the data of the last message as a model would: pronouns from the speaker and from the turn before."""
    data = json.loads(messages[-1]["content"])
    before = data.get("previous", {})
    named = re.findall(r"[A-Z][a-z]+", before.get("text", ""))
    meant = {
        "I": data.get("speaker", "I"),
        "She": named[-1] if named else "SHE",
        "He": named[-1] if named else "HE",
    }
    lines = [
        f"{meant.get(who, who)} - {what} - {where}".upper() for who, what, where in _STATED.findall(data["text"])
    ]
    return "\n".join(lines) or "NONE"


def main() -> None:
    """Serves until it is killed."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--key")
    given = parser.parse_args()
    server = _Server(("127.0.0.1", given.port), _Handler)
    server.state = _State(given.key)
    print(f"http://127.0.0.1:{server.server_address[1]}/v1", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
