"""Strategy ``standby``: the new version gets ready beside the old one, which then hands over to it.

The two drivers do the hand-over through storage. This module asks for it, watches it, and completes it when one of them
died on the way.
"""

from __future__ import annotations

from ....core.boundaries import boundary
from ....core.coordination import commands
from ....core.coordination.commands import CommandBox, CommandResult
from ....core.difference.report import DifferenceReport
from ....core.errors import DriverError, RefusedError
from ....core.registry.deployment import FINAL_STATES, NEW, STANDBY, Current, DeploymentSpec, DriverRole
from ....core.registry.registry import AppRegistry
from ....core.registry.update import UpdateRecord
from ....core.snapshots.export import check_whole, export
from ....core.snapshots.snapshots import SnapshotStore
from ...app_lease import holding
from ...drivers.drivers import UPDATE_AGAIN
from ...operations.context import Context
from ...operations.submit import restoring
from ...waiting import Phase, wait_for
from ..options import UpdateOptions
from ..record import note_checked
from ..update import Update
from .own_driver import OwnDriver
from .restart import Restart
from .strategy import Strategy, check_saved, old_died


class Standby(OwnDriver):
    """Two drivers until the hand-over. The pause lasts as long as a query takes to start on saved state."""

    name = "standby"

    def accept(self, options: UpdateOptions) -> Strategy:
        """Return this strategy, or `restart` with a given snapshot: a standby continues from the old version's end."""
        strategy = super().accept(options)
        return Restart().accept(options) if options.snapshot else strategy

    def first_batches(self, update: Update) -> int:
        """Return from how many of the running version's last batches on the new one runs them, too; 0: it does not."""
        return 0

    def start_driver(self, update: Update, spec: DeploymentSpec, epoch: int) -> None:
        _check_gone(update)
        update.drivers.start_beside(spec, epoch + 1, DriverRole.STANDBY, self.first_batches(update))

    def get_ready(self, update: Update) -> DifferenceReport | None:
        """Wait until the new version's driver stands by to take over. When the old version dies meanwhile, nothing more
        is waited for: the step that follows brings in the new one."""
        new = update.record.new
        with holding(update.registry, new):
            if self.start(update):
                update.progress(Phase(f"{restoring(update.registry.plan(new), new)}, and warming it up"))
                update.drivers.wait_for_states(new, (STANDBY,), update.options.submit_timeout, lambda: old_died(update))
                note_ready(update)
        return None

    def getting_ready(self, context: Context, record: UpdateRecord) -> str:
        drivers = context.drivers(context.registry.app(record.app))
        if drivers.state(str(record.old)) in FINAL_STATES:
            return ""
        state = drivers.state(record.new)
        return "" if state in (STANDBY, NEW, *FINAL_STATES) else f"{record.new} to stand by (it is {state})"

    def standby_is_lost(self, update: Update) -> bool:
        """The new version's driver ends when nobody works on the update for a while (lease.DEFAULT_SECONDS), for
        example because nobody has approved it yet; or an earlier try of the step that follows had begun to start it
        again."""
        if not update.pending or update.drivers.state(str(update.record.old)) in FINAL_STATES:
            return False
        return update.drivers.state(update.record.new) != STANDBY

    def stop_old(self, update: Update) -> None:
        runs = check_saved(update)
        hand_over(update)
        if runs:
            note_checked(update.registry, update.record.new, update.snapshot)


def _check_gone(update: Update) -> None:
    """Raise RefusedError when a driver of the new version that has taken over before may still run: the next one makes
    its checkpoint anew, and with it goes the fence that keeps the first one from beginning a batch."""
    registry, new = update.registry, update.record.new
    launch = registry.launch(new)
    if launch is not None and registry.deployment_folder(new).names("drivers") and update.drivers.maybe_alive(new):
        raise RefusedError(
            f"the driver of deployment {new} of {update.app} that took over before (process {launch.pid} on "
            f"{launch.host}) may still run, and would write into the checkpoint of the next one: end that process, or "
            "choose another deployment id"
        )


