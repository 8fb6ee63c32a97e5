"""The command `adopt`: bring a query that was started without this package under its management."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from ..acceptance import ARGUMENTS
from ..application import driver_options, pairs, parameters, script_or_app, seen_batch_option
from ..output import print_result, size
from ..progress import progress
from ..settings import Settings, pass_settings, shared

_STOP = (
    "if the query still runs, stop it before the app is started: both would write to the same sink. If it commits "
    "another batch before that, submit refuses this snapshot; then adopt the checkpoint again (--snapshot)"
)


@click.command(short_help="Make a snapshot from a checkpoint that is not managed yet.")
@click.argument("checkpoints", metavar="CHECKPOINT... | SCRIPT [-- ARGUMENTS...]", nargs=-1, required=True)
@click.option("--app", required=True, metavar="NAME", help="The app that the snapshot is for.")
@click.option("--plan-from", "app_file", metavar="APP_FILE", help="The code that wrote it, as an app, or as a script.")
@click.option("--set", "params", type=pairs, multiple=True, help="A parameter of the app; repeatable.")
@seen_batch_option
@driver_options
@click.option("--strict", is_flag=True, help="Fail on a parameter that no query function reads.")
@click.option("--snapshot", default="adopted", show_default=True, metavar="NAME", help="The snapshot's name.")
@shared
@pass_settings
@click.pass_context
def adopt(
    context: click.Context,
    settings: Settings,
    checkpoints: tuple[str, ...],
    app: str,
    app_file: str | None,
    snapshot: str,
    strict: bool,
    **options: Any,
) -> None:
    """Make a snapshot of app NAME from the checkpoint of a query that was started without this package.

    CHECKPOINT is the query's checkpointLocation, a path or URI; QUERY=CHECKPOINT for each query where the app has
    several. It is only read, and the query may run or be stopped. APP_FILE defines the app with the queries that wrote
    the checkpoints, unchanged; every source, stage and sink is compared with what the checkpoint holds, and Spark
    checks it on a clone. Then start the app with submit --snapshot, and change it with update.

    A plain script names its checkpoints itself: give the script, and its arguments behind --. With --plan-from SCRIPT
    other checkpoints are taken.

    \b
    Examples:
      streamupdate adopt my_app.py --app clicks -- --topic clicks
      streamupdate adopt /data/checkpoints/flights --app flight-windows --plan-from flight_windows/v1.py \\
          --set input=/data/in --set output=/data/out
      streamupdate adopt long=/ck/long short=/ck/short --app flights --plan-from flights.py --snapshot adopted-2
    """
    before, arguments = _split(checkpoints, context.meta[ARGUMENTS])
    own = app_file is None and len(before) == 1 and before[0].endswith(".py")
    if not own and app_file is None:
        raise click.UsageError("give the code that wrote the checkpoint (--plan-from), or a script alone")
    file, is_script = before[0] if own else str(app_file), own or bool(arguments) or bool(options["seen_batch"])
    options |= {"script_app": app if is_script else None, "script_arguments": arguments}
    application = script_or_app(file, options, dict(options.pop("params")))
    client = settings.client(needs_root=False)
    with parameters(strict), progress(f"adopting {', '.join(before)}", "run the same command again") as report:
        adopted = client.adopt(application, None if own else by_query(before), app, snapshot, report)
    taken = adopted.snapshot
    from ...control.report_data import report_data

    document = {
        "app": taken.app,
        "name": taken.name,
        "deployment": taken.deployment,
        "adopted_from": taken.adopted_from,
        "batches": taken.batches,
        "in_flight": {name: query.in_flight for name, query in taken.queries.items()},
        "size": taken.size,
        "report": report_data(adopted.report),
        "next": _STOP,
    }
    print_result(
        settings,
        document,
        f"adopted snapshot {taken.name} of {taken.app}: {taken.position}; {size(taken.size)}",
        f"next: streamupdate submit {application.file} --snapshot {taken.name} (with the same options)",
        _STOP,
    )


def _split(given: tuple[str, ...], words: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return what stands before -- and what behind. words: the command line"""
    behind = tuple(words[words.index("--") + 1 :]) if "--" in words else ()
    return given[: len(given) - len(behind)], behind


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
