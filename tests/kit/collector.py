"""A collector of spans as a service of its own would be: OTLP over HTTP, decoded by OpenTelemetry's own definitions."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from kit.wait import wait


@dataclass(frozen=True, slots=True)
class Received:
    service: str
    name: str
    trace_id: str
    span_id: str
    parent_id: str
    """Empty: it has none."""
    start: int
    end: int
    attributes: dict[str, Any]


@dataclass
class Collector:
    url: str
    answer: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    """What is sent back with each answer."""
    body: bytes = b""
    spans: list[Received] = field(default_factory=list)
    requests: list[dict[str, str]] = field(default_factory=list)
    """The headers of each, in lower case."""

    def named(self, name: str) -> list[Received]:
        return [each for each in self.spans if each.name == name]

    def until(self, name: str, count: int, seconds: float) -> list[Received]:
        return wait(lambda: len(found := self.named(name)) >= count and found, seconds, f"{count} spans {name}")

    def trace(self, trace_id: str) -> list[Received]:
        return [each for each in self.spans if each.trace_id == trace_id]


@contextmanager
def collector() -> Iterator[Collector]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            content = self.rfile.read(int(self.headers["Content-Length"]))
            made.requests.append({name.lower(): value for name, value in self.headers.items()} | {"path": self.path})
            if made.answer == 200:
                made.spans += _decoded(content)
            self.send_response(made.answer)
            for name, value in made.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(made.body)))
            self.end_headers()
            self.wfile.write(made.body)

        def log_message(self, *_: object) -> None:
            """Tests say what they see."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    made = Collector(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield made
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _decoded(content: bytes) -> Iterator[Received]:
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    for resource in ExportTraceServiceRequest.FromString(content).resource_spans:
        service = _attributes(resource.resource.attributes)["service.name"]
        for span in (span for scope in resource.scope_spans for span in scope.spans):
            yield Received(
                service,
                span.name,
                span.trace_id.hex(),
                span.span_id.hex(),
                span.parent_span_id.hex(),
                span.start_time_unix_nano,
                span.end_time_unix_nano,
                _attributes(span.attributes),
            )


def _attributes(found: Any) -> dict[str, Any]:  # protobuf's
    return {each.key: getattr(each.value, each.value.WhichOneof("value")) for each in found}
