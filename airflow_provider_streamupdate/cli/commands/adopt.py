"""The command `adopt`: bring a query that was started without this package under its management."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from ..application import application_options
from ..output import batch_text, print_result, size
from ..progress import progress
from ..settings import Settings, pass_settings, shared

if TYPE_CHECKING:
    from ...core.registry.application import Application


@click.command(short_help="Make a snapshot from a checkpoint that is not managed yet.")
@click.argument("checkpoints", metavar="CHECKPOINT...", nargs=-1, required=True)
@click.option("--app", required=True, metavar="NAME", help="The app that the snapshot is for.")
@application_options(
    click.option(
        "--plan-from", "app_file", required=True, metavar="APP_FILE", help="The code that wrote it, as an app."
    )
)
@click.option("--snapshot", default="adopted", show_default=True, metavar="NAME", help="The snapshot's name.")
@shared
@pass_settings
def adopt(settings: Settings, application: Application, checkpoints: tuple[str, ...], app: str, snapshot: str) -> None:
    """Make a snapshot of app NAME from the checkpoint of a query that was started without this package.

    CHECKPOINT is the query's checkpointLocation, a path or URI; QUERY=CHECKPOINT for each query where the app has
    several. It is only read, and the query may run or be stopped. APP_FILE defines the app with the queries that wrote
    the checkpoints, unchanged; every source, stage and sink is compared with what the checkpoint holds, and Spark
    checks it on a clone. Then start the app with submit --snapshot, and change it with update.

    \b
    Examples:
      streamupdate adopt /data/checkpoints/flights --app flight-windows --plan-from flight_windows/v1.py \\
          --set input=/data/in --set output=/data/out
      streamupdate adopt long=/ck/long short=/ck/short --app flights --plan-from flights.py --snapshot adopted-2
    """
    client = settings.client(needs_root=False)
    given = by_query(checkpoints)
    with progress(f"adopting {', '.join(checkpoints)}", "run the same command again") as report:
        adopted = client.adopt(application, given, app, snapshot, report)
    taken = adopted.snapshot
    batches = ", ".join(
        f"{name} after batch {batch_text(query.batch)}" for name, query in sorted(taken.queries.items())
    )
    stop = (
        "if the query still runs, stop it before the app is started: both would write to the same sink. If it commits "
        "another batch before that, submit refuses this snapshot; then adopt the checkpoint again (--snapshot)"
    )
    from ...control.report_data import report_data

    document = {
        "app": taken.app,
        "name": taken.name,
        "deployment": taken.deployment,
        "adopted_from": taken.adopted_from,
        "batches": {name: query.batch for name, query in taken.queries.items()},
        "in_flight": {name: query.in_flight for name, query in taken.queries.items()},
        "size": taken.size,
        "report": report_data(adopted.report),
        "next": stop,
    }
    print_result(
        settings,
        document,
        f"adopted snapshot {taken.name} of {taken.app}: {batches}; {size(taken.size)}",
        f"next: streamupdate submit {application.file} --snapshot {taken.name} (with the same options)",
        stop,
    )


def by_query(given: Sequence[str]) -> str | dict[str, str]:
    """Return the paths by query, from ``query=path`` texts, or the one path of an app's only query.

    A text with a slash before its first ``=`` is a path.
    """
    pairs: dict[str, str] = {}
    for text in given:
        query, separator, path = text.partition("=")
        if not separator or "/" in query:
            if len(given) > 1:
                raise click.UsageError(f"{text!r} does not name its query; give QUERY=CHECKPOINT for each checkpoint")
            return text
        if query in pairs:
            raise click.UsageError(f"two checkpoints are given for query {query!r}; give one per query")
        pairs[query] = path
    return pairs
