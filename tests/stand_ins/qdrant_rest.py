"""Stands in for a Qdrant server: the REST calls that the index sends, answered by the client's own local mode.

    python -m tests.stand_ins.qdrant_rest [PORT]      # on loopback; port 0, the default, is any free one

prints its URL and answers until it is killed. Nothing is kept. With QDRANT__SERVICE__API_KEY set it wants that key,
as the server does. It is for small data: the local mode looks at every point.
"""

from __future__ import annotations

import json
import os
import re
import sys
import threading
import warnings
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, TypeVar, cast

from pydantic import BaseModel
from qdrant_client import QdrantClient
from qdrant_client.http import models as qm

from tests.stand_ins import quick_qdrant

_COLLECTION = re.compile(r"/collections/(?P<name>[^/?]+)(?P<rest>/[^?]*)?")
Body = bytes
M = TypeVar("M", bound=BaseModel)


class Stand:
    """One server's collections. The local mode is not made for several threads: one call at a time."""

    def __init__(self) -> None:
        quick_qdrant.install()
        self._client, self._lock = QdrantClient(":memory:"), threading.Lock()
        self._indexes: dict[str, dict[str, Any]] = {}
        client = self._client
        self._calls: dict[tuple[str, str], Callable[[str, Body], Any]] = {
            ("GET", "/exists"): lambda name, _: {"exists": client.collection_exists(name)},
            ("GET", ""): self._info,
            ("PUT", ""): self._create,
            ("DELETE", ""): lambda name, _: client.delete_collection(name),
            ("PUT", "/index"): self._index,
            ("PUT", "/points"): lambda name, body: _done(client.upsert(name, _read(qm.PointsList, body).points)),
            ("POST", "/points"): self._retrieve,
            ("POST", "/points/query/batch"): lambda name, body: client.query_batch_points(
                name, _read(qm.QueryRequestBatch, body).searches
            ),
            ("POST", "/points/query"): lambda name, body: client.query_batch_points(
                name, [_read(qm.QueryRequest, body)]
            )[0],
            ("POST", "/points/delete"): lambda name, body: _done(client.delete(name, _read(qm.PointIdsList, body))),
            ("POST", "/points/count"): lambda name, body: client.count(name, _read(qm.CountRequest, body).filter),
            ("POST", "/points/scroll"): self._scroll,
            ("POST", "/facet"): self._facet,
        }

    def answer(self, method: str, path: str, body: Body) -> tuple[int, Any]:
        """The status, and what the server says."""
        if (method, path) == ("GET", "/"):
            return 200, {"title": "qdrant - vector search engine", "version": "1.19.0"}
        place = _COLLECTION.match(path)
        call = self._calls.get((method, (place["rest"] or ""))) if place else None
        if place is None or call is None:
            return 404, ""
        with self._lock:
            if call not in (self._calls["GET", "/exists"], self._calls["PUT", ""]) and (
                not self._client.collection_exists(place["name"])
            ):
                return 404, _refusal(f"Not found: Collection `{place['name']}` doesn't exist!")
            try:
                result = call(place["name"], body)
            except ValueError as error:
                status = 409 if "already exists" in str(error) else 400
                return status, _refusal(f"Wrong input: {error}")
        return 200, {"result": _plain(result), "status": "ok", "time": 0.0}

    def _info(self, name: str, _: Body) -> Any:
        # The local mode has no payload indexes; the server tells which there are.
        fields = {field: {"data_type": "keyword", "points": 0} for field in self._indexes.get(name, {})}
        return _plain(self._client.get_collection(name)) | {"payload_schema": fields}

    def _create(self, name: str, body: Body) -> Any:
        wanted = _read(qm.CreateCollection, body)
        self._indexes.pop(name, None)
        return self._client.create_collection(
            name, vectors_config=wanted.vectors, sparse_vectors_config=wanted.sparse_vectors
        )

    def _index(self, name: str, body: Body) -> Any:
        wanted = _read(qm.CreateFieldIndex, body)
        self._indexes.setdefault(name, {})[wanted.field_name] = wanted.field_schema
        return _done(wanted)

    def _retrieve(self, name: str, body: Body) -> Any:
        wanted = _read(qm.PointRequest, body)
        vectors = wanted.with_vector or False
        payload = True if wanted.with_payload is None else wanted.with_payload
        return self._client.retrieve(name, wanted.ids, with_payload=payload, with_vectors=vectors)

    def _scroll(self, name: str, body: Body) -> Any:
        wanted = _read(qm.ScrollRequest, body)
        limit, offset, order = wanted.limit or 10, wanted.offset, wanted.order_by
        points, after = self._client.scroll(
            name, wanted.filter, limit=limit, offset=offset, with_payload=True, order_by=order
        )
        return {"points": _plain(points), "next_page_offset": after}

    def _facet(self, name: str, body: Body) -> Any:
        wanted = _read(qm.FacetRequest, body)
        return self._client.facet(
            name, wanted.key, facet_filter=wanted.filter, limit=wanted.limit or 10, exact=True
        )


def _read(model: type[M], body: Body) -> M:
    return model.model_validate_json(body or b"{}")


def _done(_: object) -> dict[str, Any]:
    return {"operation_id": 0, "status": "completed"}


def _refusal(words: str) -> Any:
    return {"status": {"error": words}, "time": 0.0}


def _plain(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    return [_plain(one) for one in cast("list[Any]", value)] if isinstance(value, list) else value


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    stand = Stand()
    key: str | None = None

    def _serve(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.key and self.headers.get("api-key") != self.key:
            status, answer = 401, "Must provide an API key or an Authorization bearer token"
        else:
            status, answer = self.stand.answer(self.command, self.path, body)
        sent = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(sent)))
        self.end_headers()
        self.wfile.write(sent)

    do_GET = do_PUT = do_POST = do_DELETE = _serve  # noqa: N815 (names that http.server looks up)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: standard output says where it is, and no more."""


def main() -> None:
    warnings.simplefilter("ignore")  # the local mode warns of what it leaves out
    port = int(sys.argv[1]) if len(sys.argv) > 1 else 0
    _Handler.key = os.environ.get("QDRANT__SERVICE__API_KEY")
    with ThreadingHTTPServer(("127.0.0.1", port), _Handler) as server:
        print(f"http://127.0.0.1:{server.server_address[1]}", flush=True)
        server.serve_forever()


if __name__ == "__main__":
    main()
