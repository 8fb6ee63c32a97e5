"""Delete an app: ``streamupdate delete-app``.

``deletion.json`` is written first and removed last. While it is there nothing of the app is started, whatever else is
left of it, and a rerun completes the deletion.
"""

from __future__ import annotations

import contextlib
import logging
import uuid

import attrs

from ...core import clock
from ...core.boundaries import boundary
from ...core.errors import CorruptError, InUseError, RefusedError
from ...core.registry.deployment import CANCELLED, FINISHED, Deletion
from ...core.registry.registry import DELETION, AppRegistry
from ...core.snapshots.snapshots import SnapshotStore
from ...core.storage.space import bytes_freed
from ...core.users import user_and_host
from ..app_lease import holding
from ..waiting import Phase, Progress, discard_progress
from .context import Context
from .snapshots.collect import is_over
from .submit import unrestored

OTHERS = "files of its sinks, state of other apps' forks, and checkpoints that it was adopted from stay as they are"

log = logging.getLogger(__name__)


@attrs.frozen(kw_only=True)
class DeletedApp:
    """The result of a deletion."""

    app: str
    bytes_freed: int
    snapshots: tuple[str, ...]  # those that were kept
    stays: str = OTHERS


def check_deletable(context: Context, app: str, keep_snapshots: bool = False) -> None:
    """Raise what stands in the way of a deletion. Writes nothing.

    NotFoundError for an unknown app. RefusedError when it is not cancelled, or a driver of it may be alive. InUseError
    when another app has yet to build its state from a snapshot of this one.
    """
    registry = context.registry.app(app)
    deletion = registry.deletion()
    if deletion is None:
        context.registry.existing(app)
        _check_stopped(context, registry)
    elif keep_snapshots and not deletion.keep_snapshots:
        raise RefusedError(
            f"the deletion of app {app} was begun without keeping its snapshots, and some may be gone; complete it "
            f"(streamupdate delete-app {app} without --keep-snapshots)"
        )
    if not keep_snapshots and (forks := _unbuilt_forks(registry)):
        raise InUseError(
            f"{', '.join(forks)} has yet to build its state from a snapshot of {app}, so nothing was deleted; wait "
            "until its first batch, delete that app first, or keep the snapshots (--keep-snapshots)"
        )


def delete_app(
    context: Context, app: str, keep_snapshots: bool = False, progress: Progress = discard_progress
) -> DeletedApp:
    """Remove everything of a cancelled app under the root, or all but its snapshots. A rerun completes what an
    interrupted one began.

    The errors of `check_deletable`, and LeaseHeldError, with nothing removed. With `keep_snapshots` the name stays
    taken; a second call without it deletes the snapshots.
    """
    check_deletable(context, app, keep_snapshots)
    registry = context.registry.app(app)
    with holding(registry, f"delete-app {uuid.uuid4().hex[:8]}", "delete-app removes the app", deletes=True):
        check_deletable(context, app, keep_snapshots)  # again: somebody may have started it meanwhile
        before = registry.deletion()
        if before is None:
            current = registry.current_id() if keep_snapshots else None
            plan = registry.plan(current) if current is not None else None
            before = Deletion(by=user_and_host(), at=clock.now(), keep_snapshots=keep_snapshots, plan=plan)
            registry.set_deletion(before)
            log.info("%s deletes app %s", before.by, app)
        elif before.keep_snapshots and not keep_snapshots:
            before = attrs.evolve(before, keep_snapshots=False, completed=False)
            registry.set_deletion(before)
        boundary("deletion-noted")
        return _remove(registry, before, progress)


def _remove(registry: AppRegistry, deletion: Deletion, progress: Progress) -> DeletedApp:
    """The order matters to people only: `deletion.json` keeps all others from the app."""
    folder = registry.folder
    kept = SnapshotStore(registry).names() if deletion.keep_snapshots else []
    stay = ("lease", DELETION, *(("snapshots", "objects") if kept else ()))
    size = _size(registry, stay)
    progress(Phase(f"removing {registry.name}"))
    for name in folder.names(hidden=True):
        if name not in ("deployments", "snapshots", "objects", *stay):
            folder.remove(name)
    boundary("records-removed")
    for name in folder.names("deployments", hidden=True):
        progress(f"removing deployment {name}")
        folder.remove(f"deployments/{name}")
    folder.remove("deployments")
    boundary("deployments-removed")
    if kept:
        registry.set_deletion(attrs.evolve(deletion, completed=True))
        return DeletedApp(app=registry.name, bytes_freed=size, snapshots=tuple(kept))
    for name in ("snapshots", "objects"):
        progress(f"removing {name}")
        folder.remove(name)
    boundary("snapshots-removed")
    folder.remove(DELETION)
    folder.remove("lease")  # the last: who takes it from here on finds no app
    folder.remove_empty("")
    return DeletedApp(app=registry.name, bytes_freed=size, snapshots=())


def _size(registry: AppRegistry, stay: tuple[str, ...]) -> int:
    """Return the bytes that removing all but `stay` frees."""
    folder = registry.folder
    paths = [path for path in folder.files(hidden=True) if path.split("/")[0] not in stay]
    sizes = folder.sizes()  # in an object store, where asking for each file would take long
    return sum(sizes.get(path, 0) for path in paths) if sizes else bytes_freed(folder, [paths])[0]


def _check_stopped(context: Context, registry: AppRegistry) -> None:
    drivers, current = context.drivers(registry), registry.current_id()
    if current is not None and (state := drivers.state(current)) not in (CANCELLED, FINISHED):
        raise RefusedError(
            f"app {registry.name} is {state}, and only a cancelled one is deleted; streamupdate cancel {registry.name} "
            "ends it"
        )
    if alive := [name for name in registry.deployment_ids() if not is_over(drivers, name)]:
        raise RefusedError(
            f"a driver of app {registry.name} may be alive, so nothing was deleted: deployment {', '.join(alive)}; "
            f"streamupdate cancel {registry.name} ends it (one that cannot be seen from here counts as dead a day "
            "after its last sign of life)"
        )


def _unbuilt_forks(registry: AppRegistry) -> list[str]:
    """Return the deployments of other apps whose next driver needs a snapshot of this one."""
    found = []
    for other in registry.siblings():
        with contextlib.suppress(CorruptError):  # a damaged app stands in nobody's way
            current = other.current_id()
            for spec in other.deployments():
                next_to_start = current in (None, spec.deployment) or other.launch(spec.deployment) is None
                if spec.from_app == registry.name and next_to_start and unrestored(other, spec.deployment):
                    found.append(f"deployment {spec.deployment} of app {other.name}")
    return found
