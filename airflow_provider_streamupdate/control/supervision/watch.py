"""Which supervisor watches an app: the holder of the lease ``supervisor/lease``. The others stand by."""

from __future__ import annotations

from ...core.boundaries import boundary
from ...core.coordination import lease
from ...core.coordination.lease import Lease
from ...core.errors import LeaseHeldError
from ...core.processes.process_identity import ProcessIdentity
from ...core.registry.registry import AppRegistry
from ...core.storage import Folder

KEPT_SECONDS = 60.0  # without a sign of life; then another supervisor takes over
RENEW_SECONDS = 15.0
_OWNER = "supervisor"


def take(app: AppRegistry) -> Lease:
    """Watch the app, or go on watching it; LeaseHeldError says who does."""
    folder = _folder(app)
    latest, own = lease.read(folder), ProcessIdentity.own()
    if latest is not None and not latest.released and latest.holder == own and latest.uptime is not None:
        ago = latest.uptime.ago()
        if ago is not None and ago < RENEW_SECONDS:
            return latest
    try:
        taken = lease.acquire(folder, _OWNER, own, alive=lambda held: _alive(folder, held), seconds=KEPT_SECONDS)
    except LeaseHeldError as error:
        held = lease.read(folder)
        who = f"process {held.holder.pid} on {held.holder.host}" if held and held.holder else "another supervisor"
        raise LeaseHeldError(f"{who} supervises {app.name} already; this one stands by") from error
    boundary("watching")
    return taken


def watched(app: AppRegistry) -> bool:
    """Return whether a supervisor watches the app now, as far as can be told without waiting."""
    folder = _folder(app)
    latest = lease.read(folder)
    return latest is not None and latest.holder is not None and not latest.released and _alive(folder, latest)


def leave(app: AppRegistry) -> None:
    """Stop watching the app, so that another supervisor can at once."""
    folder = _folder(app)
    latest = lease.read(folder)
    if latest is not None and latest.holder == ProcessIdentity.own():
        lease.release(folder, latest)


def _alive(folder: Folder, held: Lease) -> bool:
    """Return whether the holder lives: by the process table where it is proof, else by the lease's time."""
    assert held.holder is not None
    return held.holder.lives() is not False and lease.held(folder, held)


def _folder(app: AppRegistry) -> Folder:
    return app.folder.sub("supervisor")
