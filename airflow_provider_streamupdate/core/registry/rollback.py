"""The record of one rollback, kept under ``rollbacks/<number>.json``: the files of the two deployments do not show that
a rollback happened."""

from __future__ import annotations

import attrs

from .. import clock
from ..names import named
from .deployment import Current


@attrs.frozen(kw_only=True)
class RollbackRecord:
    """number: 1 for an app's first one
    left: the deployment that was ended; back_to: the one that runs again
    started_at, ended_at: ISO; ended_at is None while it is under way, or was interrupted
    reason: why, where an update failed, or nothing was started
    asked_by: who asked for it (a user and host, or a DAG's run)
    from_epoch: the app's when it began; None: nothing ran
    epoch: of the driver that runs since (None: not yet, or the one before was never stopped)
    later_ids: the queries whose sink functions skip batch ids they have seen, as the caller declared: what they compute
        again gets ids after those of the deployment that was left
    """

    number: int
    app: str = attrs.field(validator=named("app"))
    left: str = attrs.field(validator=named("deployment"))
    back_to: str = attrs.field(validator=named("deployment"))
    started_at: str = attrs.field(validator=clock.is_moment)
    asked_by: str = ""
    reason: str | None = None
    ended_at: str | None = attrs.field(default=None, validator=clock.is_moment)
    from_epoch: int | None = None
    epoch: int | None = None
    later_ids: tuple[str, ...] = ()

    def under_way(self, current: Current | None) -> bool:
        """Return whether it has not ended, and nothing else was started since. No clock is asked."""
        if current is None or self.ended_at is not None or self.from_epoch is None:
            return False
        claimed = {self.left: 0, self.back_to: 1}.get(current.deployment)
        return claimed is not None and current.epoch <= self.from_epoch + claimed
