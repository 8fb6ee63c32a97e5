"""The command `doctor`: check what the other commands need."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from ..messages import FAILED
from ..output import print_json, print_table
from ..settings import Settings, shared

if TYPE_CHECKING:
    from ...control.doctor import Finding


@click.command(short_help="Check Java, Spark, the root, the clocks and the apps.")
@click.option("--conn-id", metavar="ID", help="Check the setup of this Airflow connection (needs Airflow installed).")
@shared
@click.pass_context
def doctor(ctx: click.Context, conn_id: str | None) -> None:
    """Check everything that the other commands need, and say what to do where something is wrong.

    It checks Java and spark-submit; that Spark's version is supported, and its environment not mixed with Airflow's;
    that the root can be written and locked, and shows writes at once; the clocks of this machine, the root and the
    drivers; that each app's files can be read, and its driver is not lost, failed or stopped. No driver is started.

    Exit code: 0 all is well (there may be warnings), 1 something failed.

    \b
    Examples:
      streamupdate doctor --root /data/streams
      streamupdate doctor --conn-id streamupdate_default
    """
    from ...control.doctor import FAILED as BAD
    from ...control.doctor import examine
    from ...control.drivers.launcher import find_spark_submit

    settings = ctx.ensure_object(Settings)
    if conn_id is not None:
        findings = list(_of_connection(conn_id))
    else:
        context = settings.context(needs_root=False) if settings.root else None
        findings = list(examine(find_spark_submit(settings.spark_submit), {}, context))
    if settings.as_json:
        print_json(findings)
    else:
        print_table(("CHECK", "RESULT", "FOUND"), ((f.thing, f.outcome, f.found) for f in findings))
    if any(f.outcome == BAD for f in findings):
        ctx.exit(FAILED)


def _of_connection(conn_id: str) -> Iterator[Finding]:
    """Check the connection itself, then the installation it describes."""
    from ...control.doctor import FAILED as BAD
    from ...control.doctor import OK, Finding, examine
    from ...control.drivers.launcher import find_spark_submit
    from ...core.errors import StreamUpdateError

    # As `airflow connections test` does: else Airflow looks for connections in the environment and not in its database.
    os.environ.setdefault("_AIRFLOW_PROCESS_CONTEXT", "server")
    try:
        from ...hooks.streamupdate import StreamUpdateHook
    except ImportError as error:
        raise click.UsageError(
            f"--conn-id needs Airflow in this environment ({error}); without Airflow use --root instead"
        ) from error
    hook = StreamUpdateHook(conn_id)
    try:
        named = hook.settings
        hook.get_launcher().check_connection()
    except StreamUpdateError as error:
        yield Finding("connection", BAD, str(error))
        return
    yield Finding("connection", OK, f"{conn_id}; drivers start through connection {named.spark_conn_id}")
    yield from examine(find_spark_submit(named.spark_submit), named.env_vars, hook.get_client().context)
