"""Checkpoints of deployments that nothing goes back to, and how they are freed."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable

import attrs

from .. import clock
from ..errors import RefusedError, StorageError
from ..registry import hot_standby
from ..registry.deployment import DeploymentSpec
from ..registry.registry import AppRegistry
from ..registry.update import RollbackRecord, UpdateRecord
from ..serde import to_json


@attrs.frozen(kw_only=True)
class Retention:
    """How many superseded deployments keep their checkpoint, and for how long all do: those are kept that either says.
    The deployments that a rollback needs are kept regardless of these settings."""

    deployments: int = 2
    days: float = 0.0


@attrs.frozen(kw_only=True)
class Superseded:
    """A deployment's id and since when (ISO) it has not run."""

    deployment: str
    since: str


@attrs.frozen(kw_only=True)
class FreedNote:
    """A note for people about a checkpoint that was freed."""

    freed_at: str
    by: str = "streamupdate gc"


def needed(
    current: str | None,
    specs: list[DeploymentSpec],
    updates: list[UpdateRecord],
    rollbacks: Iterable[RollbackRecord] = (),
) -> dict[str, str]:
    """Why a deployment's checkpoint must stay, by deployment: it runs, or something continues from it or returns to
    it."""
    if current is None:
        return {spec.deployment: "no deployment is current, so any of them may be continued" for spec in specs}
    parents = {spec.deployment: spec.parent for spec in specs}
    found: dict[str, str] = {}
    for update in updates:
        if update.outcome is None:
            for deployment in (update.old, update.new, parents.get(update.new)):
                if deployment is not None:
                    found.setdefault(deployment, f"the update to {update.new} is under way")
    # As control/update/rollback.py finds it; and what the spec says, whose state a restore may still be reading.
    for back in (version_before(current, specs, updates), parents.get(current)):
        if back is not None:
            found[back] = f"a rollback of {current} goes back to it"
    for rollback in rollbacks:
        if rollback.ended_at is None and rollback.left == current:
            found.setdefault(rollback.back_to, f"the rollback of {current} to it is under way")
    found[current] = "it is current"
    return found


def version_before(deployment: str, specs: Iterable[DeploymentSpec], updates: Iterable[UpdateRecord]) -> str | None:
    """The deployment that a rollback of this one goes back to: the one that it replaced. A hot standby has the code of
    the one that it took over from, so that the version before is the one before that. None: there is none."""
    known, replaced = {spec.deployment: spec for spec in specs}, {update.new: update.old for update in updates}
    while deployment not in replaced:
        spec = known.get(deployment)
        if spec is None or (leader := hot_standby.leader(spec)) is None:
            return spec.parent if spec else None
        deployment = leader
    return replaced[deployment]


def outdated(candidates: list[Superseded], retention: Retention) -> dict[str, str | None]:
    """Return, for deployments that nothing needs, why each stays; None for those that may be freed."""
    newest = sorted(candidates, key=lambda each: each.since, reverse=True)
    found: dict[str, str | None] = {}
    for place, each in enumerate(newest):
        days = clock.age(each.since) / 86400
        if place < retention.deployments:
            found[each.deployment] = f"it is among the {retention.deployments} newest superseded ones"
        elif days < retention.days:
            found[each.deployment] = (
                f"it was superseded {days:.1f} days ago, and deployments are kept for {retention.days:g} days"
            )
        else:
            found[each.deployment] = None
    return found


def free(app: AppRegistry, deployment: str) -> None:
    """Remove a deployment's checkpoint. From the first step on it counts as freed, so that nothing continues on half of
    it. Where possible, that step is a rename, which needs no space."""
    folder = app.deployment_folder(deployment)
    if folder.renames:
        with contextlib.suppress(FileNotFoundError):
            if not folder.exists("freed"):
                folder.rename("checkpoint", "freed")
        for name in folder.names("freed", hidden=True):
            if name != "note.json":
                folder.remove(f"freed/{name}")
        with contextlib.suppress(StorageError):  # for people; that the folder is there is enough
            folder.write("freed/note.json", _note())
        return
    folder.write("freed/note.json", _note())
    folder.remove("checkpoint")


def files(app: AppRegistry, deployment: str) -> list[str]:
    """Paths, relative to the app's folder, of what `free` removes."""
    tops = [f"deployments/{deployment}/{part}" for part in ("checkpoint", "freed")]
    return [f"{top}/{path}" for top in tops for path in app.folder.files(top) if path != "note.json"]


def is_freed(app: AppRegistry, deployment: str) -> bool:
    return app.deployment_folder(deployment).exists("freed")


def check_kept(app: AppRegistry, deployment: str) -> None:
    """Raise RefusedError when the deployment's checkpoint was freed: it would start without its state."""
    if is_freed(app, deployment):
        raise RefusedError(
            f"deployment {deployment} of {app.name} cannot run again: it was superseded, and its checkpoint was freed "
            "(streamupdate gc). Nothing was stopped. Start its application from a snapshot instead (list-snapshots, "
            "submit --snapshot)"
        )


def _note() -> bytes:
    return to_json(FreedNote(freed_at=clock.now()))
