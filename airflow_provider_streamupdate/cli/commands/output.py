"""The command output: what an app has written since its last update."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ..messages import echo
from ..output import moment, print_facts, print_json, print_table
from ..settings import Settings, pass_settings, shared

if TYPE_CHECKING:
    from ...control.operations.verification.output.batches import QueryOutput, WrittenBatch


@click.command(short_help="Show which batches, files and table versions an app has written since its last update.")
@click.argument("app")
@click.option("--deployment", metavar="ID", help="What this deployment wrote, for example one that was rolled back.")
@shared
@pass_settings
def output(settings: Settings, app: str, deployment: str | None) -> None:
    """Show what APP has written since its last update: the batches of each query, with the files or table versions
    of each batch where the sink has a log of them (Spark's file sinks, Delta Lake).

    With --deployment ID: what that deployment wrote. After a rollback, these are the batches to remove downstream.

    \b
    Examples:
      streamupdate output flight-windows
      streamupdate output flight-windows --deployment 3f9c2a71 --json
    """
    from ...control.operations.verification.output.batches import output as output_of

    found = output_of(settings.context(), app, deployment)
    if settings.as_json:
        return print_json(found)
    if not found:
        echo(f"{app} has committed no batch since its last update" if deployment is None else "it committed no batch")
    for number, query in enumerate(found):
        if number:
            echo()
        _print(query)
    return None


def _print(query: QueryOutput) -> None:
    print_facts(
        {
            "query": query.query,
            "deployment": query.deployment,
            "batches": f"up to {query.last}" if query.first is None else f"{query.first}-{query.last}",
            "sink": " ".join(filter(None, (query.sink, query.place))),
            "note": query.note,
        }
    )
    print_table(
        ("BATCH", "COMMITTED", "WROTE"),
        ((batch.batch, moment(batch.committed_at), _wrote(batch)) for batch in query.batches),
        right=("BATCH",),
    )


def _wrote(batch: WrittenBatch) -> str | None:
    if batch.files is None:
        return None
    version = f"version {batch.version}: " if batch.version is not None else ""
    return f"{version}{', '.join(batch.files) or 'no files'}"
