"""What a strategy is asked for."""

from __future__ import annotations

from typing import ClassVar, Protocol

from ....core.errors import InvalidInputError
from ....core.plan.plan import AppPlan
from ....core.registry.deployment import FINAL_STATES
from ....core.registry.registry import AppRegistry
from ....core.registry.update import UpdateRecord
from ....core.snapshots.shared_objects import check_shared
from ...drivers.drivers import Drivers
from ...operations.plan import Planned
from ...operations.snapshot import verify_snapshot
from ...operations.submit import Deployed, check_adopted, submit
from ..options import UpdateOptions
from ..step import NOTED, Step
from ..update import Update

ALL_STEPS = tuple(Step)


class Pursuit(Protocol):
    """Something that the step `snapshot` waits for before it ends the old version, looked at again and again."""

    def missing(self) -> str:
        """What is still waited for; empty when nothing is."""

    def left(self) -> float:
        """Seconds until it is too late."""

    def late(self, missing: str) -> str:
        """What is said then."""


class Strategy:
    """How a new version takes the place of the one that runs. Every method may be called again after a crash: it looks
    at what is there and does what is missing.

    name: what it is called everywhere; summary: a line for whoever chooses one
    steps: those it has
    ready: what the record calls its step `standby`
    runs_beside: the new version runs beside the old one, under query ids of its own, until it takes over
    starts_early: its driver is started by the step `standby`, not by `submit`
    in_place: the running deployment goes on, and no new one is made
    has_pause: there is a time in which neither version commits
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    steps: ClassVar[tuple[Step, ...]] = ALL_STEPS
    ready: ClassVar[str] = "standby"
    runs_beside: ClassVar[bool] = False
    starts_early: ClassVar[bool] = False
    in_place: ClassVar[bool] = False
    has_pause: ClassVar[bool] = True

    @property
    def noted(self) -> tuple[str, ...]:
        """What an update's record calls the steps when they are done, in order."""
        return tuple(NOTED.get(step, self.ready) for step in self.steps)

    def accept(self, options: UpdateOptions) -> Strategy:
        """The strategy for these options: this one, or the one that stands in for it. InvalidInputError for options
        that do not go with it."""
        if (options.run_beside or options.catch_up_timeout) and not self.runs_beside:
            raise InvalidInputError(
                f"with strategy {self.name} the versions do not run side by side: leave out how long they do "
                "(--run-beside, --catch-up-timeout), or use strategy parallel"
            )
        return self

    def plan(self, update: Update) -> Planned | None:
        """Plan and check the new version by the driver that will run it. None: the strategy starts it later."""
        return None

    def drop(self, update: Update) -> None:
        """Undo `plan`: the version was refused."""

    def check_plan(self, update: Update, plan: AppPlan) -> None:
        """RefusedError when the strategy cannot bring in a version with this plan."""

    def get_ready(self, update: Update) -> None:
        """The step `standby`: what can be done while the old version works."""

    def pursuit(self, update: Update) -> Pursuit | None:
        """What `stop_old` would wait for; None: nothing."""
        return None

    def stop_old(self, update: Update) -> None:
        """The step `snapshot`: end the old version, with what the new one goes on from."""

    def start_new(self, update: Update) -> Deployed:
        """The step `submit`: start the new version where the old one ended, or find it running."""
        version = update.version
        return submit(
            update.context,
            version.application,
            version.deployment,
            version.snapshot,
            version.agree,
            owner=version.owner,
            timeout=update.options.submit_timeout,
            progress=update.progress,
            app=update.app,
            renames=version.renames,
        )

    def baseline(self, update: Update) -> str | None:
        """The snapshot that the new version is to be as healthy as; None: nothing is compared."""
        return update.snapshot

    def settle(self, record: UpdateRecord, registry: AppRegistry, drivers: Drivers, timeout: float) -> bool:
        """A rollback's first step, before the new version is ended: whether the old one goes on as it was by that."""
        return False

    def left_alone(self, old: str) -> str:
        """What is said when a failed update has not stopped the old version."""
        return f"{old} was not touched and keeps running"


def check_saved(update: Update) -> bool:
    """Whether the old version runs. Then what the new one will start from is read and compared with its checksums while
    it does: a damaged snapshot stops nothing, and the pause does not grow with the state."""
    record = update.record
    if record.old is None or not update.pending or update.drivers.state(record.old) in FINAL_STATES:
        return False
    if update.fresh:
        check_shared(update.registry, record.old, update.progress)
    else:
        verify_snapshot(update.context, update.app, update.snapshot, update.progress)
        check_adopted(update.context, update.app, update.snapshot)
    return True
