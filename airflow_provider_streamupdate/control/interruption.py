"""Tell whether any process works on an update that has begun and not ended."""

from __future__ import annotations

import attrs

from ..core import clock
from ..core.coordination import lease
from ..core.coordination.lease import Lease
from ..core.registry.registry import AppRegistry
from ..core.registry.update import UpdateRecord

# An update without a sign of life for so long is interrupted: a process gives one every 5 s (renewing.RENEW_SECONDS),
# an update that waits without a process (the trigger of a DAG's task) every 60 s (app_lease.KEEP_SECONDS).
QUIET_SECONDS = 90.0


@attrs.frozen(kw_only=True)
class Interruption:
    """An update that no process works on.

    step: the last one that was completed
    since: the last sign of work on it, ISO
    killed: the process that worked on it is gone; otherwise it may wait for a DAG's next task
    """

    app: str
    deployment: str
    step: str
    since: str
    killed: bool

    def __str__(self) -> str:
        return f"{self.told}: {self.ways}"

    @property
    def told(self) -> str:
        at = clock.told(self.since)
        if self.killed:
            told = f"the update to {self.deployment} was interrupted at {at} after step {self.step!r}"
        else:
            told = f"the update to {self.deployment} has been waiting since {at}, after step {self.step!r}"
        return f"{told}, and no process works on it"

    @property
    def ways(self) -> str:
        return f"run the same update again to continue it, or streamupdate rollback {self.app}"


def interruption(registry: AppRegistry, record: UpdateRecord | None) -> Interruption | None:
    """Return None when the update has ended, is not about what runs, or a process works on it. Reads only; waits for
    no process."""
    if record is None or record.outcome is not None or not record.under_way(registry.current_id()):
        return None
    held = lease.read(registry.folder)
    mine = held if held is not None and held.owner == record.new and not held.released else None
    killed = mine is None or (mine.holder is not None and mine.holder.lives() is False)
    if mine is not None and not killed and _quiet(mine) < QUIET_SECONDS:
        return None
    since = mine.renewed_at if mine is not None else ""
    return Interruption(
        app=record.app,
        deployment=record.new,
        step=record.step,
        since=since or max([record.started_at, *record.step_times.values()]),
        killed=killed or (mine is not None and mine.holder is not None),
    )


def _quiet(held: Lease) -> float:
    """Return the seconds since a lease's last sign of life, by the machine's uptime where that is known."""
    ago = held.uptime.ago() if held.uptime else None
    if ago is not None:
        return ago
    return clock.age(held.renewed_at) if held.renewed_at else QUIET_SECONDS
