"""Holding an app's lease for as long as a block of work takes, and telling whether another process that holds it
lives."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Iterator

from ..core import clock
from ..core.coordination import lease
from ..core.coordination.lease import Lease
from ..core.errors import LeaseHeldError, StreamUpdateError, WaitTimeoutError
from ..core.processes.process_identity import ProcessIdentity
from ..core.registry.registry import AppRegistry
from ..core.storage import Folder
from .waiting import wait_for

RENEW_SECONDS = 5.0  # between a holder's signs of life
WATCH_SECONDS = 20.0  # a holder that cannot be looked at, and gives none for so long, is gone
KEEP_SECONDS = 60.0  # how often a lease is renewed for who waits
GIVE_BACK_SECONDS = 15.0  # how long it is tried, when the storage fails

log = logging.getLogger(__name__)

_in_use: set[str] = set()  # tokens of the leases this process holds, so that blocks may be nested


@contextlib.contextmanager
def holding(app: AppRegistry, owner: str) -> Iterator[None]:
    """Hold the app's lease for `owner` inside the block; LeaseHeldError when another owner has it, or another living
    process works for this one (the threads of a process count as one); NewerFormatError, with nothing written, when a
    newer version of this package has worked on the app. Afterwards it is given back, or, during an update, left to
    whoever goes on with it."""
    app.check_readable()
    held = lease.acquire(
        app.folder,
        owner,
        ProcessIdentity.own(),
        alive=lambda other: alive(app.folder, other),
        needed=lambda other: under_way(app, other.owner),
    )
    if held.token in _in_use:  # a block around this one holds it, and goes on
        yield
        return
    _in_use.add(held.token)
    try:
        with _renewing(app.folder, held):
            yield
    finally:
        _in_use.discard(held.token)
        _give_back(app, owner, held)


def _give_back(app: AppRegistry, owner: str, held: Lease) -> None:
    """Tried again while the storage fails. What the block did, or raised, is not lost over it: a lease that cannot be
    given back is told of, and free when this process has ended or its time is over."""
    began, wait = time.monotonic(), 0.1
    while True:
        try:
            (lease.leave if under_way(app, owner) else lease.release)(app.folder, held)
            return
        except StreamUpdateError as error:
            if time.monotonic() - began + wait > GIVE_BACK_SECONDS:
                log.warning(
                    "the lease of %s for %s could not be given back: %s. Others get it when this process has ended, or "
                    "at %s",
                    *(app.name, owner, error, held.expires_at),
                )
                return
        time.sleep(wait)
        wait *= 2


def check_free(app: AppRegistry, owner: str) -> None:
    """LeaseHeldError when `owner` would not get the app's lease now, as far as that is known without waiting for a
    process's sign of life. Nothing is taken."""
    held = lease.read(app.folder)
    if held is None or held.released or held.owner == owner or held.token in _in_use:
        return
    lives = held.holder.lives() if held.holder is not None else None
    if lease.held(app.folder, held) and (lives is not False or under_way(app, held.owner)):
        raise LeaseHeldError(lease.refusal(app.name, held))


def keep(app: AppRegistry, deployment: str | None) -> None:
    """Keep the app for the update that ends with `deployment` running, while it waits for something without a process
    of its own; nothing when there is no such update, or a process works on it."""
    owners = [u.new for u in app.updates() if u.outcome is None and u.runs == deployment]
    held = lease.read(app.folder) if owners else None
    if held is None or held.owner not in owners or held.holder is not None or held.released:
        return
    if not held.renewed_at or abs(clock.age(held.renewed_at)) > KEEP_SECONDS:  # of a clock ahead, too
        lease.renew(app.folder, held)


def alive(folder: Folder, held: Lease) -> bool:
    """Whether the process that holds a lease lives. What the process table proves is known at once; all others are
    watched for a sign of life on this process's own monotonic clock, which takes up to WATCH_SECONDS: those on another
    machine, in another container, of an earlier boot, and those that should have given one long ago."""
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
    """Whether an update that brings `deployment` in has begun and not ended."""
    record = app.update(deployment)
    return record is not None and record.outcome is None


@contextlib.contextmanager
def _renewing(folder: Folder, held: Lease) -> Iterator[None]:
    """Show signs of life inside the block."""
    over = threading.Event()

    def renew() -> None:
        while not over.wait(RENEW_SECONDS):
            with contextlib.suppress(StreamUpdateError):  # the storage may be back the next time
                if lease.renew(folder, held) is None:
                    return  # lost; the block's next step finds out

    thread = threading.Thread(target=renew, name=f"lease {held.owner}", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
