"""A driver that is ready and waits for its turn."""

from __future__ import annotations

from typing import Protocol

from ....core import clock
from ....core.boundaries import boundary
from ....core.coordination import commands as words
from ....core.errors import FencedError, StorageError
from ....core.registry.deployment import STANDBY
from ....core.storage.patience import Patience
from ..context import DriverContext


class Role(Protocol):
    """What it stands by for."""

    def begins(self) -> bool:
        """Whether it is its turn."""

    def look(self) -> None:
        """Do what there is to do meanwhile; have the driver end when it is not needed any more. Called again and again,
        it does nothing most times."""


def stand_by(driver: DriverContext, follows: bool, role: Role) -> bool:
    """Wait until the epoch is this driver's (it must be the only one to claim it), or it is told to run beside the
    current one. False: it is not needed any more.

    follows: until then, the engine runs the current deployment's batches on a copy of its state, into nothing
    """
    if not follows:
        _stands_by(driver)
    next_report, patience = 0.0, Patience(driver.settings.patience)
    while True:
        if driver.signals.number is not None:
            raise driver.signals.exit()
        try:
            if driver.epoch.standby and role.begins():
                break
            if follows and driver.engine.keep_up() and driver.reporter.state != STANDBY:
                _stands_by(driver)
            for command in driver.box.pending(refuse=True):
                driver.box.answer(command.name)
                if command.kind == words.CANCEL:
                    return driver.end("cancelled while it stood by")
                if command.kind == words.RESUME and driver.epoch.beside:
                    return True
            role.look()
            if driver.final is not None:
                return False
            if clock.monotonic() >= next_report:
                driver.epoch.check_replaced()
                if follows:
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


def _stands_by(driver: DriverContext) -> None:
    driver.epoch.check_replaced()  # the status may be another driver's by now
    driver.report(state=STANDBY)
    boundary("stands-by")
