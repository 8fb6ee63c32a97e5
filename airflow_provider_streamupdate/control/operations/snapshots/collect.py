"""Free disk space that nothing needs any more: ``streamupdate gc``."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Sequence
from functools import partial

import attrs

from ....core import clock
from ....core.errors import InvalidInputError, LeaseHeldError, StorageError
from ....core.registry import scratch
from ....core.registry.deployment import FINAL_STATES, NEW, DeploymentSpec
from ....core.registry.registry import AppRegistry
from ....core.snapshots import garbage, superseded
from ....core.snapshots.snapshots import SnapshotStore
from ....core.snapshots.superseded import Retention, Superseded
from ....core.storage import Folder
from ....core.storage.space import bytes_freed
from ...drivers.drivers import Drivers
from ...waiting import Progress, discard_progress
from ..batch_ids import has_later_ids
from ..context import Context
from .delete import deleting

STRAY_SECONDS = 3600.0  # no file of ours takes so long to write; a driver's files are checked once it is gone
_OURS = re.compile(r"\..+\.[0-9a-f]{32}|_probe-[0-9a-f]{32}")  # Folder.write and create, HDFS; Folder.check_writable
_SPARKS = re.compile(r"\..+\.tmp(\.crc)?")  # CheckpointFileManager

EXPORT, OBJECTS, TEMPORARY = "failed export", "unneeded objects", "temporary file"
SILENT_SECONDS = 86400.0  # a driver on another machine without a heartbeat for so long is taken to be dead
REHEARSAL, LOG, CHECKPOINT = "rehearsal", "log", "checkpoint"


@attrs.frozen(kw_only=True)
class Thing:
    """Something that is freed or kept: its kind, its name, the reason, and the bytes that freeing it gives back."""

    kind: str
    name: str
    reason: str
    bytes: int = 0


@attrs.frozen(kw_only=True)
class Collected:
    """The things of an app that were freed, or with `dry_run` would be, and those that were kept."""

    app: str
    dry_run: bool
    freed: tuple[Thing, ...]
    kept: tuple[Thing, ...]

    @property
    def bytes(self) -> int:
        return sum(thing.bytes for thing in self.freed)


@attrs.frozen(kw_only=True)
class _Freeable:
    """Something that can be freed: its paths below the app's folder, and the function that frees it."""

    thing: Thing
    paths: tuple[str, ...]
    free: Callable[[], object]


def collect(
    context: Context,
    app: str,
    retention: Retention | None = None,
    dry_run: bool = False,
    progress: Progress = discard_progress,
) -> Collected:
    """Free what the app does not need any more; with `dry_run`, only report it. Works on a full disk.

    That is: bytes of failed exports, objects of no snapshot, checkpoints and logs of superseded deployments beyond
    `retention`, abandoned rehearsals, and temporary files. LeaseHeldError while an update of the app is under way.

    Kept are the current checkpoint, those that an update under way, a restart or a rollback continues from, and those
    whose driver may be alive.
    """
    registry = context.registry.existing(app)
    keep = retention or Retention()
    if keep.deployments < 0 or not 0 <= keep.days < float("inf"):
        raise InvalidInputError(
            f"cannot keep {keep.deployments} deployments for {keep.days} days: give 0 or more of each"
        )
    if dry_run:
        found, kept = _find(registry, context.drivers(registry, watch=False), keep, only_look=True)
        return Collected(app=app, dry_run=True, freed=_measured(registry, found), kept=tuple(kept))

    def work() -> Collected:
        found, kept = _find(registry, context.drivers(registry), keep, only_look=False)
        return _freed(registry, found, kept, progress)

    return deleting(registry, "gc", work, progress)


def collect_or_leave(
    context: Context,
    app: str,
    retention: Retention | None = None,
    dry_run: bool = False,
    progress: Progress = discard_progress,
) -> Collected:
    """Run `collect`; an app that is being updated is left as it is, and reported as kept for that reason."""
    try:
        return collect(context, app, retention, dry_run, progress)
    except LeaseHeldError as error:
        kept = Thing(kind="app", name=app, reason=str(error))
        return Collected(app=app, dry_run=dry_run, freed=(), kept=(kept,))


def _find(
    registry: AppRegistry, drivers: Drivers, retention: Retention, only_look: bool
) -> tuple[list[_Freeable], list[Thing]]:
    objects, kept = _objects(registry, only_look)
    old, stay = _checkpoints(registry, drivers, retention)
    live = [f"deployments/{s.deployment}/" for s in registry.deployments() if not is_over(drivers, s.deployment)]
    return [*objects, *_left_behind(registry, live), *old], [*kept, *stay]


def _objects(registry: AppRegistry, only_look: bool) -> tuple[list[_Freeable], list[Thing]]:
    store = SnapshotStore(registry)
    found = store.garbage(only_look=only_look)
    groups = [
        (Thing(kind=EXPORT, name=export.snapshot, reason=f"{export} failed, or its process died"), paths)
        for export, paths in found.failed.items()
    ]
    if found.orphans:
        reason = "no snapshot refers to them"
        groups.append((Thing(kind=OBJECTS, name=f"{len(found.orphans)} files", reason=reason), found.orphans))

    freeable = []
    for thing, paths in groups:
        part = garbage.Garbage(failed={}, orphans=paths, kept=[])
        freeable.append(_Freeable(thing=thing, paths=tuple(paths), free=partial(garbage.remove, registry.folder, part)))
    return freeable, [Thing(kind=OBJECTS, name="objects", reason=line) for line in found.kept]


