"""The record of one rollback, kept under ``rollbacks/<number>.json``: the files of the two deployments do not show that
a rollback happened."""

from __future__ import annotations

import attrs

from .. import clock
from ..names import named
from .deployment import Current


@attrs.frozen(kw_only=True)
class RollbackRecord:
    """The record of a rollback."""

    number: int  # 1 for an app's first one
    app: str = attrs.field(validator=named("app"))
    left: str = attrs.field(validator=named("deployment"))  # the one that was ended
    back_to: str = attrs.field(validator=named("deployment"))  # the one that runs again
    started_at: str = attrs.field(validator=clock.is_moment)
    asked_by: str = ""  # who asked for it (a user and host, or a DAG's run)
    reason: str | None = None  # why, where an update failed, or nothing was started
    ended_at: str | None = attrs.field(default=None, validator=clock.is_moment)  # None: under way or interrupted
    from_epoch: int | None = None  # the app's when it began; None: nothing ran
    epoch: int | None = None  # of the driver that runs since (None: not yet, or the one before was never stopped)
    # the queries whose sink functions skip batch ids they have seen, as the caller declared: what they compute
    # again gets ids after those of the deployment that was left
    later_ids: tuple[str, ...] = ()

    def under_way(self, current: Current | None) -> bool:
        """Return whether it has not ended, and nothing else was started since. No clock is asked."""
        if current is None or self.ended_at is not None or self.from_epoch is None:
            return False
        claimed = {self.left: 0, self.back_to: 1}.get(current.deployment)
        return claimed is not None and current.epoch <= self.from_epoch + claimed
