"""Stand-ins for model servers on the test's own loop: text-embeddings-inference, and OpenAI chat completions.

Each fails as `behave` says: with a status, or "hang", "slow", "drip", "not_json" and the names in its function.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from orion_recall.models.onnx_encoder import OnnxEncoder, find_weights, prepared
from tests.stand_ins.servers import Answer, Asked, answering

MAX_BATCH = 4
_MODEL = "all-MiniLM-L6-v2"
_STATED = re.compile(r"(I|She|He|[A-Z][\w-]+) (works at|work at|moved to) ([A-Z][\w -]*[\w])")
_SAID = {
    "prose": "Sure! Here is what I found: Ana seems to work at a place in Norway - how nice - I think.",
    "refusing": "I'm sorry, but I can't help with extracting personal information.",
}


@dataclass(slots=True)
class ModelServer:
    """A running stand-in: `seen` is what came with each request, `others` the paths that it does not serve.

    `script` has the answers of a language model by the text that it is asked about.
    """

    url: str
    key: str | None = None
    model: str = _MODEL
    seen: list[Any] = field(default_factory=list[Any])
    others: list[str] = field(default_factory=list[str])
    script: dict[str, str] = field(default_factory=dict[str, str])
    _failure: object = None
    _times: int = 0

    def behave(self, failure: object = None, *, times: int = 0, model: str = _MODEL) -> None:
        """From now on as told, for so many requests (0: all); without a word as a good server does."""
        self._failure, self._times, self.model = failure, times, model
        self.script = {}

    def next_failure(self) -> Any:
        failure, self._times = self._failure, self._times - 1
        if self._times == 0:
            self._failure = None
        return failure

    def answer(self, asked: Asked, serve: Callable[[Any, Any], Answer | None]) -> Answer | None:
        """What is served to a body, unless the key is wrong or the request as a whole fails."""
        if self.key is not None and asked.headers.get("authorization") != f"Bearer {self.key}":
            return _json({"error": f"wrong: {asked.headers.get('authorization')}"}, 401)
        body = json.loads(asked.body or b"null")
        match failure := self.next_failure() if asked.method == "POST" else None:
            case int():
                return _json({"error": f"no: {body}"}, failure)
            case "hang":
                return None
            case "drip":
                return Answer(body=b" " * 6000, drip_s=0.1)
            case "not_json":
                return Answer(body=b"<html>a proxy says hello</html>")
            case "slow":
                answer = serve(body, None)
                return answer and replace(answer, delay_s=0.4)
            case _:
                return serve(body, failure)


@asynccontextmanager
async def tei_server(
    key: str | None = None, *, task: str = "embedding", port: int = 0
) -> AsyncGenerator[ModelServer]:
    """Vectors of the default model; a rerank score is the cosine. It fails with "rows", "floats" and "nan", too."""
    encoder, server = OnnxEncoder(find_weights()), ModelServer("", key)

    def info(*_: object) -> Answer:
        return _json(
            {
                "model_id": server.model,
                "model_sha": "fca14538aa9956a46526bd1d0d11d69e19b5a101",
                "model_type": {task: {"pooling": "mean"}},
                "max_client_batch_size": MAX_BATCH,
                "max_input_length": 256,
            }
        )

    def embedded(body: Any, failure: object) -> Answer:
        server.seen.append(len(body["inputs"]))
        rows = encoder.encode([prepared(text) for text in body["inputs"]]).tolist()
        wrong = {
            "rows": rows[:-1],
            "floats": [row[:-1] for row in rows],
            "nan": [[float("nan")] * 384 for _ in rows],
        }
        return _json(wrong.get(str(failure), rows))

    def reranked(body: Any, failure: object) -> Answer:
        server.seen.append(len(body["texts"]))
        query, *rows = encoder.encode([prepared(text) for text in (body["query"], *body["texts"])])
        found = [{"index": place, "score": max(0.0, float(row @ query))} for place, row in enumerate(rows)]
        found.sort(key=lambda one: -one["score"])
        wrong = {
            "rows": found[:-1],
            "floats": [{"index": 0} for _ in found],
            "nan": [one | {"score": float("nan")} for one in found],
        }
        return _json(wrong.get(str(failure), found))

    serve = {"/info": info, "/embed": embedded, "/rerank": reranked}
    async with answering(lambda asked: server.answer(asked, serve[asked.path]), port=port) as running:
        server.url = running.url
        yield server


@asynccontextmanager
async def chat_server(key: str | None = None) -> AsyncGenerator[ModelServer]:
    """A tiny "model" that knows "works at" and "moved to", and answers in the form that it is asked for.

    It fails with "refusal", "oversized", "cut_off", "away" and "no_limits", too, and says "prose" and "refusing".
    """
    server = ModelServer("", key)

    def chat(body: Any, failure: object) -> Answer:
        server.seen.append(body)
        match failure:
            case "oversized":
                return _completion("ANA - WORKS AT - FJORD\n" * 100_000)
            case "cut_off":
                return Answer(body=b'{"choices": [', headers={"Content-Length": "1000", "Connection": "close"})
            case "away":
                return Answer(status=307, headers={"Location": f"{server.url}/stolen"})
            case "no_limits" if "max_tokens" in body:
                return _json({"error": {"message": "Unsupported parameter: 'max_tokens'"}}, 400)
            case "refusal":
                return _completion(None, refusal="I can't.")
            case _:
                return _completion(_SAID.get(str(failure)) or _extracted(body["messages"], server.script))

    def serve(asked: Asked) -> Answer | None:
        if asked.path != "/v1/chat/completions":
            server.others.append(asked.path)
            return _json({"error": "no such path"}, 404)
        return server.answer(asked, chat)

    async with answering(serve) as running:
        server.url = f"{running.url}/v1"
        yield server


def _json(value: object, status: int = 200) -> Answer:
    return Answer(status=status, body=json.dumps(value).encode())


def _completion(text: str | None, *, refusal: str | None = None) -> Answer:
    message = {"role": "assistant", "content": text, "refusal": refusal}
    return _json({"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]})


def _extracted(messages: list[dict[str, str]], script: Mapping[str, str]) -> str:
    """What the script has, else the last message's data read as a model would: pronouns from the speaker and from
    the turn before."""
    data = json.loads(messages[-1]["content"])
    if data["text"] in script:
        return script[data["text"]]
    before = [turn["text"] for turn in data.get("before", ())]
    named = re.findall(r"[A-Z][a-z]+", before[-1] if before else "") or ["HE"]
    meant = {"I": data.get("speaker", "I"), "She": named[-1], "He": named[-1]}
    found = [f"{meant.get(who, who)} - {what} - {where}" for who, what, where in _STATED.findall(data["text"])]
    return "\n".join(found).upper() or "NONE"
