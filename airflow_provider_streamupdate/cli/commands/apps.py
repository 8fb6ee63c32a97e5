"""Commands that start, stop and pause an app: submit, restart, cancel, suspend, resume, delete-app."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import attrs
import click

from ..application import application_argument
from ..messages import echo
from ..option_types import Duration
from ..output import print_result, size
from ..progress import progress
from ..settings import Settings, pass_settings, shared
from ..update_options import option_named
from .snapshots import need_snapshot

if TYPE_CHECKING:
    from ...control.operations.submit import Deployed, SubmitOptions


@click.command(short_help="Start an app, fresh or from a snapshot.")
@application_argument
@click.option("--deployment", metavar="ID", help="Id of the deployment, never used before (else made from its digest).")
@click.option("--snapshot", metavar="NAME", help="Start with the state of this snapshot (else the app must have none).")
@click.option("--fresh", is_flag=True, help="Start without state on purpose, although the app has some.")
@option_named("agree", "For a submit without state: QUERY/STAGE of a stage that no later update could carry.")
@option_named("renames")
@click.option("--fork", is_flag=True, help="Continue from the snapshot beside the snapshot's app, under new query ids.")
@click.option("--from-app", metavar="APP", help="With --fork: the snapshot's app (else the file's own).")
@click.option("--timeout", type=Duration(), default="180", show_default=True, help="How long the start may take.")
@shared
@pass_settings
def submit(settings: Settings, **given: Any) -> None:
    """Start the app that APP_FILE defines, and wait until its queries run.

    The driver is detached: it outlives this command. With --snapshot the new version is first checked against the
    snapshot, and stages are matched by name. Use update, not submit, to replace an app that already runs, and restart
    for an app whose driver died.

    The same command again, after its process died for example, waits for the driver that it has started.

    An app that has state (committed batches, or snapshots) is not started without it, unless --fresh is given. A fresh
    start begins with batch 0, where the sources are configured to begin. It is refused where a sink would skip these
    batches, and needs agreement where a sink would get results a second time.

    An app that could run, but never be updated, is refused before anything is started. The message names the part that
    is not understood, with its operator and the reason.

    With --fork the app continues from a snapshot of another app (--from-app), or of its own, under new query ids, so
    that both can run side by side. Their sinks must differ.

    \b
    Examples:
      streamupdate submit flight_windows/v1.py --set input=/data/in --set output=/data/out --master 'local[2]'
      streamupdate submit flight_windows/v1.py --set input=/data/in --set output=/data/out --snapshot nightly
      streamupdate submit trial.py --set output=/data/trial --snapshot nightly --fork --from-app flight-windows
    """
    from ...control.operations.submit import SubmitOptions

    deployed = _submit(settings, SubmitOptions(**given))
    already = ", as it did already" if deployed.reattached else ""
    said = f"{deployed.app} runs as deployment {deployed.deployment}{already} (epoch {deployed.epoch})"
    print_result(settings, deployed, said)


def _submit(settings: Settings, asked: SubmitOptions) -> Deployed:
    from ...control.operations.submit import submit
    from ...core.names import check_new_id

    if (asked.fork and asked.snapshot is None) or (asked.from_app and not asked.fork):
        raise click.UsageError("--fork needs --snapshot, and --from-app needs --fork")
    if asked.fresh and asked.snapshot is not None:
        raise click.UsageError("--fresh starts without state, --snapshot with state: leave one of them out")
    if asked.deployment is not None:
        check_new_id(asked.deployment)
    client = settings.client(needs_root=False)
    need_snapshot(client, asked.snapshot)
    client.registry.folder.check_writable()  # before the plan, which takes tens of seconds
    interrupted = "if its driver was started, it keeps running (streamupdate list shows it, cancel ends it)"
    with progress(f"submitting {asked.application.file}", interrupted) as report:
        return submit(client.context, attrs.evolve(asked, progress=report))


@click.command(short_help="Restart an app's dead driver from its own checkpoint.")
@click.argument("app")
@click.option("--deployment", metavar="ID", help="Restart only if this deployment is the current one.")
@click.option(
    "--until-finished",
    is_flag=True,
    help="Wait until all queries have ended by themselves; a driver that runs is joined.",
)
@click.option("--timeout", type=Duration(), default="300", show_default=True, help="How long the start may take.")
@shared
@pass_settings
def restart(settings: Settings, app: str, deployment: str | None, until_finished: bool, timeout: float) -> None:
    """Start the driver of APP's current deployment again, and wait until its queries run.

    It continues where it stopped, with its own code, parameters and checkpoint, after its driver was lost, failed, was
    cancelled or finished. Nothing is updated. Refused while its driver is alive, and during an update: continue the
    update or roll it back.

    With --until-finished it is one run of an app whose queries end by themselves (trigger availableNow). The command
    ends with them, and fails when the driver does.

    \b
    Examples:
      streamupdate restart flight-windows
      streamupdate restart nightly-counts --until-finished
    """
    client = settings.client_of(app)
    interrupted = f"if its driver was started, it keeps running (streamupdate status {app}); else run the command again"
    with progress(f"restarting {app}", interrupted) as report:
        run = client.run_until_finished if until_finished else client.restart
        deployed = run(app, deployment, timeout, report)
    how = "has finished its run as deployment {}" if until_finished else "runs as deployment {} again"
    print_result(settings, deployed, f"{deployed.app} {how.format(deployed.deployment)} (epoch {deployed.epoch})")


@click.command(short_help="End an app with all its drivers, at once or after its current batch.")
@click.argument("app")
@click.option("--drain", is_flag=True, help="Let the batch in flight commit (else interrupt it).")
@click.option("--drain-timeout", type=Duration(), help="How long the drain may take.  [default: 300; with --drain]")
@shared
@pass_settings
def cancel(settings: Settings, app: str, drain: bool, drain_timeout: float | None) -> None:
    """End every driver of APP: the current one, a new version that gets ready or runs beside it, a hot standby. No
    snapshot is taken: save-snapshot --cancel does both.

    Without --drain the batch in flight is interrupted; a driver that does not stop is killed. With --drain the batch
    in flight commits and none begins; after --drain-timeout the command fails and the drain continues.

    An update under way ends with it, as cancelled. APP stays down afterwards: no supervisor, hot standby or rollback of
    that update starts it again, until you run restart, submit or rollback. An app that has ended is not changed.

    \b
    Examples:
      streamupdate cancel flight-windows --drain --drain-timeout 5m
      streamupdate cancel flight-windows
    """
    if drain_timeout is not None and not drain:
        raise click.UsageError("--drain-timeout needs --drain")
    client = settings.client_of(app)
    interrupted = f"{app} was told to end and is still ending (streamupdate status {app})"
    with progress(f"ending {app}", interrupted) as report:
        cancelled = client.cancel(app, drain, drain_timeout or 300.0, report)
    print_result(settings, cancelled, str(cancelled))


def _pausing(verb: str, short_help: str, does: str, takes: str) -> click.Command:
    """Return the command that asks a running app's driver to do `verb`, a method of the client."""
    text = f"{does}\n\n\b\nExample:\n  streamupdate {verb} flight-windows"

    @click.command(verb, short_help=short_help, help=text)
    @click.argument("app")
    @click.option("--timeout", type=Duration(), default="300", show_default=True, help=takes)
    @shared
    @pass_settings
    def command(settings: Settings, app: str, timeout: float) -> None:
        client = settings.client_of(app)
        interrupted = f"{app} was asked to {verb} and will do so (streamupdate status {app})"
        with progress(f"asking {app} to {verb}", interrupted):
            getattr(client, verb)(app, timeout)
        state = client.status(app).state
        print_result(settings, {"app": app, "state": state}, f"{app} is {state}")

    return command


