"""The interface of a strategy, and the defaults."""

from __future__ import annotations

from typing import ClassVar, Protocol

from ....core.difference.report import DifferenceReport
from ....core.errors import DriverError, InvalidInputError
from ....core.plan.plan import AppPlan
from ....core.registry.deployment import DEAD_STATES, FINAL_STATES
from ....core.registry.registry import AppRegistry
from ....core.registry.update import Step, UpdateRecord
from ....core.snapshots.shared_objects import check_shared
from ...drivers.drivers import UPDATE_AGAIN, Drivers
from ...operations.context import Context
from ...operations.plan import Planned
from ...operations.snapshots.snapshot import verify_snapshot
from ...operations.submit import Deployed, SubmitOptions, check_adopted, submit
from ...operations.version import update_owner
from ..options import UpdateOptions
from ..update import Update

ALL_STEPS = tuple(Step)


class Pursuit(Protocol):
    """A condition that the step `snapshot_and_cancel` polls before it ends the old version."""

    def missing(self) -> str:
        """Return what is still missing; empty when nothing is."""

    def left(self) -> float:
        """Return the seconds until the timeout."""

    def late(self, missing: str) -> str:
        """Return the message of the timeout."""


class Strategy:
    """How a new version replaces the running one.

    Every method may be called again after a crash: it checks what is already done and does the rest.

    name: its name everywhere
    steps: the steps it has
    runs_beside: the new version runs beside the old one, under its own query ids, until it takes over
    starts_early: its driver is started by the step `prepare`, not by `submit_from_snapshot`
    in_place: the running deployment continues, and no new one is made
    replaces_dead: it can replace a version whose driver failed, was lost or has finished
    catches_up: the new version runs behind the old one, and has to come close before it takes over
    compares: both versions run the same batches, so that their results can be compared before the new one takes over
    has_pause: for some time neither version commits
    """

    name: ClassVar[str]
    steps: ClassVar[tuple[Step, ...]] = ALL_STEPS
    runs_beside: ClassVar[bool] = False
    starts_early: ClassVar[bool] = False
    in_place: ClassVar[bool] = False
    catches_up: ClassVar[bool] = False
    compares: ClassVar[bool] = False
    has_pause: ClassVar[bool] = True
    replaces_dead: ClassVar[bool] = False

    def accept(self, options: UpdateOptions) -> Strategy:
        """Return the strategy for these options: this one, or its substitute.

        InvalidInputError for options that this strategy does not have.
        """
        if options.run_beside and not self.runs_beside:
            raise InvalidInputError(
                f"with strategy {self.name} the versions do not run side by side: leave out --run-beside (run_beside), "
                "or use strategy parallel"
            )
        if options.catch_up_timeout and not self.catches_up:
            raise InvalidInputError(
                f"with strategy {self.name} the new version has nothing to catch up with: leave out --catch-up-timeout "
                "(catch_up_timeout), or use strategy follow or parallel"
            )
        if (options.compares or options.diff_tolerance) and not self.compares:
            raise InvalidInputError(
                f"with strategy {self.name} the versions do not run the same batches: leave out --max-slower, "
                "--max-rows-changed, --max-state-changed, --diff and --diff-tolerance, or use strategy follow"
            )
        return self

    def plan(self, update: Update) -> Planned | None:
        """Plan and check the new version with the driver that will run it. None: the strategy starts it later."""
        return None

    def drop(self, update: Update) -> None:
        """Undo `plan`, after the version was refused."""

    def clear(self, context: Context, registry: AppRegistry, new: str) -> None:
        """Remove what the steps made beside the deployments of an update that brings in `new`, once its driver is
        gone."""

    def standby_is_lost(self, update: Update) -> bool:
        """Return whether the result of the step `prepare` is gone and must be rebuilt before the old version ends."""
        return False

    def check_plan(self, update: Update, plan: AppPlan) -> None:
        """Raise RefusedError when the strategy cannot bring in a version with this plan."""

    def get_ready(self, update: Update) -> DifferenceReport | None:
        """The step `prepare`: do what can be done while the old version works. Return what was found where the versions
        were compared."""
        return None

    def getting_ready(self, context: Context, record: UpdateRecord) -> str:
        """Return what `get_ready` will wait for; empty when it is there, or its driver must be started again."""
        return ""

    def pursuit(self, update: Update) -> Pursuit | None:
        """Return what `stop_old` waits for; None: nothing."""
        return None

    def stop_old(self, update: Update) -> None:
        """The step `snapshot_and_cancel`: end the old version, with the state that the new one continues from."""

    def start_new(self, update: Update) -> Deployed:
        """The step `submit_from_snapshot`: start the new version where the old one ended, unless it runs."""
        asked, new = update.options, update.record.new
        options = SubmitOptions(
            application=asked.application,
            deployment=new,
            snapshot=update.snapshot,
            agree=asked.agree,
            owner=update_owner(new),
            timeout=asked.submit_timeout,
            progress=update.progress,
            app=update.app,
            renames=asked.renames,
        )
        return submit(update.context, options)

    def baseline(self, update: Update) -> str | None:
        """Return the snapshot whose lag and state rows the new version must reach; None: nothing is compared."""
        return update.snapshot

    def undo_in_place(self, record: UpdateRecord, registry: AppRegistry, drivers: Drivers, timeout: float) -> bool:
        """Undo the update while the new version still runs; return whether that restored the old version."""
        return False

    def message_if_untouched(self, old: str) -> str:
        """Return the message for a failed update that has not stopped the old version."""
        return f"{old} was not touched and keeps running"


def old_died(update: Update) -> bool:
    """Return whether the old version's driver died; one that was told to end has not."""
    return update.record.old is not None and update.drivers.state(update.record.old) in DEAD_STATES


def check_old_lives(update: Update) -> bool:
    """Raise DriverError when the old version's driver died; else return False."""
    if old_died(update):
        old = str(update.record.old)
        death = update.drivers.death(old, update.drivers.state(old), UPDATE_AGAIN)
        raise DriverError(f"the old version died: {death}")
    return False


def check_saved(update: Update) -> bool:
    """Return whether the old version runs; if it does, verify the state that the new one will start from.

    The bytes are compared with their checksums while the old version still runs. So a damaged snapshot stops nothing,
    and the pause does not grow with the state.
    """
    record = update.record
    if record.old is None or not update.pending or update.drivers.state(record.old) in FINAL_STATES:
        return False
    if update.fresh:
        check_shared(update.registry, record.old, update.progress)
    else:
        verify_snapshot(update.context, update.app, update.snapshot, update.progress)
        check_adopted(update.context, update.app, update.snapshot)
    return True
