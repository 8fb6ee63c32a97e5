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
        what = f"the update to {self.deployment} was interrupted at {at} after step {self.step!r}"
        if self.back_to:
            what = f"the rollback of {self.deployment} to {self.back_to} was interrupted at {at}"
        elif not self.killed:
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
    current, rollback = registry.current(), None
    if record is not None and not record.under_way(current.deployment if current else None):
        record = None
    if state == CANCELLED and current is not None and not current.cancelled:
        rollback = next((last for last in registry.rollbacks()[-1:] if last.under_way(current)), None)
    held = lease.read(registry.folder) if record or rollback else None
    if held is not None and (held.released or (record is not None and held.owner != record.new)):
        held = None  # it is about other work
    left = rollback is not None and held is not None and held.holder is None  # no task of a DAG continues a rollback
    if held is not None and not left and _worked_on(held):
        return None
    since = held.renewed_at if held else ""
    if record is not None:
        return Interruption(
            app=record.app,
            deployment=record.new,
            step=record.step,
            since=since or max([record.started_at, *record.step_times.values()]),
            killed=held is None or held.holder is not None or left,
        )
    if rollback is None:
        return None
    since, to = since or rollback.started_at, rollback.back_to
    return Interruption(app=rollback.app, deployment=rollback.left, step="", since=since, killed=True, back_to=to)


def _worked_on(held: Lease) -> bool:
    """Return whether a lease's holder, or what waits without one, gave a sign of life lately."""
    if held.holder is not None and held.holder.lives() is False:
        return False
    ago = held.uptime.ago() if held.uptime else None  # by the machine's uptime, where that is known
    if ago is None:
        ago = clock.age(held.renewed_at) if held.renewed_at else QUIET_SECONDS
    return ago < QUIET_SECONDS
