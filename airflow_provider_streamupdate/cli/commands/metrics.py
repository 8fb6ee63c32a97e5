"""The command that shows the apps as metrics."""

from __future__ import annotations

import signal
import sys
from typing import TYPE_CHECKING

import click

from ..output import print_json
from ..printable import echo
from ..settings import Settings, pass_settings, shared

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

PORT = 9464  # OpenTelemetry's default for a Prometheus exporter


@click.command(short_help="Show the apps as metrics, or serve them to Prometheus.")
@click.option("--serve", is_flag=True, help="Serve them over HTTP, at /metrics, until it is ended.")
@click.option("--port", type=click.IntRange(0, 65535), default=PORT, show_default=True, help="Of the server; 0: any.")
@click.option("--address", default="127.0.0.1", show_default=True, help="That the server listens at.")
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
    from ...control.metrics import registry_of, text_of

    context = settings.context()
    registry = registry_of(context)
    if serve:
        _serve(registry, address, port, context.root)
    elif settings.as_json:
        print_json(
            [{"name": s.name, "labels": s.labels, "value": s.value} for m in registry.collect() for s in m.samples]
        )
    else:
        sys.stdout.write(text_of(registry)[0].decode())


def _serve(registry: CollectorRegistry, address: str, port: int, root: str) -> None:
    from prometheus_client import start_http_server

    from ...core.processes.alarm import Alarm

    try:
        server, thread = start_http_server(port, addr=address, registry=registry)
    except OSError as error:
        raise click.ClickException(f"cannot listen at {address}:{port}: {error}; give another --port") from error
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
