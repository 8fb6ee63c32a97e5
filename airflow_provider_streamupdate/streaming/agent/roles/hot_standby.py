"""A driver that follows the current deployment for good, and takes over when the driver of that one dies."""

from __future__ import annotations

import contextlib

from ....core import clock
from ....core.coordination import lease
from ....core.coordination.commands import CommandBox
from ....core.coordination.lease import Lease
from ....core.coordination.watched_driver import Watched
from ....core.errors import LeaseHeldError, StorageError
from ....core.processes.process_identity import ProcessIdentity
from ....core.processes.pulse import Pulse
from ....core.registry import hot_standby, supervision
from ....core.registry.deployment import CANCELLED, FINISHED, SILENT_SECONDS, STANDBY, SUSPENDED, Current, Status
from ....core.snapshots.export import unmade
from ....core.storage import Folder
from ..context import DriverContext
from .standby import Standby

LOOK_SECONDS = 0.1  # between looks at the driver that is followed, where they cost nothing
RELEASE_TRIES = 10
HELD_SECONDS = 60.0  # a lease that cannot be given back after a takeover is free then, although this driver lives on


class HotStandby(Standby):
    """A deployment with the code of its parent. It takes over once it has caught up; before, the app is left to a
    supervisor. Whoever holds the app's lease decides about the app, so the takeover needs it: during an update, or
    while somebody starts the dead driver again, this one waits."""

    only_committed = True  # the running driver may die in a batch

    def __init__(self, driver: DriverContext) -> None:
        super().__init__(driver, batches=1)
        self._leader: Watched | None = None
        self._holder = Pulse()  # of the app's lease
        self._heard_at = 0.0  # when it gave a sign of life in its present epoch, or was looked at first

    def refusal(self, problems: str) -> str:
        return f"app {self.driver.spec.app} cannot have a hot standby: {problems}"

    def begins(self) -> bool:
        """Return whether it has taken over. The driver that it stands by for may be started again, in a later epoch."""
        return self.driver.app.current_id() == self.driver.spec.deployment

    def poll(self) -> None:
        """Take over when that is due; have the driver end when it is not needed any more."""
        driver, now = self.driver, clock.monotonic()
        if now < self._next_look:
            return
        self._next_look = now + (LOOK_SECONDS if driver.folder.cheap_calls else driver.pace.commands)
        current, parent = driver.app.current(), driver.spec.parent
        wanted = hot_standby.read(driver.app.folder)
        if current is not None and current.cancelled is not None:
            driver.end(str(current.cancelled))
        elif current is None or current.deployment != parent:
            driver.end(f"{parent}, which it stood by for, was replaced")
        elif wanted is None or wanted.deployment != driver.spec.deployment:
            driver.end("it is not to stand by any more")
        elif driver.app.spec(current.deployment).application.params != driver.spec.application.params:
            driver.end(f"the parameters of {parent} were changed")
        elif (death := self._death(current)) and driver.reporter.state == STANDBY:
            self._take_over(current, death)

    def _death(self, current: Current) -> str | None:
        """Why the current driver needs a replacement."""
        if self._leader is None or self._leader.epoch != current.epoch:
            self._leader = Watched(self.driver.app, current.deployment, current.epoch)
            self._heard_at = clock.monotonic()
        status = self._leader.status()
        if self._ended_on_request(current, status):
            return None
        if status is None:  # who starts it holds the app's lease until it runs, so that nothing is taken from them
            silent = clock.monotonic() - self._heard_at  # a driver before it may have written a last heartbeat over its
            if self._leader.is_gone(None):
                return "its process exited without a heartbeat"
            return f"it has given no sign of life for {silent:.0f} s" if silent >= SILENT_SECONDS else None
        self._heard_at = clock.monotonic()
        return self._leader.death_of(status)

    def _ended_on_request(self, current: Current, status: Status | None) -> bool:
        """Return whether somebody wants the running driver to be down: it was told to end, it is suspended, or its
        supervision is off."""
        if status is not None and status.state in (CANCELLED, FINISHED):
            return self.driver.end(f"{current.deployment}, which it stood by for, is {status.state}") is False
        box = CommandBox(self.driver.app.deployment_folder(current.deployment), current.epoch)
        if box.told_to_end():
            assert self._leader is not None  # it was looked at
            if self._leader.is_gone(status):
                self.driver.end(f"{current.deployment}, which it stood by for, died after it was told to end")
            return True
        suspended = (status is not None and status.state == SUSPENDED) or box.told_to_rest()
        return suspended or supervision.off(self.driver.app.folder) is not None

    def _take_over(self, current: Current, death: str) -> None:
        driver, app = self.driver, self.driver.app
        if app.update_under_way() is not None:
            return  # whoever goes on with it decides; an expired lease is not taken from them
        with contextlib.suppress(LeaseHeldError):
            held = lease.acquire(
                app.folder,
                driver.spec.deployment,
                ProcessIdentity.own(),
                needed=lambda _: app.update_under_way() is not None,
                alive=self._works,
                seconds=HELD_SECONDS,
                work=f"hot standby {driver.spec.deployment} takes over",
            )
            try:
                if app.current() != current or app.update_under_way() is not None or self._death(current) is None:
                    return
                if (plan := app.plan(current.deployment)) is None or unmade(app, current.deployment, plan) is not None:
                    return  # a supervisor starts it again, which makes its checkpoint
                self._fence(current)
                epoch = current.epoch + 1
                if not app.claim(Current(deployment=driver.spec.deployment, epoch=epoch, promoted=current.promoted)):
                    return
                driver.epoch.number, driver.box = epoch, driver.box.of_epoch(epoch)
                driver.why = f"took over from {current.deployment}, which died: {death}"
                driver.report(epoch=epoch, reason=driver.why)
                driver.reporter.events.add("taken over", of=current.deployment, reason=death)
            finally:
                _give_back(app.folder, held)

    def _works(self, held: Lease) -> bool:
        """Whether the holder of the lease may be at work. One on another machine is, until it has given no sign of life
        for SILENT_SECONDS and its lease has expired."""
        if held.holder is None:
            return True
        lives = held.holder.lives()
        if lives is not None:
            return lives
        quiet = self._holder.observe("lease", (held.token, held.renewed_at)).quiet
        return quiet < SILENT_SECONDS or lease.held(self.driver.app.folder, held)

    def _fence(self, current: Current) -> None:
        """Keep a driver that may still run on another machine from beginning a batch."""
        app, leader = self.driver.app, self._leader
        assert leader is not None  # it was looked at
        if not leader.is_gone(leader.status()):  # somebody else may start a driver while this process is held up
            leader.fence(lambda: app.current() == current)


def _give_back(app: Folder, held: Lease) -> None:
    """Without the storage, the lease is given back when it expires."""
    for _ in range(RELEASE_TRIES):
        try:
            return lease.release(app, held)
        except StorageError:
            clock.sleep(LOOK_SECONDS)
    return None
