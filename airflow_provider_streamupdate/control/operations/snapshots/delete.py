"""Hold an app while something of it is deleted, even on a full disk."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import TypeVar

from ....core.boundaries import boundary
from ....core.coordination import lease
from ....core.errors import LeaseHeldError, StorageError
from ....core.registry.registry import AppRegistry
from ....core.storage.space import no_room
from ...app_lease import alive, holding
from ...waiting import Progress

T = TypeVar("T")


def deleting(registry: AppRegistry, what: str, work: Callable[[], T], progress: Progress) -> T:
    """Run `work`, which only removes files, under the app's lease, so that no update runs or begins meanwhile.

    LeaseHeldError when an update is under way.

    When the disk is too full to write the lease, no other process can take it either, so it is enough that nobody
    holds it. Two deletes then exclude each other by a lock that needs no disk space. One race remains: an update that
    begins just when this frees space may find its snapshot deleted; it is then refused or rolled back. Nothing that is
    running is ever deleted.
    """
    done: list[T] = []

    def once() -> T:
        boundary("removing")
        with registry.folder.locked("snapshots"):
            done.append(work())
        return done[0]

    try:
        # Every call has its own owner: two calls that delete the same thing must not run at the same time.
        with holding(registry, f"{what} {uuid.uuid4().hex[:8]}", f"{what} removes files"):
            return once()
    except StorageError as error:
        if done:  # only the lease could not be released: it ends with this process
            progress(f"the lease of app {registry.name} could not be released; it ends with this process: {error}")
            return done[0]
        if not no_room(error):
            raise
    held = lease.read(registry.folder)
    if held is not None and not held.released and (lease.held(registry.folder, held) or alive(registry.folder, held)):
        raise LeaseHeldError(
            f"the lease of app {registry.name} is held for {held.work or held.owner} until {held.expires_at}, and the "
            "disk is full; "
            "end that first (streamupdate rollback, or cancel), or free space elsewhere on the disk"
        )
    progress(f"the disk is full, so the lease of app {registry.name} is not written; nobody else holds it")
    return once()
