"""The command `try`: whether a plain script can be managed, found by running it."""

from __future__ import annotations

import re
import shlex
import signal
import sys
import tempfile
from pathlib import Path
from typing import Any

import click

from ..application import driver_options, parameters, script_or_app, seen_batch_option
from ..option_types import Duration
from ..output import print_result
from ..progress import progress
from ..settings import Settings, pass_settings, shared


@click.command("try", short_help="Run a plain script, writing nothing, and update it to itself.")
@click.argument("script")
@click.argument("arguments", metavar="[-- ARGUMENTS...]", nargs=-1)
@click.option("--app", metavar="NAME", help="The app's name (else the file's).")
@seen_batch_option
@driver_options
@click.option("--timeout", type=Duration(), default="300", show_default=True, help="How long each step may take.")
@shared
@pass_settings
def try_script(
    settings: Settings, script: str, arguments: tuple[str, ...], app: str | None, timeout: float, **given: Any
) -> None:
    """Say whether SCRIPT, which spark-submit runs today, can be updated without losing its state.

    It is planned as submit would, run on the input that its sources give, saved, updated to itself and cancelled, on
    local Spark and in a temporary folder that is removed. Its sinks are muted: foreachBatch functions are not called.
    What it does besides its queries, it does; what Spark writes for it there is told. No root is needed.

    Exit code: 0 it can be managed, 1 not, with the reason, 2 wrong usage.

    \b
    Examples:
      streamupdate try your_script.py -- --topic clicks
      streamupdate try your_script.py --conf spark.jars=/jars/delta.jar -- --topic clicks
    """
    from ...control.client import StreamUpdateClient
    from ...control.drivers.launcher import SparkSubmit

    given["master"] = given["master"] or "local[2]"
    name = app or re.sub(r"[^a-z0-9]+", "-", Path(script).stem.lower()).strip("-")
    if not name:
        raise click.UsageError(f"{script} gives the app no name: give it one (--app NAME)")
    again = _written_again(app=name, arguments=arguments, **given)
    application = script_or_app(script, {**given, "script_app": name, "script_arguments": arguments}, {})
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _: sys.exit(128 + number))  # ends the driver, and removes the folder
    with tempfile.TemporaryDirectory(prefix="streamupdate-try-") as root:
        client = StreamUpdateClient(root, SparkSubmit(settings.spark_submit))
        with parameters(strict=False), progress(f"trying {script}", "nothing was kept") as report:
            tried = client.try_script(application, timeout, report)
    rows = {f"{query}/{stage}": n for query, found in tried.state_rows.items() for stage, n in found.items()}
    document = {
        "app": name,
        "batches": tried.batches,
        "state_rows": rows,
        "pause_seconds": tried.update.pause_seconds,
        "warnings": list(tried.plan.warnings),
    }
    state = [f"{stage} ({count} row{'' if count == 1 else 's'})" for stage, count in rows.items()]
    print_result(
        settings,
        document,
        f"{script} can be managed as it is: its update to itself carried "
        + (", ".join(state) or "its position; it has no state"),
        *(
            f"query {query.name} had no input, so that no state was saved"
            for query in tried.plan.queries
            if query.name not in tried.batches
        ),
        f"next: streamupdate submit {shlex.quote(script)} {again}",
    )


def _written_again(app: str, arguments: tuple[str, ...], **given: Any) -> str:
    """Return the options with which the script was tried, as submit takes them."""
    pairs = [(flag, value) for flag in ("py_files", "files") for value in given[flag]]
    for flag in ("conf", "env_vars", "seen_batch"):
        pairs += [(flag, f"{key}={value}") for key, value in given[flag]]
    words = ["--app", app, "--master", given["master"]]
    for flag, value in pairs:
        words += [f"--{flag.removesuffix('_vars').replace('_', '-')}", value]
    return shlex.join([*words, *(("--", *arguments) if arguments else ())])