def note_ready(update: Update) -> None:
    """Report that the new version's driver is ready to take over, or that it will as the old version died."""
    boundary("standby-ready")
    if old_died(update):
        update.progress(f"{update.record.old} died; {update.record.new} takes over from its checkpoint")
    else:
        update.progress(f"deployment {update.record.new} of {update.app} stands by")


def hand_over(update: Update) -> None:
    """Drain the old version, let the new one continue from there, and store the old one's final state as a snapshot.
    Where the old version died before it handed over, the new one continues from what it has committed.

    Returns when the new one has committed and the old one is gone; after the old one's death, when the new one is
    current. Can be repeated: nothing is done twice. DriverError when the new one failed (the old one then runs again by
    itself, or a rollback has to start it); WaitTimeoutError after the drain timeout, while the hand-over continues.
    """
    registry, drivers, progress, snapshot = update.registry, update.drivers, update.progress, update.snapshot
    old, new = str(update.record.old), update.record.new
    current = registry.current()
    box, command = CommandBox(registry.deployment_folder(old), 0), ""
    if current is not None and current.deployment == old and not old_died(update):
        progress(Phase(f"{old} hands over to {new}"))
        box = CommandBox(registry.deployment_folder(old), current.epoch)
        command = box.issue(commands.SNAPSHOT, snapshot=snapshot, cancel=True, successor=new)
        boundary("handover-asked")

    def poll() -> bool | None:
        if not command and registry.current_id() == old and not old_died(update):  # an earlier call asked for it
            raise DriverError(f"{new} took over and failed, so {old} took over again\n{drivers.last_lines(new)}")
        return _handed_over(update, box.result(command) if command else None)

    wait_for(poll, f"the hand-over to {new}", update.options.drain_timeout, why=lambda: drivers.silence(old))
    boundary("handover-seen")
    _complete(registry, old, snapshot)
    boundary("handover-completed")
    progress(f"{new} has taken over; {old} ended with snapshot {snapshot}")


def _handed_over(update: Update, answer: CommandResult | None) -> bool | None:
    registry, drivers, old, new = update.registry, update.drivers, str(update.record.old), update.record.new
    if answer is not None and answer.error:
        raise DriverError(f"{old} did not hand over to {new}: {answer.error}\n{drivers.last_lines(new)}")
    if registry.current_id() == new:
        if (state := drivers.state(new)) in FINAL_STATES and drivers.has_ended(old):
            raise DriverError(drivers.death(new, state))
        return True if drivers.has_ended(old) else None
    if drivers.has_ended(old):
        _replace_dead(update)
    return None


def _replace_dead(update: Update) -> None:
    """Let the new version take over from the old one, which died: its driver is nearer to its first batch than one that
    a rollback would start. DriverError when that is not possible; RefusedError when the old one had no state yet."""
    drivers, old, new = update.drivers, str(update.record.old), update.record.new
    if not old_died(update):
        raise DriverError(f"the old version ended before it handed over: {drivers.death(old, drivers.state(old))}")
    launch, state = update.registry.launch(new), drivers.state(new)
    if launch is None or state in (*FINAL_STATES, NEW):
        why = drivers.death(old, drivers.state(old), UPDATE_AGAIN)
        raise DriverError(f"the old version died before it handed over, and {new} is {state}: {why}")
    if (plan := update.registry.plan(old)) is not None:
        check_whole(update.registry, old, plan)
    drivers.replace_dead(old, Current(deployment=new, epoch=launch.epoch))
    update.progress(f"{old} died before it handed over; {new} takes over from what it has committed")


def _complete(registry: AppRegistry, old: str, snapshot: str) -> None:
    """Store the snapshot when the old driver died before it did: nothing runs in its checkpoint any more."""
    plan = registry.plan(old)
    if plan is not None and not SnapshotStore(registry).exists(snapshot):
        status = registry.status(old)
        export(registry, old, snapshot, plan, True, status.queries if status else {})