def _left_behind(registry: AppRegistry, live: list[str]) -> list[_Freeable]:
    """Temporary files and rehearsals."""
    folder, found = registry.folder, []
    for name in scratch.abandoned(registry):
        paths = tuple(f"rehearsals/{name}/{path}" for path in folder.files(f"rehearsals/{name}"))
        thing = Thing(kind=REHEARSAL, name=name, reason="its process is gone")
        found.append(_Freeable(thing=thing, paths=paths, free=partial(folder.remove, f"rehearsals/{name}")))
    for path in stray_files(folder, ["rehearsals/", *live]):
        thing = Thing(kind=TEMPORARY, name=path, reason="left behind: no process writes it any more")
        found.append(_Freeable(thing=thing, paths=(path,), free=partial(folder.remove, path)))
    return found


def _checkpoints(registry: AppRegistry, drivers: Drivers, retention: Retention) -> tuple[list[_Freeable], list[Thing]]:
    """Return the checkpoints and logs of superseded deployments to free, and those that are kept, with the reason."""
    current, specs = registry.current_id(), registry.deployments()
    reasons = superseded.needed(current, specs, registry.updates(), registry.rollbacks())
    paths = {spec.deployment: superseded.files(registry, spec.deployment) for spec in specs}
    candidates = []
    for spec in specs:
        if spec.deployment in reasons:
            continue
        if not is_over(drivers, spec.deployment):
            reasons[spec.deployment] = f"its driver may be alive (it is {drivers.state(spec.deployment)})"
        elif current is not None and (query := has_later_ids(registry, spec.deployment, current)):
            reasons[spec.deployment] = f"it has used batch ids of query {query} that {current} has not reached yet"
        else:
            candidates.append(Superseded(deployment=spec.deployment, since=_since(registry, spec)))
    outdated = superseded.outdated([c for c in candidates if paths[c.deployment]], retention)
    found, kept = [], []
    for spec in specs:
        deployment = spec.deployment
        why = reasons.get(deployment) or outdated.get(deployment)
        if why is not None:
            if paths[deployment]:
                kept.append(Thing(kind=CHECKPOINT, name=deployment, reason=why))
            continue
        if paths[deployment]:
            thing = Thing(kind=CHECKPOINT, name=deployment, reason="superseded, and no rollback goes back to it")
            free = partial(superseded.free, registry, deployment)
            found.append(_Freeable(thing=thing, paths=tuple(paths[deployment]), free=free))
        if paths[deployment] or superseded.is_freed(registry, deployment):
            found += _logs(registry, deployment)
    return found, kept


def _logs(registry: AppRegistry, deployment: str) -> list[_Freeable]:
    """Return the drivers' logs, where they lie under the root."""
    folder, top = registry.folder, f"deployments/{deployment}"
    paths = tuple(f"{top}/{n}" for n in folder.names(top) if n.startswith("driver-") and ".log" in n)

    def remove() -> None:
        for path in paths:
            folder.remove(path)

    thing = Thing(kind=LOG, name=deployment, reason=f"{len(paths)} logs of a superseded deployment")
    return [_Freeable(thing=thing, paths=paths, free=remove)] if paths else []


def is_over(drivers: Drivers, deployment: str) -> bool:
    """Return whether certainly no driver of the deployment runs, not even on a machine that cannot be inspected."""
    launch, (state, status) = drivers.app.launch(deployment), drivers.state_and_status(deployment)
    if launch is not None and drivers.maybe_alive(deployment):  # silent, perhaps only because of the network
        return clock.age(status.heartbeat_at if status is not None else launch.launched_at) > SILENT_SECONDS
    return state in (*FINAL_STATES, NEW) and drivers.has_ended(deployment)


def _since(registry: AppRegistry, spec: DeploymentSpec) -> str:
    status = registry.status(spec.deployment)
    return status.heartbeat_at if status is not None else spec.submitted_at


def _measured(registry: AppRegistry, found: list[_Freeable]) -> tuple[Thing, ...]:
    counted = bytes_freed(registry.folder, [each.paths for each in found])
    return tuple(attrs.evolve(each.thing, bytes=count) for each, count in zip(found, counted, strict=True))


def _freed(registry: AppRegistry, found: list[_Freeable], kept: list[Thing], progress: Progress) -> Collected:
    """Free everything found; what cannot be freed is reported as kept, with the reason."""
    freed = []
    for each, thing in zip(found, _measured(registry, found), strict=True):
        try:
            with contextlib.suppress(FileNotFoundError):
                each.free()
        except StorageError as error:
            kept.append(attrs.evolve(thing, reason=str(error)))
            continue
        freed.append(thing)
        progress(f"freed {thing.kind} {thing.name} of {registry.name}: {thing.bytes} bytes")
    return Collected(app=registry.name, dry_run=False, freed=tuple(freed), kept=tuple(kept))


def stray_files(folder: Folder, apart: Sequence[str] = ()) -> list[str]:
    """Return the paths of stray temporary files. Spark's own are searched in checkpoints only, and nothing below the
    paths `apart`, whose writer may be alive."""
    found = []
    for path in folder.files(hidden=True):
        name = path.rpartition("/")[2]
        sparks = "/checkpoint/" in path and _SPARKS.fullmatch(name)
        if not (sparks or _OURS.fullmatch(name)) or path.startswith(tuple(apart)):
            continue
        try:
            at = clock.from_epoch_ms(folder.modified(path) * 1000)
        except FileNotFoundError:
            continue
        if clock.age(at) > STRAY_SECONDS:
            found.append(path)
    return sorted(found)