suspend = _pausing(
    "suspend",
    "Pause an app: its driver stays, no batch runs.",
    "Drain the queries of APP but keep its driver. resume continues where they stopped.",
    "How long the drain may take.",
)
resume = _pausing(
    "resume",
    "Start a suspended app's queries again.",
    "Start the queries of a suspended APP again, where they stopped.",
    "How long the start may take.",
)


@click.command("delete-app", short_help="Delete a cancelled app, with its state and snapshots.")
@click.argument("app")
@click.option("--keep-snapshots", is_flag=True, help="Keep the snapshots, so that another app can start from them.")
@click.option("--yes", is_flag=True, help="Do not ask for the app's name (for scripts).")
@shared
@pass_settings
def delete(settings: Settings, app: str, keep_snapshots: bool, yes: bool) -> None:
    """Delete the cancelled APP: its deployments with their code and state, its records, and its snapshots.

    This cannot be undone, so you must type the app's name. Refused while the app is not cancelled, while a driver of it
    may be alive, and while another app has yet to build its state from a snapshot of it. If it is interrupted, nothing
    of the app can be started any more, and the same command completes it.

    With --keep-snapshots the name stays taken. `submit --fork --snapshot NAME --from-app APP` starts another app from
    such a snapshot; delete-app without the option deletes the snapshots, too.

    Files of sinks, other apps that were forked from it, and checkpoints that it was adopted from stay as they are.

    \b
    Examples:
      streamupdate delete-app flight-windows
      streamupdate delete-app flight-windows --keep-snapshots --yes
    """
    client = settings.client()
    client.check_deletable(app, keep_snapshots)
    if not yes:
        echo(f"This cannot be undone. Type the app's name ({app}) to delete it:", err=True)
        if sys.stdin.readline().strip() != app:
            raise click.UsageError(f"that was not {app}; nothing was deleted (scripts pass --yes)")
    interrupted = "nothing of the app can be started any more; run the same command again to complete it"
    with progress(f"deleting {app}", interrupted) as report:
        deleted = client.delete_app(app, keep_snapshots, report)
    kept = f"; kept {len(deleted.snapshots)} snapshots: {', '.join(deleted.snapshots)}" if deleted.snapshots else ""
    print_result(settings, deleted, f"deleted app {app}: {size(deleted.bytes_freed)} freed{kept}", deleted.stays)
