"""Updates and rollbacks that have begun, have not ended, and that no process works on."""

from __future__ import annotations

import attrs

from ..core import clock
from ..core.coordination import lease
from ..core.coordination.lease import Lease
from ..core.registry.deployment import CANCELLED, DriverState
from ..core.registry.registry import AppRegistry
from ..core.registry.update import UpdateRecord

# An update without a sign of life for this long is interrupted. A process gives one every 5 s (lease.RENEW_SECONDS),
# an update that waits without a process (the trigger of a DAG's task) every 60 s (app_lease.KEEP_SECONDS).
QUIET_SECONDS = 90.0


@attrs.frozen(kw_only=True)
class Interruption:
    """An update, or a rollback, that no process works on."""

    app: str
    deployment: str  # the new one; of a rollback, the one that is left
    step: str  # the last one that was completed
    since: str  # the last sign of work on it, ISO
    killed: bool  # the process that worked on it is gone; otherwise it may wait for a DAG's next task
    back_to: str | None = None  # the deployment that a rollback goes back to; None: an update

    def __str__(self) -> str:
        return f"{self.reason}: {self.help}"

    @property
    def reason(self) -> str:
        at = clock.format_timestamp(self.since)
        if self.back_to:
            what = f"the rollback of {self.deployment} to {self.back_to} was interrupted at {at}"
        elif self.killed:
            what = f"the update to {self.deployment} was interrupted at {at} after step {self.step!r}"
        else:
            what = f"the update to {self.deployment} has been waiting since {at}, after step {self.step!r}"
        return f"{what}, and no process works on it"

    @property
    def help(self) -> str:
        if self.back_to:
            return f"the app is down; streamupdate rollback {self.app} completes it"
        return f"run the same update again to continue it, or streamupdate rollback {self.app}"


def interruption(
    registry: AppRegistry, record: UpdateRecord | None, state: DriverState | None = None
) -> Interruption | None:
    """Return the update or rollback that no process works on; None when there is none. Reads only, and never waits.

    state: the current driver's. When it is cancelled, an interrupted rollback is looked for, too
    """
    if record is None or record.outcome is not None or not record.under_way(registry.current_id()):
        return _rollback(registry) if state == CANCELLED else None
    held = lease.read(registry.folder)
    mine = held if held is not None and held.owner == record.new and not held.released else None
    killed = mine is None or (mine.holder is not None and mine.holder.lives() is False)
    if mine is not None and not killed and _silent_seconds(mine) < QUIET_SECONDS:
        return None
    since = mine.renewed_at if mine is not None else ""
    return Interruption(
        app=record.app,
        deployment=record.new,
        step=record.step,
        since=since or max([record.started_at, *record.step_times.values()]),
        killed=killed or (mine is not None and mine.holder is not None),
    )


def _rollback(registry: AppRegistry) -> Interruption | None:
    """Return the rollback that has ended the current driver and that no process works on."""
    current, last = registry.current(), next(iter(registry.rollbacks()[-1:]), None)
    if current is None or current.cancelled or last is None or not last.under_way(current):
        return None
    held = lease.read(registry.folder)
    if (
        held
        and not held.released
        and _silent_seconds(held) < QUIET_SECONDS
        and not (held.holder and held.holder.lives() is False)
    ):
        return None
    since = (held.renewed_at if held is not None else "") or last.started_at
    return Interruption(app=last.app, deployment=last.left, step="", since=since, killed=True, back_to=last.back_to)


def _silent_seconds(held: Lease) -> float:
    """Return the seconds since a lease's last sign of life, by the machine's uptime where that is known."""
    ago = held.uptime.ago() if held.uptime else None
    if ago is not None:
        return ago
    return clock.age(held.renewed_at) if held.renewed_at else QUIET_SECONDS
