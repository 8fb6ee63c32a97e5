"""Commands on snapshots: save, list, verify, delete."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ..messages import FAILED, echo
from ..option_types import Duration
from ..output import batches_text, moment, print_json, print_result, print_table, size
from ..progress import progress
from ..settings import Settings, pass_settings, shared

if TYPE_CHECKING:
    from ...control.client import StreamUpdateClient


@click.command("save-snapshot", short_help="Export a running app's state under a name.")
@click.argument("app")
@click.argument("name")
@click.option("--cancel", is_flag=True, help="End the app with the snapshot: no batch runs afterwards.")
@click.option("--timeout", type=Duration(), default="300", show_default=True, help="How long the snapshot may take.")
@shared
@pass_settings
def save(settings: Settings, app: str, name: str, cancel: bool, timeout: float) -> None:
    """Save the state of the running APP as snapshot NAME. The app keeps running; with --cancel it ends.

    A snapshot is consistent: it holds each query's state after its last committed batch. If the same snapshot is
    already under way, the command waits for it. For an app that has ended or failed, --cancel saves what it committed,
    so that `submit --snapshot NAME` continues where it stopped.

    \b
    Examples:
      streamupdate save-snapshot flight-windows nightly
      streamupdate save-snapshot flight-windows before-move --cancel
    """
    from ...control.overview import snapshot_document

    client = settings.client_of(app)
    interrupted = f"the snapshot continues without this command; run it again to wait for {name}"
    with progress(f"snapshot {name} of {app}", interrupted) as report:
        snapshot = client.save_snapshot(app, name, cancel, timeout, report)
    said = f"saved snapshot {name} of {app}: {size(snapshot.size)}, {size(snapshot.bytes_new)} of it new"
    print_result(settings, snapshot_document(snapshot), said)


@click.command("list-snapshots", short_help="List snapshots.")
@click.argument("app", required=False)
@shared
@click.pass_context
def list_all(ctx: click.Context, app: str | None) -> None:
    """List the snapshots of APP, or of all apps, oldest first.

    SIZE counts all of a snapshot's files; snapshots of one deployment share unchanged files. KIND is live (the app
    kept running), cancelled (no batch ran after it), adopted (from a checkpoint that was not managed) or damaged (its
    description cannot be read; then the exit code is 1).

    \b
    Example:
      streamupdate list-snapshots flight-windows
    """
    from ...control.overview import DAMAGED, damaged_document, snapshot_document

    settings = ctx.ensure_object(Settings)
    client = settings.client()
    snapshots, damaged = client.snapshots(app), client.damaged_snapshots(app)
    if settings.as_json:
        print_json([*(snapshot_document(s) for s in snapshots), *(damaged_document(d) for d in damaged)])
    else:
        print_table(
            ("TIME", "SIZE", "APP", "SNAPSHOT NAME", "DEPLOYMENT", "KIND", "BATCH"),
            [
                *(
                    (moment(s.created_at), size(s.size), s.app, s.name, s.deployment, s.kind, batches_text(s.batches))
                    for s in snapshots
                ),
                *((None, None, d.app, d.name, None, DAMAGED, None) for d in damaged),
            ],
            right=("SIZE",),
        )
        for found in damaged:
            echo(f"Error: snapshot {found.name} of {found.app} is damaged: {found.problem}", err=True)
    if damaged:
        ctx.exit(FAILED)


@click.command("verify-snapshot", short_help="Compare a snapshot's files with their checksums.")
@click.argument("app")
@click.argument("name")
@shared
@pass_settings
def verify(settings: Settings, app: str, name: str) -> None:
    """Read every file of snapshot NAME of APP and compare it with its checksum. On failure, name the damaged files.

    \b
    Example:
      streamupdate verify-snapshot flight-windows nightly
    """
    client = settings.client()
    client.registry.with_snapshots(app)  # NotFoundError before progress is shown
    with progress(f"verifying snapshot {name} of {app}", "nothing was changed") as report:
        files = client.verify_snapshot(app, name, report)
    document = {"app": app, "name": name, "files": files, "valid": True}
    print_result(settings, document, f"snapshot {name} of {app} is intact: {files} files verified")


@click.command("delete-snapshot", short_help="Delete a snapshot.")
@click.argument("app")
@click.argument("name")
@shared
@pass_settings
def delete(settings: Settings, app: str, name: str) -> None:
    """Delete snapshot NAME of APP and the bytes that no other snapshot needs.

    Refused for an app's last snapshot, for one in use, and while an update of the app is under way. A damaged snapshot
    can be deleted; until it is, deleting other snapshots frees no bytes.

    \b
    Example:
      streamupdate delete-snapshot flight-windows nightly
    """
    client = settings.client_of(app)
    with progress(f"deleting snapshot {name} of {app}", "run the same command again") as report:
        freed = client.delete_snapshot(app, name, report)
    document = {"app": app, "name": name, "bytes_freed": freed}
    print_result(settings, document, f"deleted snapshot {name} of {app}: {size(freed)} freed")


def need_snapshot(client: StreamUpdateClient, name: str | None) -> None:
    """Raise NotFoundError when no app has a snapshot of this name, before a driver is started to find the app's name.

    InvalidInputError for a name that no snapshot can have. None: no snapshot is asked for.
    """
    if name is None:
        return
    from ...core.errors import NotFoundError
    from ...core.names import check_name
    from ...core.snapshots.snapshots import SnapshotStore

    check_name("snapshot", name)
    if not any(SnapshotStore(app).exists(name) for app in client.registry.all_with_snapshots()):
        raise NotFoundError(f"no app under {client.root} has a snapshot {name!r}; see list-snapshots")
