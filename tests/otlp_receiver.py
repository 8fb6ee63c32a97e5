"""A receiver of OTLP over HTTP, for tests: it keeps the spans that it is sent, or answers as badly as it is told."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import attrs
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)


@attrs.define
class Receiver:
    """url: of its base; answer: the status it answers with; never: it does not answer"""

    url: str
    answer: int = 200
    never: bool = False
    over: threading.Event = attrs.field(factory=threading.Event)
    requests: list[ExportTraceServiceRequest] = attrs.field(factory=list)
    headers: list[dict[str, str]] = attrs.field(factory=list)

    @property
    def spans(self) -> list[Any]:
        """All that were sent, in order."""
        return [s for r in self.requests for rs in r.resource_spans for ss in rs.scope_spans for s in ss.spans]

    @property
    def resources(self) -> list[dict[str, str]]:
        found = [rs.resource for r in self.requests for rs in r.resource_spans]
        return [{a.key: a.value.string_value for a in resource.attributes} for resource in found]


@contextmanager
def receiver() -> Iterator[Receiver]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if made.never:
                made.over.wait()
                return
            if made.answer == 200:
                made.headers.append(dict(self.headers))
                made.requests.append(ExportTraceServiceRequest.FromString(body))
            self.send_response(made.answer)
            self.send_header("Content-Type", "application/x-protobuf")
            self.end_headers()
            self.wfile.write(ExportTraceServiceResponse().SerializeToString())

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    made = Receiver(url=f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield made
    finally:
        made.over.set()
        server.shutdown()
        server.server_close()
        thread.join()
