"""The command `gc`: free disk space that nothing needs any more."""

from __future__ import annotations

import click

from ..messages import echo
from ..output import print_json, print_table, size
from ..progress import progress
from ..settings import Settings, pass_settings, shared


@click.command("gc", short_help="Free disk space that nothing needs any more.")
@click.argument("app", required=False)
@click.option("--dry-run", is_flag=True, help="Only report what would be freed.")
@click.option(
    "--keep-deployments",
    type=click.IntRange(min=0),
    default=2,
    show_default=True,
    help="Keep the checkpoints of the N newest superseded deployments, in addition to those a rollback needs.",
)
@click.option(
    "--keep-days",
    type=click.FloatRange(min=0),
    default=0,
    show_default=True,
    help="Also keep those superseded less than this many days ago.",
)
@shared
@pass_settings
def gc(settings: Settings, app: str | None, dry_run: bool, keep_deployments: int, keep_days: float) -> None:
    """Free disk space that nothing needs any more, of APP or of all apps. Works on a full disk.

    It frees: bytes of failed exports, objects that no snapshot refers to, checkpoints and logs of superseded
    deployments, and rehearsals and temporary files left behind by killed processes. Only `delete-snapshot` deletes
    snapshots.

    It never frees: the current checkpoint; one that an update under way, a restart or a rollback continues from; one
    whose driver may be alive. Everything kept is listed with the reason. No rollback is possible to a deployment whose
    checkpoint was freed. An app that is being updated is left as it is.

    BYTES is what the disk gets back: a file that a snapshot shares with a checkpoint is free when both are gone.

    \b
    Examples:
      streamupdate gc --dry-run
      streamupdate gc flight-windows --keep-deployments 0 --keep-days 7
    """
    from ...core.snapshots.superseded import Retention

    client = settings.client_of(app) if app else settings.client()
    retention = Retention(deployments=keep_deployments, days=keep_days)
    with progress(f"{'looking for' if dry_run else 'freeing'} unneeded files", "run the same command again") as report:
        if app:
            done = [client.collect(app, retention, dry_run, report)]
        else:
            done = [client.collect_or_leave(each, retention, dry_run, report) for each in client.registry.apps()]
    total = sum(each.bytes for each in done)
    if settings.as_json:
        print_json({"dry_run": dry_run, "bytes": total, "apps": done})
        return
    print_table(
        ("APP", "KIND", "NAME", "BYTES", "FREED" if not dry_run else "WOULD BE FREED", "WHY"),
        [
            (each.app, thing.kind, thing.name, size(thing.bytes) if yes else None, "yes" if yes else "no", thing.reason)
            for each in done
            for things, yes in ((each.freed, True), (each.kept, False))
            for thing in things
        ],
        right=("BYTES",),
    )
    echo(f"{size(total)} {'would be freed' if dry_run else 'freed'}")
