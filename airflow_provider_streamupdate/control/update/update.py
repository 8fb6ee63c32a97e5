"""One update: what its steps work with."""

from __future__ import annotations

import attrs

from ...core.registry.registry import AppRegistry
from ...core.registry.update import UpdateRecord
from ..drivers.drivers import Drivers
from ..operations.context import Context
from ..waiting import Progress
from .options import UpdateOptions


@attrs.frozen(kw_only=True)
class Update:
    """An update's options, its record as it began, and the objects that its steps work with.

    record: for a check only it is not stored, and its `new` is the id that the new version would get
    """

    context: Context
    options: UpdateOptions
    record: UpdateRecord
    progress: Progress

    @property
    def app(self) -> str:
        return self.record.app

    @property
    def registry(self) -> AppRegistry:
        return self.context.registry.existing(self.record.app)

    @property
    def drivers(self) -> Drivers:
        return self.context.drivers(self.registry)

    @property
    def pending(self) -> bool:
        """True while the old version is the current one."""
        return self.registry.current_id() == self.record.old

    @property
    def fresh(self) -> bool:
        """True when the new version starts from the old one's final state, not from a given snapshot."""
        return self.options.snapshot is None

    @property
    def snapshot(self) -> str:
        """The snapshot that the new version starts from."""
        return self.options.snapshot or f"before-{self.record.new}"
