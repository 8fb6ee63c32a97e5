"""What supervision will do about a dead driver: for status, list and the page."""

from __future__ import annotations

import attrs

from ...core import clock
from ...core.coordination.commands import CommandBox
from ...core.registry import supervision
from ...core.registry.deployment import DEAD_STATES, SUSPENDED, Current, DriverState, Status
from ...core.registry.registry import AppRegistry
from . import watch
from .decision import starts_in_a_row


@attrs.frozen(kw_only=True)
class Outlook:
    """The supervisor's next steps for a driver that failed, was lost or was stopped."""

    watched: bool  # a supervisor watches the app
    off: str | None = None  # why the app is not supervised
    off_since: str | None = None  # ISO
    asked_to_end: bool = False  # the driver was suspended, or told to end, before it died: nobody starts it again
    attempts: int = 0  # starts in a row without a recovery
    limit: int = 0  # after how many starts the supervisor gives up; 0: not known
    last_start_at: str | None = None  # ISO
    next_start_at: str | None = None  # ISO, at the earliest; None: there is none to come
    gave_up: str | None = None  # why the supervisor gave up: a crash loop
    gave_up_at: str | None = None  # ISO

    def forecast(self, app: str) -> str | None:
        """Return what comes next, in words; None when nobody supervises the app."""
        if self.asked_to_end:
            return "it died after it was told to end, or suspended, so no supervisor starts it (cancel ends it)"
        if self.off is not None and self.off_since is not None:
            return f"its supervision is off since {clock.format_timestamp(self.off_since)}: {self.off}"
        if self.gave_up is not None:
            since = f" since {clock.format_timestamp(self.gave_up_at)}" if self.gave_up_at else ""
            return f"it is in a crash loop{since}, and supervisors leave it alone: {self.gave_up}"
        if not self.watched:
            return None
        of = f" of {self.limit}" if self.limit else ""
        row = f" (start {self.attempts + 1}{of} in a row)" if self.attempts else ""
        waits = self.next_start_at is not None and clock.age(self.next_start_at) < 0
        when = f"at {clock.format_timestamp(self.next_start_at)}" if waits and self.next_start_at else "soon"
        return f"a supervisor starts it again {when}{row}; streamupdate cancel {app} keeps it down"


def outlook(app: AppRegistry, current: Current, state: DriverState, status: Status | None) -> Outlook | None:
    """Return what supervision makes of an app; None when its driver is not dead. Reads a handful of files."""
    if state not in DEAD_STATES:
        return None
    known, off = supervision.read(app.folder), supervision.off(app.folder)
    attempts = starts_in_a_row(current, known)
    mine = known.epoch is not None and current.epoch <= known.epoch
    return Outlook(
        watched=watch.watched(app),
        off=off.reason if off else None,
        off_since=off.at if off else None,
        asked_to_end=asked_to_end(app, current, status),
        attempts=attempts,
        limit=known.limit if attempts else 0,
        last_start_at=(known.started_at or None) if mine else None,
        next_start_at=(known.next_start_at or None) if mine and known.gave_up is None else None,
        gave_up=known.gave_up if mine else None,
        gave_up_at=(known.gave_up_at or None) if mine else None,
    )


def asked_to_end(app: AppRegistry, current: Current, status: Status | None) -> bool:
    """Return whether a dead driver had been suspended, or had been told to suspend or end and had not refused."""
    if status is not None and status.state == SUSPENDED:
        return True
    box = CommandBox(app.deployment_folder(current.deployment), current.epoch)
    return box.told_to_rest()
