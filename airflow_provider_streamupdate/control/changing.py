"""Requests that change a running deployment's parameters in flight: its driver does it; here it is asked for and
watched."""

from __future__ import annotations

import attrs

from ..state import commands
from ..state.application import Application
from ..state.commands import CommandBox
from ..state.deployment import FINAL_STATES, RUNNING
from ..state.errors import DriverError, NotRunningError, RefusedError
from ..state.in_flight import ChangeRequest, check_applications
from ..state.plan import AppPlan
from .holding import holding
from .requests import Requests, quiet
from .waiting import Progress, wait_for


class ChangeRequests(Requests):
    """The client's requests to change parameters in flight."""

    def check_change(self, application: Application, plan: AppPlan) -> None:
        """RefusedError when `application`, whose plan is given, differs from the running deployment by more than
        parameters that the app declares reloadable."""
        registry = self.registry.existing(plan.app)
        spec = registry.spec(self._current(registry)[0])
        check_applications(self._drivers(registry).application(spec), application, plan.reloadable)

    def change(self, app: str, request: ChangeRequest, timeout: float = 300.0, progress: Progress = quiet) -> None:
        """Have the running deployment go on with the request's parameters, and wait until it does. A rerun with the
        same id waits for the same change.

        RefusedError when its driver refuses them, or has gone back to the old ones because a query failed; DriverError
        when it died (what is recorded then counts when it is started again); WaitTimeoutError after `timeout` seconds,
        with the change going on.
        """
        registry = self.registry.existing(app)
        drivers = self._drivers(registry)
        deployment, epoch = self._current(registry)
        if registry.spec(deployment).application.params == request.params:
            progress(f"deployment {deployment} of {app} has these parameters already")
        elif (state := drivers.state(deployment)) != RUNNING:
            raise NotRunningError(f"app {app} is {state}; to change it in flight, it must be running")
        box = CommandBox(registry.deployment_folder(deployment), epoch)
        name = box.issue(commands.CHANGE, change=request)
        progress(f"deployment {deployment} of {app} changes its parameters")

        def poll() -> bool | None:
            if answer := box.result(name):
                if answer.error:
                    raise RefusedError(f"{deployment} of {app} was not changed: {answer.error}")
                return True
            if (state := drivers.state(deployment)) in FINAL_STATES:
                raise DriverError(drivers.death(deployment, state))
            return None

        wait_for(poll, f"the change of {app}", timeout)

    def undo_change(self, app: str, deployment: str, id: str, timeout: float = 300.0) -> bool:
        """Take the change of that id back, by the running driver or, when none runs, in the record; False when it is
        not the last one that was made."""
        registry = self.registry.existing(app)
        changes = registry.changes(deployment)
        if not changes or changes[-1].undoes is not None or changes[-1].request.id != id:
            return False
        last = changes[-1]
        undo = attrs.evolve(last.request, id=f"{id}-undo", params=last.before, digest=last.digest_before)
        drivers = self._drivers(registry)
        with holding(registry, id):
            if registry.current_id() == deployment and drivers.state(deployment) == RUNNING:
                self.change(app, undo, timeout)
            elif drivers.gone(deployment):
                registry.add_change(deployment, undo, undoes="rolled back")
            else:
                raise NotRunningError(f"deployment {deployment} of {app} is {drivers.state(deployment)}; try again")
        return True
