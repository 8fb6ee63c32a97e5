"""What supervision will do about a dead driver: for status, list and the page."""

from __future__ import annotations

import attrs

from ...core import clock
from ...core.coordination.commands import CommandBox
from ...core.registry import supervision
from ...core.registry.deployment import DEAD_STATES, SUSPENDED, Current, DriverState, Status
from ...core.registry.registry import AppRegistry
from ...core.registry.supervision import Supervision, SupervisionOff
from . import watch


@attrs.frozen(kw_only=True)
class Outlook:
    """The next steps of supervisors for a driver that failed, was lost or was stopped."""

    watched: bool  # a supervisor watches the app
    off: SupervisionOff | None = None  # why the app is not supervised, and since when
    asked_to_end: bool = False  # the driver was suspended, or told to end, before it died: nobody starts it again
    starts: Supervision = attrs.field(factory=Supervision)  # a supervisor's, until somebody else started a driver

    @property
    def starts_again(self) -> bool:
        """Whether a supervisor is about to start it."""
        return self.watched and self.off is None and self.starts.gave_up is None

    def forecast(self, app: str) -> str | None:
        """Return what comes next, in words; None when nobody supervises the app."""
        starts = self.starts
        if self.asked_to_end:
            return "it died after it was told to end, or suspended, so no supervisor starts it (cancel ends it)"
        if self.off is not None:
            return f"its supervision is off since {clock.format_timestamp(self.off.at)}: {self.off.reason}"
        if starts.gave_up is not None:
            since = f" since {clock.format_timestamp(starts.gave_up_at)}" if starts.gave_up_at else ""
            return f"it is in a crash loop{since}, and supervisors leave it alone: {starts.gave_up}"
        if not self.watched:
            return None
        of = f" of {starts.limit}" if starts.limit else ""
        row = f" (start {starts.attempts + 1}{of} in a row)" if starts.attempts else ""
        waits = bool(starts.next_start_at) and clock.age(starts.next_start_at) < 0
        when = f"at {clock.format_timestamp(starts.next_start_at)}" if waits else "soon"
        return f"a supervisor starts it again {when}{row}; streamupdate cancel {app} keeps it down"


def outlook(app: AppRegistry, current: Current, state: DriverState, status: Status | None) -> Outlook | None:
    """Return what supervision makes of an app; None when its driver is not dead. Reads a handful of files."""
    if state not in DEAD_STATES:
        return None
    known = supervision.read(app.folder)
    mine = known.epoch is not None and current.epoch <= known.epoch
    return Outlook(
        watched=watch.watched(app),
        off=supervision.off(app.folder),
        asked_to_end=asked_to_end(app, current, status),
        starts=known if mine else Supervision(),
    )


def asked_to_end(app: AppRegistry, current: Current, status: Status | None) -> bool:
    """Return whether a dead driver had been suspended, or had been told to suspend or end and had not refused."""
    if status is not None and status.state == SUSPENDED:
        return True
    box = CommandBox(app.deployment_folder(current.deployment), current.epoch)
    return box.told_to_rest()
