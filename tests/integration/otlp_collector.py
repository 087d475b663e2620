"""A collector that takes what an exporter posts, and keeps it."""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span


class Collector:
    """What came, and where to send more."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.posted: list[tuple[str, bytes]] = []

    def span_names(self) -> list[str]:
        """The names of all spans that came."""
        return [span.name for span in self._spans()]

    def attributes(self, name: str) -> dict[str, str | int]:
        """The attributes of the one span of that name, those that are texts or whole numbers."""
        (found,) = [span for span in self._spans() if span.name == name]
        return {
            one.key: one.value.string_value if one.value.HasField("string_value") else one.value.int_value
            for one in found.attributes
        }

    def _spans(self) -> list[Span]:
        requests = [
            ExportTraceServiceRequest.FromString(body) for path, body in self.posted if path == "/v1/traces"
        ]
        scopes = [scope for request in requests for part in request.resource_spans for scope in part.scope_spans]
        return [span for scope in scopes for span in scope.spans]

    def metric_names(self) -> set[str]:
        """The names of all metrics that came."""
        bodies = [body for path, body in self.posted if path == "/v1/metrics"]
        requests = [ExportMetricsServiceRequest.FromString(body) for body in bodies]
        scopes = [
            scope for request in requests for part in request.resource_metrics for scope in part.scope_metrics
        ]
        return {metric.name for scope in scopes for metric in scope.metrics}


@contextmanager
def collecting() -> Generator[Collector]:
    """A collector on a free port of this machine."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            collector.posted.append((self.path, body))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            """Nothing on standard error."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        collector = Collector(f"http://127.0.0.1:{server.server_port}")
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield collector
        finally:
            server.shutdown()
            thread.join()
