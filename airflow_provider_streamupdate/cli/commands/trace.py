"""The command that shows or sends the trace of an update."""

from __future__ import annotations

import json
from itertools import pairwise

import click

from ..output import print_json, print_table
from ..settings import Settings, pass_settings, shared

SECONDS = 30.0  # that the command waits for the collector


@click.command(short_help="Show the trace of an update, or send it.")
@click.argument("app")
@click.argument("deployment", required=False)
@click.option("--send", "sends", is_flag=True, help="Send it to the collector that the OTEL_ variables name.")
@shared
@pass_settings
def trace(settings: Settings, app: str, deployment: str | None, sends: bool) -> None:
    """Show the trace of an update of APP: its steps, and what the drivers did in them. Or send it to OpenTelemetry.

    DEPLOYMENT: the one that the update brought in. Without it: the newest update. A trace is sent automatically when an
    update ends, if OTEL_EXPORTER_OTLP_ENDPOINT is set. Needs the extra otel, which Airflow's environment has.

    \b
    Examples:
      streamupdate trace flight-windows
      OTEL_EXPORTER_OTLP_ENDPOINT=http://localhost:4317 streamupdate trace flight-windows v2 --send
    """
    from ...core.errors import EnvironmentProblem, NotFoundError

    try:
        from ...control.update.trace import make_spans, send
    except ImportError as error:
        raise EnvironmentProblem("traces need: pip install 'airflow-provider-streamupdate[otel]'") from error
    registry = settings.context().registry.existing(app)
    newest = [record.new for record in registry.updates()[-1:]]
    if not newest:
        raise NotFoundError(f"app {app} has had no update")
    spans = make_spans(registry, deployment or newest[0])
    if sends:
        send(spans, SECONDS)
    if settings.as_json:
        print_json([json.loads(span.to_json()) for span in spans])
        return
    depths, rows = dict[int, int](), []
    for span in spans:
        depths[span.context.span_id] = depth = depths.get(span.parent.span_id, -1) + 1 if span.parent else 0
        times = [(at or 0) / 1e9 for at in (spans[0].start_time, span.start_time, span.end_time)]
        seconds = [f"{after - before:.3f}" for before, after in pairwise(times)]
        rows.append(("  " * depth + span.name, *seconds, span.status.description))
    print_table(("SPAN", "AT", "SECONDS", "ERROR"), rows, right=("AT", "SECONDS"))
