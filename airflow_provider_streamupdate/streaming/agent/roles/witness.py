"""A driver with the old version's code that follows the running one, so that both versions' rows can be compared."""

from __future__ import annotations

from ....core import clock
from ....core.coordination.lease import held_for
from ....core.difference.comparison import OLD, Comparison
from ..context import DriverContext
from .standby import Standby

LOOK_SECONDS = 1.0
FOLLOWS = 1  # times as long as it compares: meanwhile it begins no batch


class Witness(Standby):
    """A driver that follows and compares, and never takes over.

    new: the deployment that the update brings in
    """

    practises = False  # it has to be as warm as it gets by itself

    def __init__(self, driver: DriverContext, batches: int, new: str) -> None:
        super().__init__(driver, batches)
        self._new = new

    def begins(self) -> bool:
        return False

    def comparison(self) -> tuple[Comparison, str]:
        return Comparison(self.driver.app.deployment_folder(self._new)), OLD

    def poll(self) -> None:
        """Compare what is there to compare; have the driver end with the update."""
        driver = self.driver
        began = clock.monotonic()
        if began < self._next_look:
            return
        comparison = Comparison(driver.app.deployment_folder(self._new))
        update = driver.app.update(self._new)
        if cancellation := driver.app.cancellation():
            comparison.remove_rows()
            driver.end(str(cancellation))
        elif update is None or update.outcome is not None or driver.app.current_id() != driver.spec.parent:
            comparison.remove_rows()
            driver.end(f"the update to {self._new}, whose rows it compared, has taken over or ended")
        elif not held_for(driver.app.folder, self._new):
            driver.end("the app's lease for the update whose rows it compared is no longer held")
        else:
            driver.engine.compare(comparison)
        now = clock.monotonic()
        self._next_look = now + max(LOOK_SECONDS, FOLLOWS * (now - began))
