"""Strategy ``restart``: the old version ends, then the new one is started."""

from __future__ import annotations

from typing import ClassVar

from ....core.registry.update import Step
from ...operations.snapshots.snapshot import save_snapshot
from ...operations.stop import drain
from ..record import note_checked
from ..update import Update
from .strategy import ALL_STEPS, Strategy, check_saved


class Restart(Strategy):
    """One driver at a time. The pause lasts as long as a driver takes to start."""

    name = "restart"
    steps: ClassVar[tuple[Step, ...]] = tuple(step for step in ALL_STEPS if step != Step.PREPARE)
    replaces_dead: ClassVar[bool] = True

    def stop_old(self, update: Update) -> None:
        """End the old version with the snapshot that the new one starts from, or, from a given snapshot, by a drain.

        Does nothing when the new version is current, or the old one has ended with that snapshot.
        """
        if not update.pending:
            return
        context, app, timeout, runs = update.context, update.app, update.options.drain_timeout, check_saved(update)
        if update.fresh:
            save_snapshot(context, app, update.snapshot, cancel=True, timeout=timeout, progress=update.progress)
        elif runs:
            drain(context, app, str(update.record.old), timeout)
        if runs:
            note_checked(update.registry, update.record.new, update.snapshot)
