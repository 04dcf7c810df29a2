"""A collector that takes OTLP over HTTP, as OpenTelemetry's own does, and keeps the spans."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.waiting import wait_until


class Collector(ThreadingHTTPServer):
    """Spans as they came in, with the service that told them."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.spans: list[Span] = []
        self.services: set[str] = set()

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def wait_for(self, name: str) -> list[Span]:
        """Return the spans of a name, once there is one."""
        wait_until(lambda: any(span.name == name for span in list(self.spans)))
        return [span for span in list(self.spans) if span.name == name]

    def wait_for_id(self, span_id: bytes) -> Span:
        """Return the span of an id, once it is there."""
        wait_until(lambda: any(span.span_id == span_id for span in list(self.spans)))
        return next(span for span in list(self.spans) if span.span_id == span_id)


class _Handler(BaseHTTPRequestHandler):
    server: Collector

    def do_POST(self) -> None:
        assert self.path == "/v1/traces"
        body = self.rfile.read(int(self.headers["Content-Length"]))
        for told in ExportTraceServiceRequest.FromString(body).resource_spans:
            about = {one.key: one.value.string_value for one in told.resource.attributes}
            self.server.services.add(about["service.name"])
            for scope in told.scope_spans:
                self.server.spans.extend(scope.spans)
        self.send_response(200)
        self.send_header("Content-Type", "application/x-protobuf")
        self.end_headers()
        self.wfile.write(ExportTraceServiceResponse().SerializeToString())

    def log_message(self, *_: object) -> None:
        """Keep quiet."""


@contextmanager
def collecting() -> Iterator[Collector]:
    """Run a collector for the length of a block."""
    with Collector() as collector:
        thread = threading.Thread(target=collector.serve_forever)
        thread.start()
        try:
            yield collector
        finally:
            collector.shutdown()
            thread.join()


def attributes(span: Span) -> dict[str, str]:
    """Return the texts that a span has."""
    return {one.key: one.value.string_value for one in span.attributes}
