"""Hold an app's lease for a block of work, and find out whether another process that holds it is alive."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator

from ..core import clock
from ..core.coordination import lease
from ..core.coordination.lease import Lease, renewing
from ..core.errors import LeaseHeldError, StreamUpdateError, WaitTimeoutError
from ..core.processes.process_identity import ProcessIdentity
from ..core.registry.registry import AppRegistry
from ..core.storage import Folder
from .waiting import wait_for

WATCH_SECONDS = 20.0  # a holder whose process cannot be inspected, and that gives none for so long, is dead
KEEP_SECONDS = 60.0  # how often the lease is renewed for an update that waits without a process
GIVE_BACK_SECONDS = 15.0  # how long the release is retried while the storage fails

log = logging.getLogger(__name__)

_in_use: set[str] = set()  # tokens of the leases this process holds, so that blocks may be nested


@contextlib.contextmanager
def holding(
    app: AppRegistry, owner: str, work: str = "", deletes: bool = False, seconds: float = lease.DEFAULT_SECONDS
) -> Iterator[None]:
    """Hold the app's lease for `owner` inside the block. `work` tells others what this is, unless it is an update's.

    Afterwards the lease is released, or, during an update, left for the process that continues the update.
    LeaseHeldError when another owner holds it, or another living process works for this owner (the threads of a
    process count as one). NewerFormatError, with nothing written, when a newer version of this package has worked on
    the app. NotFoundError when the app is deleted, unless the block does just that (`deletes`).

    seconds: after its holder's last sign of life the lease is free
    """
    app.check_readable()
    held = lease.acquire(
        app.folder,
        owner,
        ProcessIdentity.own(),
        alive=lambda other: alive(app.folder, other),
        needed=lambda other: under_way(app, other.owner),
        work=work,
        seconds=seconds,
    )
    if held.token in _in_use:  # an enclosing block holds it, and keeps it
        yield
        return
    _in_use.add(held.token)
    try:
        if not deletes:  # only now: a deletion may have begun, and died, before the lease was taken
            app.check_not_deleted()
        with renewing(app.folder, held):
            yield
    finally:
        _in_use.discard(held.token)
        _give_back(app, owner, held)


def _give_back(app: AppRegistry, owner: str, held: Lease) -> None:
    """Release the lease; retry while the storage fails.

    A failure never hides what the block did or raised. A lease that cannot be released is logged; it becomes free when
    this process has ended or the lease expires.
    """
    began, wait = clock.monotonic(), 0.1
    while True:
        try:
            (lease.leave if under_way(app, owner) else lease.release)(app.folder, held)
            return
        except StreamUpdateError as error:
            if clock.monotonic() - began + wait > GIVE_BACK_SECONDS:
                log.warning(
                    "the lease of app %s for %s could not be released: %s. Others can take it after this process has "
                    "ended, or from %s on",
                    *(app.name, owner, error, held.expires_at),
                )
                return
        clock.sleep(wait)
        wait *= 2


def check_free(app: AppRegistry, owner: str) -> None:
    """Raise LeaseHeldError when `owner` could not take the app's lease now. Takes nothing.

    It does not wait for a process's sign of life, so a later attempt may still fail.
    """
    held = lease.read(app.folder)
    if held is None or held.released or held.owner == owner or held.token in _in_use:
        return
    lives = held.holder.lives() if held.holder is not None else None
    if lease.held(app.folder, held) and (lives is not False or under_way(app, held.owner)):
        raise LeaseHeldError(lease.refusal(app.name, held))


def keep(app: AppRegistry, deployment: str | None) -> None:
    """Renew the lease for the update that ends with `deployment` running, while it waits without a process of its own.

    Does nothing when there is no such update, or a process works on it.
    """
    owners = [u.new for u in app.updates() if u.outcome is None and u.runs == deployment]
    held = lease.read(app.folder) if owners else None
    if held is None or held.owner not in owners or held.holder is not None or held.released:
        return
    if not held.renewed_at or abs(clock.age(held.renewed_at)) > KEEP_SECONDS:  # of a clock ahead, too
        lease.renew(app.folder, held)


def alive(folder: Folder, held: Lease) -> bool:
    """Return whether the process that holds a lease is alive.

    Where the process table proves it, the answer is immediate. All other holders are watched for a sign of life, for
    up to WATCH_SECONDS on this process's own monotonic clock: those on another machine, in another container, of an
    earlier boot, and those whose last sign of life is overdue.
    """
    if held.holder is None:
        return False
    lives = held.holder.lives()
    if lives is False or (lives and lease.held(folder, held)):
        return lives

    def changed() -> bool | None:
        return True if lease.read(folder) != held else None

    try:
        return wait_for(changed, "a sign of life", WATCH_SECONDS)
    except WaitTimeoutError:
        return False


def under_way(app: AppRegistry, deployment: str) -> bool:
    """Return whether an update that brings `deployment` in has begun and not ended, and is about what runs."""
    record = app.update(deployment)
    return record is not None and record.under_way(app.current_id())
