"""The command that shows or sends the trace of an update."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from ..output import print_facts, print_json, print_table
from ..printable import echo
from ..settings import Settings, pass_settings, shared

if TYPE_CHECKING:
    from ...control.update.trace.span import Span, Trace
    from ...core.registry.update import UpdateRecord

SECONDS = 30.0  # that the command waits for the collector


@click.command(short_help="Show the trace of an update, or send it.")
@click.argument("app")
@click.argument("deployment", required=False)
@click.option("--send", "sends", is_flag=True, help="Send it to where the environment's OTEL_ variables say.")
@shared
@pass_settings
def trace(settings: Settings, app: str, deployment: str | None, sends: bool) -> None:
    """Show the trace of an update of APP: its steps, and what the drivers did in them. Or send it to OpenTelemetry.

    DEPLOYMENT: the one that the update brought in. Without it: the newest update. A trace is sent by itself when an
    update ends, where OTEL_EXPORTER_OTLP_ENDPOINT is set; sent again, it has the same ids.

    \b
    Examples:
      streamupdate trace flight-windows
      OTEL_EXPORTER_OTLP_ENDPOINT=http://localhost:4317 streamupdate trace flight-windows v2 --send
    """
    from ...control.update.trace.reading import read
    from ...core.errors import NotFoundError, StreamUpdateError

    registry = settings.context().registry.existing(app)
    if deployment is None:
        updates = registry.updates()
        if not updates:
            raise NotFoundError(f"app {app} has had no update, so it has no trace")
        deployment = updates[-1].new
    record, made = read(registry, deployment)
    if sends:
        from ...control.update.trace.sending import send, why_not

        if record.outcome is None:
            raise StreamUpdateError(
                f"the update of {app} to {deployment} has not ended, so its trace is not complete; send it afterwards"
            )
        if why := why_not():
            raise StreamUpdateError(f"the trace was not sent: {why}")
        send(made, SECONDS)
    if settings.as_json:
        print_json(_document(record, made, sends))
    else:
        _print(record, made, sends)


def _print(record: UpdateRecord, made: Trace, sent: bool) -> None:
    print_facts(
        {
            "trace": f"{made.trace_id:032x}",
            "part of": made.parent,
            "update": f"{record.app}: {record.old} to {record.runs}, strategy {record.strategy}",
            "outcome": made.root.attributes["streamupdate.outcome"],
        }
    )
    echo()
    rows = (
        ("  " * depth + span.name, f"{(span.begin - made.root.begin).total_seconds():.3f}", f"{span.seconds:.3f}", told)
        for depth, span in _tree(made)
        for told in [(span.error or "").partition("\n")[0] or None]
    )
    print_table(("SPAN", "AT", "SECONDS", "ERROR"), rows, right=("AT", "SECONDS"))
    if sent:
        echo("\nsent")


def _tree(made: Trace) -> Iterator[tuple[int, Span]]:
    """The spans with their depths, each below the one that it is part of."""
    below: dict[int | None, list[Span]] = {}
    for span in made.spans:
        below.setdefault(span.parent_id, []).append(span)
    stack = [(0, made.root)]
    while stack:
        depth, span = stack.pop()
        yield depth, span
        stack += [(depth + 1, child) for child in reversed(below.get(span.span_id, []))]


def _document(record: UpdateRecord, made: Trace, sent: bool) -> dict[str, Any]:
    return {
        "app": record.app,
        "deployment": record.new,
        "trace_id": f"{made.trace_id:032x}",
        "parent": made.parent,
        "sent": sent,
        "spans": [
            {
                "name": span.name,
                "span_id": f"{span.span_id:016x}",
                "parent_id": None if span.parent_id is None else f"{span.parent_id:016x}",
                "begin": span.begin.isoformat(),
                "end": span.end.isoformat(),
                "seconds": span.seconds,
                "attributes": span.attributes,
                "error": span.error,
                "links": list(span.links),
            }
            for span in made.spans
        ],
    }
