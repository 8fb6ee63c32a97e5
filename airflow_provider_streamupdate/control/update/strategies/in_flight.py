"""Strategy ``in_flight``: the running deployment continues with new values of parameters declared reloadable.

Its driver makes the change; this module asks for it and watches it.
"""

from __future__ import annotations

from typing import ClassVar

import attrs

from ....core.boundaries import boundary
from ....core.coordination import commands
from ....core.coordination.commands import CommandBox
from ....core.errors import FencedError, InvalidInputError, NotRunningError, RefusedError
from ....core.plan.plan import AppPlan
from ....core.registry.deployment import RUNNING
from ....core.registry.in_flight import ChangeRequest, check_applications, in_force, kept_out
from ....core.registry.registry import AppRegistry
from ....core.registry.update import Step, UpdateRecord
from ....core.users import user_and_host
from ...app_lease import holding
from ...drivers.drivers import Drivers
from ...drivers.launch_files import local_application
from ...operations.submit import Deployed
from ...waiting import Phase, Progress, wait_for
from ..options import UpdateOptions
from ..update import Update
from .strategy import ALL_STEPS, Strategy


class InFlight(Strategy):
    """An update without a new driver or a restart; only reloadable parameters may differ."""

    name = "in_flight"
    steps: ClassVar[tuple[Step, ...]] = tuple(
        step for step in ALL_STEPS if step not in (Step.PREPARE, Step.SNAPSHOT_AND_CANCEL)
    )
    in_place = True

    def accept(self, options: UpdateOptions) -> Strategy:
        if options.snapshot:
            raise InvalidInputError(
                "strategy in_flight changes the running driver and cannot start from a snapshot; leave the snapshot out"
            )
        return super().accept(options)

    def check_plan(self, update: Update, plan: AppPlan) -> None:
        """Raise RefusedError when more than reloadable parameters differ from the running deployment."""
        registry = update.registry
        running = local_application(registry, registry.running()[0])
        check_applications(running, update.options.application, plan.reloadable)

    def start_new(self, update: Update) -> Deployed:
        options, record = update.options, update.record
        if any(rollback.left == record.new for rollback in update.registry.rollbacks()):
            raise RefusedError(f"this change of {update.app} was being rolled back, which was interrupted")
        request = ChangeRequest(
            id=record.new,
            params=options.application.params,
            digest=options.application.digest(),
            asked_by=options.asked_by or user_and_host(),
            agree=options.agree,
        )
        timeout = options.drain_timeout + options.submit_timeout
        change(update.registry, update.drivers, request, timeout, update.progress)
        deployment, epoch = update.registry.running()
        return Deployed(app=update.app, deployment=deployment, epoch=epoch, reattached=True)

    def baseline(self, update: Update) -> str | None:
        return None

    def undo_in_place(self, record: UpdateRecord, registry: AppRegistry, drivers: Drivers, timeout: float) -> bool:
        return undo_change(registry, drivers, str(record.old), record.new, timeout)

    def message_if_untouched(self, old: str) -> str:
        return f"{old} keeps running"


def change(registry: AppRegistry, drivers: Drivers, request: ChangeRequest, timeout: float, progress: Progress) -> None:
    """Change the running deployment's parameters to the request's, and wait until its driver uses them.

    A rerun with the same id waits for the same change. RefusedError when the driver refuses the parameters, or returned
    to the old ones because a query failed; DriverError when it died (when started again it uses the recorded
    parameters); WaitTimeoutError after `timeout` seconds, while the change continues.
    """
    app, (deployment, epoch) = registry.name, registry.running()
    if registry.spec(deployment).application.params == request.params:
        progress(f"deployment {deployment} of {app} already has these parameters")
    elif (state := drivers.state(deployment)) != RUNNING:
        raise NotRunningError(f"app {app} is {state}; to change it in flight, it must be running")
    box = CommandBox(registry.deployment_folder(deployment), epoch)
    name = box.issue(commands.CHANGE, change=request)
    boundary("change-asked")
    progress(Phase(f"changing the parameters of deployment {deployment} of {app}"))

    def poll() -> bool | None:
        if answer := box.result(name):
            if answer.error:
                raise RefusedError(f"{deployment} of {app} was not changed: {answer.error}")
            return True
        drivers.living_state(deployment)
        return None

    wait_for(poll, f"the change of {app}", timeout, why=lambda: drivers.silence(deployment))
    boundary("change-seen")


def _keep_out(registry: AppRegistry, drivers: Drivers, deployment: str, id: str) -> bool:
    """Take the place of the change with this id, so that a driver which goes on after a silence cannot make it. False
    when it was made a moment ago."""
    if not drivers.maybe_alive(deployment):
        return True
    spec = registry.spec(deployment)
    params, asked_by = spec.application.params, f"the rollback of {id}"
    same = ChangeRequest(id=kept_out(id), params=params, digest=spec.digest, asked_by=asked_by)
    try:
        registry.add_change(deployment, same)
    except FencedError:
        last = in_force(registry.changes(deployment))
        return last is None or last.request.id != id
    return True


def undo_change(registry: AppRegistry, drivers: Drivers, deployment: str, id: str, timeout: float) -> bool:
    """Undo the change with this id: by the running driver or, when none runs, in the record.

    False when it is not the change in force. Then no driver that is silent can make it any more.
    """
    last = in_force(registry.changes(deployment))
    if (last is None or last.request.id != id) and _keep_out(registry, drivers, deployment, id):
        return False
    last = in_force(registry.changes(deployment))
    assert last is not None
    undo = attrs.evolve(last.request, id=f"{id}-undo", params=last.before, digest=last.digest_before)
    with holding(registry, id):
        if registry.current_id() == deployment and drivers.state(deployment) == RUNNING:
            change(registry, drivers, undo, timeout, lambda _line: None)
        elif drivers.has_ended(deployment):
            registry.add_change(deployment, undo, undoes="rolled back")
        else:
            raise NotRunningError(
                f"deployment {deployment} of {registry.name} is {drivers.state(deployment)}, so its change in flight "
                "cannot be undone now; try again"
            )
    return True
