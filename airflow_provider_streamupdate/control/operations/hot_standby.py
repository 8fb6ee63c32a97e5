"""Give an app a hot standby: a driver with the same code that follows the current one, and takes over when it dies."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable

import attrs

from ...core import clock
from ...core.boundaries import boundary
from ...core.checkpoint.checkpoint import Checkpoint
from ...core.coordination.following import unfollowable
from ...core.errors import DriverError, LeaseHeldError, NotRunningError, RefusedError, StreamUpdateError
from ...core.registry import hot_standby
from ...core.registry.deployment import FINAL_STATES, NEW, RUNNING, STANDBY, DeploymentSpec, DriverRole, DriverState
from ...core.registry.hot_standby import HotStandby
from ...core.registry.registry import AppRegistry
from ...core.users import user_and_host
from ..app_lease import holding
from ..drivers.drivers import Drivers
from ..waiting import Progress, discard_progress, wait_for
from .context import Context
from .stop import stop_deployment
from .version import store_copy

STEM = 150  # characters of the parent's id: with a suffix it must be a name, too (core/names.py)
_SUFFIX = re.compile(r"-standby-\d+$")


@attrs.frozen(kw_only=True)
class StandsBy:
    """The hot standby that an app is to have.

    took_over: it is the app's current deployment by now
    state: of its driver; behind: how many batches the current deployment has committed and it has not (None: unknown)
    """

    deployment: str
    state: DriverState
    behind: int | None = None
    took_over: bool = False

    @property
    def alive(self) -> bool:
        """True if it will take over, now or once it has started."""
        return self.state not in (*FINAL_STATES, NEW)


def stand_by(
    context: Context,
    app: str,
    timeout: float = 300.0,
    progress: Progress = discard_progress,
    before: Callable[[], None] | None = None,
) -> StandsBy:
    """Start a hot standby of the app's current deployment, unless it has one; wait until it has caught up.

    From then on the app is to have one: a supervisor starts another after it has taken over or died. NotRunningError
    when the app does not run, or has committed nothing yet; RefusedError when its queries cannot be followed;
    LeaseHeldError when an update is under way; DriverError when the standby's driver dies.

    timeout: seconds until it must stand by
    before: called under the app's lease, before anything is done; what it raises ends the start
    """
    registry = context.registry.existing(app)
    context.need_launcher().check()
    context.registry.folder.check_writable()
    drivers = context.drivers(registry)
    deployment, _ = _standing(registry, drivers)
    with holding(registry, deployment, f"a hot standby of {deployment} is started"):
        if before is not None:
            before()
        if (update := registry.update_under_way()) is not None:
            raise LeaseHeldError(
                f"an update of {registry.name} to {update.new} is under way; start the hot standby when it has ended"
            )
        deployment, epoch = _standing(registry, drivers)
        found = wanted_standby(registry, drivers)
        if found is None or not found.alive or registry.spec(found.deployment).parent != deployment:
            spec = _store(registry, deployment)
            wanted = hot_standby.read(registry.folder)
            asked = (wanted.asked_by, wanted.asked_at) if wanted else (user_and_host(), clock.now())
            # Before its driver is started: one that is not named here ends at once.
            hot_standby.write(
                registry.folder, HotStandby(deployment=spec.deployment, asked_by=asked[0], asked_at=asked[1])
            )
            drivers.start_beside(spec, epoch + 1, DriverRole.HOT_STANDBY)
            progress(f"hot standby {spec.deployment} of {app}: driver started beside {deployment}")
    found = wanted_standby(registry, drivers)
    assert found is not None  # it was started or found
    _wait(registry, drivers, found.deployment, timeout)
    progress(f"hot standby {found.deployment} of {app} follows {deployment}")
    return wanted_standby(registry, drivers) or found


def stand_down(context: Context, app: str, progress: Progress = discard_progress) -> str | None:
    """End the app's hot standby; it is to have none from then on. Return its deployment; None without one, and when it
    has taken over: then it is the app.

    LeaseHeldError when another process works on the app.
    """
    registry = context.registry.existing(app)
    with holding(registry, registry.running()[0], "its hot standby is ended"):
        wanted = hot_standby.read(registry.folder)
        if wanted is None:
            return None
        current = registry.current_id()
        hot_standby.write(registry.folder, None)
        boundary("standby-unwanted")
        if wanted.deployment == current:  # it has taken over, and is the app
            return None
        stop_deployment(context, app, wanted.deployment)
        progress(f"hot standby {wanted.deployment} of {app} has ended")
        return wanted.deployment


def wanted_standby(registry: AppRegistry, drivers: Drivers) -> StandsBy | None:
    """Return the hot standby that the app is to have; None: none is wanted."""
    wanted = hot_standby.read(registry.folder)
    if wanted is None:
        return None
    deployment, current = wanted.deployment, registry.current_id()
    if deployment == current or registry.launch(deployment) is None:
        return StandsBy(deployment=deployment, state=NEW, took_over=deployment == current)
    behind = _behind(registry, str(current), deployment)
    return StandsBy(deployment=deployment, state=drivers.state(deployment), behind=behind)


def _wait(registry: AppRegistry, drivers: Drivers, deployment: str, timeout: float) -> None:
    """Wait until it stands by. The app runs on, whatever becomes of it."""
    app = registry.name
    then = f"{app} runs without one; correct the cause and run streamupdate standby on {app} again, or standby off"

    def poll() -> bool | None:
        state = drivers.state(deployment)
        if state in FINAL_STATES:
            death = drivers.death(deployment, state, then)
            raise DriverError(f"hot standby {deployment} of {app} is {state}: {death}")
        return True if state in (STANDBY, RUNNING) else None

    wait_for(
        poll,
        f"hot standby {deployment} of {app} to stand by",
        timeout,
        why=lambda: (
            f"it is still starting or catching up: watch it (streamupdate status {app}), give it more time "
            f"(--timeout), or end it (streamupdate standby off {app})\n{drivers.last_lines(deployment)}"
        ),
    )


def _behind(registry: AppRegistry, leader: str, follower: str) -> int | None:
    found = []
    with contextlib.suppress(StreamUpdateError):  # its checkpoint is being built
        for folders in registry.checkpoints_of_both(leader, follower).values():
            there, here = (Checkpoint(folder).committed_batch() for folder in folders)
            if there is None or here is None:
                return None
            found.append(there - here)
    return max(found, default=None)


def _standing(registry: AppRegistry, drivers: Drivers) -> tuple[str, int]:
    """The current deployment and its epoch, if it runs and has something to follow."""
    deployment, epoch = registry.running()
    state, plan = drivers.state(deployment), registry.plan(deployment)
    if state != RUNNING or plan is None:
        raise NotRunningError(
            f"app {registry.name} is {state} (deployment {deployment}); only an app that runs can have a hot standby"
        )
    if problems := unfollowable(plan, plan):
        raise RefusedError(f"app {registry.name} cannot have a hot standby: {'; '.join(problems)}")
    for query in plan.queries:
        if Checkpoint(registry.checkpoint(deployment, query.name)).committed_batch() is None:
            raise NotRunningError(
                f"query {query.name} of {registry.name} has not committed a batch yet, so there is nothing to follow; "
                "try again when it has"
            )
    return deployment, epoch


def _store(registry: AppRegistry, parent: str) -> DeploymentSpec:
    """Store a deployment with the code, files and parameters of its parent."""
    stem, taken = _SUFFIX.sub("", parent)[:STEM], registry.deployment_ids()
    number = 1
    while (name := f"{stem}-standby-{number}") in taken:
        number += 1
    # The snapshot is not stored. A driver that is started again before it has built its checkpoint continues from what
    # its parent has left (streaming/agent/saved_state_source.py).
    return store_copy(registry, parent, name, hot_standby.owner(parent), f"before-{name}")
