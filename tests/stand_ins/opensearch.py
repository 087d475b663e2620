"""A stand-in for an OpenSearch index: `_search` and `_count` over HTTP. Scores are the words that texts share."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Document = Mapping[str, Any]


@contextmanager
def opensearch(documents: Mapping[str, Document]) -> Generator[str]:
    """The address of an index with these documents by id, while the block runs."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])) or "{}")
            what = self.path.rsplit("/", 1)[-1]
            answer = {"count": len(documents)} if what == "_count" else {"hits": {"hits": _hits(documents, body)}}
            told = json.dumps(answer).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(told)))
            self.end_headers()
            self.wfile.write(told)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/notes"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _hits(documents: Mapping[str, Document], body: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    query = body["query"]["bool"]
    asked = _words(query["must"][0]["match"]["text"])
    kept = {name: one for name, one in documents.items() if all(_holds(one, by) for by in query["filter"])}
    scores = {name: float(len(asked & _words(one["text"]))) for name, one in kept.items()}
    best = sorted((-score, name) for name, score in scores.items() if score > 0)[: body["size"]]
    return [{"_id": name, "_score": -score, "_source": kept[name]} for score, name in best]


def _words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.lower()))


def _holds(document: Document, filter_: Mapping[str, Any]) -> bool:
    ((kind, how),) = filter_.items()
    ((field, wanted),) = how.items()
    value = document.get(field)
    if kind == "term":
        return value == wanted
    if kind == "terms":
        return bool(set(value or ()) & set(wanted))
    return value is not None and all(
        {"gte": value >= moment, "lt": value < moment, "lte": value <= moment}[name]
        for name, moment in wanted.items()
    )
