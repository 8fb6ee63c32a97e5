"""How a driver comes to run its deployment's queries: at once, or after it has waited for its turn."""

from __future__ import annotations

from ....core import clock
from ....core.boundaries import boundary
from ....core.coordination import commands as words
from ....core.errors import FencedError, StorageError
from ....core.registry.deployment import STANDBY
from ....core.storage.patience import Patience
from ..context import DriverContext
from ..planning import Start, plan_start
from ..saved_state_source import SavedStateSource


class Role:
    """A driver that runs its queries at once. Other roles get ready first, beside the running deployment."""

    waits = False  # for its epoch: the running deployment hands it over

    def __init__(self, driver: DriverContext) -> None:
        self.driver = driver
        self.saved_state = SavedStateSource(driver.app, driver.spec)
        if self.waits:
            driver.epoch.wait_for_turn()

    def prepare(self) -> Start | None:
        """Return what the queries start with, once it is this driver's turn; None when it is not needed any more."""
        with self.driver.patiently():
            return plan_start(self.driver, self.saved_state.saved)


class Waiting(Role):
    """A driver that waits for its turn beside the running deployment."""

    follows = False  # until its turn the engine runs the running deployment's batches on a copy of its state, muted

    def begins(self) -> bool:
        """Return whether its turn has come."""
        return False

    def poll(self) -> None:
        """Do what there is to do meanwhile; have the driver end when it is not needed any more. Called again and again,
        it does nothing most times."""

    def wait(self) -> bool:
        """Wait until the epoch is this driver's (it must be the only one to claim it), or it is told to run beside the
        current one. False: it is not needed any more."""
        driver = self.driver
        if not self.follows:
            self._report_ready()
        next_report, patience = 0.0, Patience(driver.settings.patience)
        while True:
            if driver.signals.number is not None:
                raise driver.signals.exit()
            try:
                if self.waits and self.begins():
                    break
                if self.follows and driver.engine.keep_up() and driver.reporter.state != STANDBY:
                    self._report_ready()
                for command in driver.box.pending(refuse=True):
                    driver.box.answer(command.name)
                    if command.kind == words.CANCEL:
                        return driver.end("cancelled while it stood by")
                    if command.kind == words.RESUME and driver.epoch.runs_beside:
                        return True
                self.poll()
                if driver.final is not None:
                    return False
                if clock.monotonic() >= next_report:
                    driver.epoch.check_replaced()
                    if self.follows:
                        driver.reporter.report(queries=driver.engine.progress())
                    next_report = clock.monotonic() + driver.pace.heartbeat
                patience.reached()
            except StorageError:
                if patience.over():
                    raise
            driver.signals.woken.wait(driver.pace.standby if driver.folder.cheap_calls else driver.pace.commands)
        boundary("epoch-seen")
        with driver.patiently():
            driver.check_fence()
            if driver.final is not None:
                return False
            claimed = driver.epoch.claim()
        if not claimed:
            raise FencedError(f"epoch {driver.epoch.number} of {driver.spec.app} already has a driver")
        return True

    def _report_ready(self) -> None:
        self.driver.epoch.check_replaced()  # the status may be another driver's by now
        self.driver.report(state=STANDBY)
        boundary("stands-by")
