"""The command that frees what nothing needs."""

from __future__ import annotations

import click

from .output import print_json, print_table, size
from .progress import note, progress
from .settings import Settings, pass_settings, shared


@click.command("gc", short_help="Free the disk space of what nothing needs any more.")
@click.argument("app", required=False)
@click.option("--dry-run", is_flag=True, help="Only report what would be freed.")
@click.option(
    "--keep-deployments",
    type=click.IntRange(min=0),
    default=2,
    show_default=True,
    help="Keep the checkpoints of the N newest superseded deployments, in addition to the ways back.",
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
    """Free what nothing needs any more, of APP or of all apps, also when the disk is full.

    That is: bytes of exports that failed, objects that no snapshot refers to, checkpoints and logs of superseded
    deployments, rehearsals and temporary files left behind by killed processes. Snapshots are deleted by
    `delete-snapshot` alone.

    Never freed: the checkpoint that is current, one that an update under way, a restart or a rollback goes on with, one
    whose driver may live. Each that is kept is told with the reason. A deployment whose checkpoint was freed cannot be
    gone back to. An app that is being updated is left as it is.

    BYTES are what the disk gets back: a file that a snapshot shares with a checkpoint is free when both are gone.

    \b
    Examples:
      streamupdate gc --dry-run
      streamupdate gc flight-windows --keep-deployments 0 --keep-days 7
    """
    from ..core.snapshots.superseded import Retention

    client = settings.client_of(app) if app else settings.client()
    retention = Retention(deployments=keep_deployments, days=keep_days)
    with progress(f"{'looking for' if dry_run else 'freeing'} what nothing needs", "run it again") as report:
        done = (
            [client.collect(app, retention, dry_run, report)] if app else client.collect_all(retention, dry_run, report)
        )
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
    note(settings, f"{size(total)} {'would be freed' if dry_run else 'freed'}")
