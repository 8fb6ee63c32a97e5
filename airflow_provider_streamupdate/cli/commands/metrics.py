"""The command that shows the apps as metrics."""

from __future__ import annotations

import signal
import sys
import threading
from typing import TYPE_CHECKING

import click

from ..messages import echo
from ..output import print_json
from ..settings import Settings, pass_settings, shared

if TYPE_CHECKING:
    from ...control.metrics import Metrics

PORT = 9464  # OpenTelemetry's default for a Prometheus exporter


@click.command(short_help="Show the apps as metrics, or serve them to Prometheus.")
@click.option("--serve", is_flag=True, help="Serve them over HTTP, at /metrics, until the command is ended.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=PORT, show_default=True, help="The server's port; 0: any free one."
)
@click.option("--address", default="127.0.0.1", show_default=True, help="The address that the server listens on.")
@shared
@pass_settings
def metrics(settings: Settings, serve: bool, port: int, address: str) -> None:
    """Print the metrics of all apps under the root (OpenMetrics), or serve them to Prometheus.

    Each request reads the root. The server has no password: by default only this machine reaches it.

    \b
    Examples:
      streamupdate metrics --root /data/streams
      streamupdate metrics --serve --port 9464 --root /data/streams
    """
    from ...control.metrics import Metrics, text_of

    context = settings.context()
    found = Metrics(context)
    if serve:
        _serve(found, address, port, context.root)
    elif settings.as_json:
        print_json([{"name": s.name, "labels": dict(s.labels), "value": float(s.value)} for s in found.samples()])
    else:
        sys.stdout.write(text_of(list(found.lines())).decode())


def _serve(found: Metrics, address: str, port: int, root: str) -> None:
    from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

    from ...control.metrics import content_type_of, text_of
    from ...core.processes.threads import Alarm

    class Handler(BaseHTTPRequestHandler):
        """Answers every path with the metrics."""

        def do_GET(self) -> None:
            content_type = content_type_of(self.headers.get("Accept", ""))
            text = text_of(list(found.lines()), content_type)
            self.send_response(200)
            self.send_header("Content-Type", content_type)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_: object) -> None:
            """Log no requests."""

    try:
        server = ThreadingHTTPServer((address, port), Handler)
    except OSError as error:
        raise click.ClickException(f"cannot listen at {address}:{port}: {error}; give another --port") from error
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    end = Alarm()
    before = signal.signal(signal.SIGTERM, lambda *_: end.set())
    echo(f"metrics of {root} at http://{address}:{server.server_port}/metrics", err=True)
    try:
        end.wait()
    finally:
        signal.signal(signal.SIGTERM, before)
        server.shutdown()
        server.server_close()
        thread.join()
