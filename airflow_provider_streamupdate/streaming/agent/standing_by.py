"""A driver that is ready and waits for its turn."""

from __future__ import annotations

import time

from ...core.boundaries import boundary
from ...core.coordination import commands as words
from ...core.coordination.lease import held_for
from ...core.errors import FencedError, StorageError
from ...core.registry.deployment import STANDBY
from ...core.storage.patience import Patience
from .context import DriverContext
from .hot_standby import HotStandby


def stand_by(driver: DriverContext, follows: bool, hot: HotStandby | None = None) -> bool:
    """Wait until the epoch is this driver's (it must be the only one to claim it), or it is told to run beside the
    current one. False: it is not needed any more.

    follows: until then, the engine runs the current deployment's batches on a copy of its state, into nothing
    hot: it is no update that it waits for, but the death of the current deployment's driver
    """
    if not follows:
        _stands_by(driver)
    next_look, patience = 0.0, Patience(driver.settings.patience)
    while True:
        if driver.signals.number is not None:
            raise driver.signals.exit()
        try:
            if driver.epoch.standby and _begins(driver, hot is not None):
                break
            if follows and driver.engine.keep_up() and driver.reporter.state != STANDBY:
                _stands_by(driver)
            for command in driver.box.pending(refuse=True):
                driver.box.answer(command.name)
                if command.kind == words.CANCEL:
                    return driver.end("cancelled while it stood by")
                if command.kind == words.RESUME and driver.epoch.beside:
                    return True
            if hot is not None:
                hot.look()
                if driver.final is not None:
                    return False
            if time.monotonic() >= next_look:
                if hot is None and not _needed(driver):
                    return False
                if follows:
                    driver.reporter.report(queries=driver.engine.progress())
                next_look = time.monotonic() + driver.pace.heartbeat
            patience.reached()
        except StorageError:
            if patience.over():
                raise
        driver.signals.woken.wait(driver.pace.standby if driver.folder.cheap_calls else driver.pace.commands)
    boundary("epoch-seen")
    driver.check_fence()
    if not driver.epoch.claim():
        raise FencedError(f"epoch {driver.epoch.number} of {driver.spec.app} already has a driver")
    return True


def _needed(driver: DriverContext) -> bool:
    """Whether the update goes on for which it stands by; else have it end."""
    if (update := driver.app.update(driver.spec.deployment)) is None or update.outcome is not None:
        return driver.end("the update it stood by for has ended")
    if not held_for(driver.app.folder, driver.spec.deployment):
        return driver.end("the app's lease for the update it stood by for is no longer held")
    return True


def _stands_by(driver: DriverContext) -> None:
    driver.reporter.report(state=STANDBY)
    boundary("stands-by")


def _begins(driver: DriverContext, hot: bool) -> bool:
    current = driver.app.current()
    if current is None:
        return False
    # The driver that a hot one stands by for may be started again, in an epoch of its own.
    return current.deployment == driver.spec.deployment if hot else current.epoch >= driver.epoch.number
