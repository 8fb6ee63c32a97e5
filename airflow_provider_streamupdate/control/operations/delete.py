"""Holding an app while something of it is deleted, on a full disk, too."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import TypeVar

from ...core.coordination import lease
from ...core.errors import LeaseHeldError, StorageError
from ...core.registry.registry import AppRegistry
from ...core.storage.space import no_room
from ..app_lease import alive, holding
from ..waiting import Progress

T = TypeVar("T")


def deleting(registry: AppRegistry, what: str, work: Callable[[], T], progress: Progress) -> T:
    """Do `work`, which only removes, with the app's lease: no update is under way, or begins. LeaseHeldError when one
    is.

    Where the disk is so full that the lease cannot be written, nobody else can take it either, an update above all:
    then it is enough that nobody holds it. Two deletes keep each other out by a lock that takes no room. What an update
    may still meet that begins in the very moment in which this makes room: the snapshot that it was to start from is
    gone, and it is refused, or goes back. Nothing that is running is ever deleted.
    """
    done: list[T] = []

    def once() -> T:
        with registry.folder.locked("snapshots"):
            done.append(work())
        return done[0]

    try:
        # An owner of its own for every call: two that delete the same must not work side by side.
        with holding(registry, f"{what} {uuid.uuid4().hex[:8]}"):
            return once()
    except StorageError as error:
        if done:  # only the lease could not be given back: it ends with this process
            progress(f"the lease of {registry.name} could not be given back: {error}")
            return done[0]
        if not no_room(error):
            raise
    held = lease.read(registry.folder)
    if held is not None and not held.released and (lease.held(registry.folder, held) or alive(registry.folder, held)):
        raise LeaseHeldError(
            f"{registry.name} is locked for {held.owner} until {held.expires_at}, and the disk is full; end that first "
            "(streamupdate rollback, or cancel), or free space elsewhere on the disk"
        )
    progress(f"the disk is full, so no lease is written; nobody holds the one of {registry.name}")
    return once()
