"""A driver that gets ready beside the running deployment, and runs its queries beside that one's once it is told to."""

from __future__ import annotations

import attrs

from ..context import DriverContext
from ..planning import Start, answer_plan
from .role import Waiting


class Parallel(Waiting):
    """The new version of a parallel update. Its epoch becomes the app's when it is promoted."""

    def __init__(self, driver: DriverContext) -> None:
        super().__init__(driver)
        driver.epoch.run_beside_parent()

    def prepare(self) -> Start | None:
        with self.driver.patiently():
            start = answer_plan(self.driver, self.saved_state.at_first)
        if not self.wait():
            return None
        with self.driver.patiently():
            return attrs.evolve(start, saved=self.saved_state.saved())
