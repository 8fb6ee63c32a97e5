"""An update's record: who begins it, its steps, its pause and its end. All of it under the app's lease."""

from __future__ import annotations

import contextlib
import getpass
import socket
from typing import TYPE_CHECKING

import attrs

from ..state import clock
from ..state.application import default_deployment_id
from ..state.boundaries import boundary
from ..state.deployment import RUNNING
from ..state.errors import AlreadyExistsError, CorruptError, NotRunningError
from ..state.names import check_name
from ..state.registry import AppRegistry, used_before
from ..state.update import PARALLEL, PROMOTED, RESTART, SUPERSEDED, UpdateRecord
from .drivers import NEW
from .holding import holding

if TYPE_CHECKING:
    from .client import StreamUpdateClient


def new_deployment(registry: AppRegistry, digest: str, wanted: str | None = None) -> str:
    """The id of the deployment an update brings in: of an update of the same application under way, else the wanted
    one, else one made from the digest. AlreadyExistsError when the wanted one was used before or is another update's.
    """
    records = registry.updates()
    used = {*registry.deployment_ids(), *(r.new for r in records)}
    if wanted is None:
        continued = [r.new for r in records if r.outcome is None and r.digest == digest]
        return continued[-1] if continued else default_deployment_id(registry.name, digest, used)
    check_name("deployment", wanted)
    record = next((r for r in records if r.new == wanted), None)
    if record is not None and record.outcome is None:
        if record.digest not in ("", digest):  # "": it was begun without naming its application
            raise AlreadyExistsError(
                f"an update of app {registry.name} to {wanted!r} with another application is under way; "
                "end it (run it again with its application, or roll back), or choose another deployment id"
            )
    elif wanted in used:
        raise AlreadyExistsError(used_before(registry.name, wanted))
    return wanted


def begin(
    client: StreamUpdateClient, app: str, deployment: str, digest: str = "", strategy: str = RESTART
) -> UpdateRecord:
    """See StreamUpdateClient.begin_update."""
    registry = client.registry.existing(app)
    check_name("deployment", deployment)
    with holding(registry, deployment):
        record = registry.update(deployment)
        if record is not None and record.outcome is not None:
            raise AlreadyExistsError(
                f"the update of {app} to {deployment} has ended ({record.outcome}); choose another deployment id"
            )
        if record is not None:
            return record
        if deployment in registry.deployment_ids():
            raise AlreadyExistsError(used_before(app, deployment))
        old = registry.current_id()
        state = client.drivers(app).state(old) if old else NEW
        if old is None or state != RUNNING:
            raise NotRunningError(
                f"app {app} is not running (deployment {old} is {state}), so there is nothing to update; "
                f"streamupdate restart {app} starts it again, to be updated then; or take its state with save-snapshot "
                "--cancel, then start it with submit --snapshot"
            )
        record = UpdateRecord(
            app=app,
            old=old,
            new=deployment,
            digest=digest,
            strategy=strategy,
            started_at=clock.now(),
            step_times={"planned": clock.now()},
        )
        _close_others(registry, deployment)
        registry.set_update(record)
        boundary("begun")
        return record


def _close_others(registry: AppRegistry, deployment: str) -> None:
    """End the records of updates that nobody went on with, so that their standbys end. The lease is this update's: none
    of them has a process."""
    for other in registry.updates():
        if other.outcome is None and other.new != deployment:
            why = f"nobody went on with it, and the update to {deployment} was begun"
            registry.set_update(attrs.evolve(other, outcome=SUPERSEDED, reason=why))


def step(
    registry: AppRegistry, deployment: str, name: str, snapshot: str | None = None, verified: tuple[str, ...] = ()
) -> None:
    """Note a completed step, and renew the lease for the next one. verified: the conditions of health that were met."""
    with holding(registry, deployment):
        record = registry.update(deployment)
        if record is not None:
            times = {**record.step_times, name: record.step_times.get(name, clock.now())}
            record = attrs.evolve(record, step=name, step_times=times, snapshot=snapshot or record.snapshot)
            registry.set_update(attrs.evolve(record, verified=verified or record.verified))


def end(
    client: StreamUpdateClient, app: str, deployment: str, outcome: str, reason: str | None = None
) -> UpdateRecord | None:
    """See StreamUpdateClient.end_update."""
    registry = client.registry.existing(app)
    with holding(registry, deployment):
        record = registry.update(deployment)
        if record is not None and record.outcome is None:
            record = attrs.evolve(record, outcome=outcome, reason=reason)
            registry.set_update(record)
            boundary("ended")
        return record


def promote(client: StreamUpdateClient, app: str, deployment: str) -> UpdateRecord | None:
    """See StreamUpdateClient.promote."""
    registry = client.registry.existing(app)
    with holding(registry, deployment):
        current, record = registry.current(), registry.update(deployment)
        runs = record.runs if record else deployment
        if current is None or current.deployment != runs:
            raise NotRunningError(
                f"deployment {runs} of {app} is not current ({current.deployment if current else 'none'} is); "
                "only the current deployment can be promoted"
            )
        if not current.promoted:
            registry.set_current(attrs.evolve(current, promoted=True))
            boundary("promoted")
        if record is not None and record.outcome is None:
            step(registry, deployment, "promoted")
            noted = registry.update(deployment)
            assert noted is not None
            registry.set_update(attrs.evolve(noted, pause_seconds=pause(registry, record)))
            boundary("pause-noted")
        return end(client, app, deployment, PROMOTED)


def this_user() -> str:
    """Who asks for something, when nobody says so."""
    return f"{getpass.getuser()}@{socket.gethostname()}"


def under_way(registry: AppRegistry) -> UpdateRecord | None:
    """The update that has begun and not ended, of which the current deployment is the old version or the new one."""
    current = registry.current_id()
    found = [u for u in registry.updates() if u.outcome is None and current in (u.old, u.new)]
    return found[-1] if found else None


def pause(registry: AppRegistry, record: UpdateRecord) -> float | None:
    """Seconds from the old version's last commit to the new one's first, the longest of all queries; None when they ran
    side by side."""
    if record.strategy == PARALLEL:
        return None
    old = registry.status(record.old) if record.old else None
    new = registry.status(record.new)
    if old is None or new is None:
        return None
    pauses = [
        (clock.parse(after.first_commit_at) - clock.parse(before.last_commit_at)).total_seconds()
        for name, after in new.queries.items()
        if (before := old.queries.get(name)) and before.last_commit_at and after.first_commit_at
    ]
    return round(max(pauses), 3) if pauses else None


def interrupted(client: StreamUpdateClient, digest: str, deployment: str | None) -> UpdateRecord | None:
    """The record of an update that did not come to its end and brings in the same application."""
    for app in client.apps():
        with contextlib.suppress(CorruptError):  # told when that app is the one to update; else it is not of interest
            for record in client.registry.app(app).updates():
                if record.outcome is None and record.digest == digest and deployment in (None, record.new):
                    return record
    return None
