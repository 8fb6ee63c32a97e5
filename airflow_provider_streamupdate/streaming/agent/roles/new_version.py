"""The new version of an update, which stands by until the old one hands over."""

from __future__ import annotations

from ....core import clock
from ....core.coordination.lease import held_for
from ..context import DriverContext


class NewVersion:
    def __init__(self, driver: DriverContext) -> None:
        self._driver = driver
        self._next_look = 0.0

    def begins(self) -> bool:
        """Whether its epoch has begun."""
        current = self._driver.app.current()
        return current is not None and current.epoch >= self._driver.epoch.number

    def look(self) -> None:
        """Have the driver end when the update does not go on for which it stands by."""
        driver = self._driver
        if clock.monotonic() < self._next_look:
            return
        if (update := driver.app.update(driver.spec.deployment)) is None or update.outcome is not None:
            driver.end("the update it stood by for has ended")
        elif not held_for(driver.app.folder, driver.spec.deployment):
            driver.end("the app's lease for the update it stood by for is no longer held")
        self._next_look = clock.monotonic() + driver.pace.heartbeat
