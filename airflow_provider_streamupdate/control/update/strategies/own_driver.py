"""Strategies whose driver plans and checks the new version, and gets ready beside the running one.

So an update starts only one driver.
"""

from __future__ import annotations

from ....core import clock
from ....core.errors import AlreadyExistsError, DriverError, WaitTimeoutError
from ....core.registry.deployment import FINAL_STATES, NEW, DeploymentSpec
from ....core.registry.registry import used_before
from ....core.snapshots.plan_answer import PlanAnswer, read_answer
from ....core.snapshots.snapshots import SnapshotStore
from ...app_lease import holding
from ...operations.plan import TIMEOUT_SECONDS, Planned, planned
from ...operations.stop import stop_deployment
from ...operations.version import store_application, update_owner
from ...waiting import wait_for
from ..update import Update
from .strategy import Strategy


class OwnDriver(Strategy):
    """The new version's driver is started by the update's first step."""

    starts_early = True

    def start_driver(self, update: Update, spec: DeploymentSpec, epoch: int) -> None:
        """Start the driver of the stored deployment; none of it runs. epoch: the app's"""
        raise NotImplementedError

    def start(self, update: Update) -> bool:
        """Start the new version's driver beside the running one, unless the driver of an earlier try runs.

        False when the new version has taken over. The running deployment is not touched. The caller has begun the
        update: the driver ends when the update ends without a takeover.
        """
        app, registry, new = update.app, update.registry, update.record.new
        update.context.need_launcher().check()
        with holding(registry, new):
            parent, epoch = registry.running()
            if parent == new:
                return False
            # Without `runs_beside` it continues from the state that the running one ends with: that is stored then.
            if not self.runs_beside and SnapshotStore(registry).exists(update.snapshot):
                raise AlreadyExistsError(
                    f"app {app} already has a snapshot {update.snapshot!r}; choose another deployment id"
                )
            spec = _stored_spec(update) or self._store_spec(update, parent)
            if update.drivers.state(new) in (*FINAL_STATES, NEW):
                self.start_driver(update, spec, epoch)
                update.progress(f"deployment {new} of {app}: driver started beside {parent}")
            return True

    def _store_spec(self, update: Update, parent: str) -> DeploymentSpec:
        """Store the new version's deployment, with copies of its code and files."""
        options, registry, new = update.options, update.registry, update.record.new
        spec = DeploymentSpec(
            app=update.app,
            deployment=new,
            application=store_application(options.application, registry.deployment_folder(new)),
            digest=options.application.digest(),
            submitted_at=clock.now(),
            parent=parent,
            from_snapshot=update.snapshot,
            agree=options.agree,
            renames=dict(options.renames or {}),
            owner=update_owner(new),
            fork=self.runs_beside,
        )
        registry.create_deployment(spec)
        return spec

    def plan(self, update: Update) -> Planned:
        """Return the plan and report from the new version's driver; start it unless it runs.

        Raises the error that the driver found in the application; DriverError when it died without an answer;
        WaitTimeoutError after TIMEOUT_SECONDS.
        """
        spec, options = _stored_spec(update), update.options
        if spec is not None and (spec.agree, spec.renames) != (options.agree, dict(options.renames or {})):
            self.drop(update)  # an earlier try was asked for something else
        self.start(update)
        registry, drivers, new = update.registry, update.drivers, update.record.new

        def poll() -> PlanAnswer | None:
            state = drivers.state(new)  # read before the answer: the driver may answer and then end
            answer = read_answer(registry, new)
            if answer is None and state in FINAL_STATES:
                raise DriverError(f"nothing was stopped or changed: {drivers.death(new, state)}")
            return answer

        file = options.application.file
        try:
            return planned(wait_for(poll, f"the plan of {file}", TIMEOUT_SECONDS))
        except WaitTimeoutError as error:
            raise WaitTimeoutError(
                f"planning {file} took more than {TIMEOUT_SECONDS:g} s; nothing was stopped or changed, and "
                f"{update.record.old} keeps running. Try again when the machine or the cluster is less busy.\n"
                f"{drivers.last_lines(new)}"
            ) from error

    def drop(self, update: Update) -> None:
        """Drop the new version's deployment and its driver.

        Does nothing when there is no such deployment, it has taken over, or it has built a checkpoint.
        """
        registry, new = update.registry, update.record.new
        if not update.pending or _stored_spec(update) is None or registry.deployment_folder(new).names("restored"):
            return
        stop_deployment(update.context, update.app, new)
        registry.remove_deployment(new)


def _stored_spec(update: Update) -> DeploymentSpec | None:
    """Return the deployment that an earlier try of the update made; None without one.

    AlreadyExistsError when the id belongs to another owner's deployment.
    """
    registry, new = update.registry, update.record.new
    if new not in registry.deployment_ids():
        return None
    spec = registry.spec(new)
    if spec.owner != update_owner(new):
        raise AlreadyExistsError(used_before(registry.name, new))
    return spec
