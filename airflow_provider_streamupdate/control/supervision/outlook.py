"""What becomes of a dead driver, as far as supervision decides it: for those who only look."""

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
    """Of an app whose driver failed, was lost or was stopped.

    watched: a supervisor watches the app
    off, off_since: why it is not supervised, and since when (ISO)
    asked_to_end: the driver was suspended, or told to end, before it died: nobody starts it again
    attempts: starts in a row without a recovery; limit: after how many the app is left alone (0: not known)
    last_start_at, next_start_at: ISO; the next one at the earliest, None when there is none to come
    gave_up, gave_up_at: why and since when (ISO) it is left alone, in a crash loop
    """

    watched: bool
    off: str | None = None
    off_since: str | None = None
    asked_to_end: bool = False
    attempts: int = 0
    limit: int = 0
    last_start_at: str | None = None
    next_start_at: str | None = None
    gave_up: str | None = None
    gave_up_at: str | None = None


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


def told(app: str, found: Outlook | None) -> str | None:
    """Return what comes next, in words; None when supervision has nothing to say."""
    if found is None:
        return None
    if found.asked_to_end:
        return "it died after it was told to end, or suspended, so no supervisor starts it (cancel ends it)"
    if found.off is not None and found.off_since is not None:
        return f"its supervision is off since {clock.format_timestamp(found.off_since)}: {found.off}"
    if found.gave_up is not None:
        since = f" since {clock.format_timestamp(found.gave_up_at)}" if found.gave_up_at else ""
        return f"it is in a crash loop{since}, and supervisors leave it alone: {found.gave_up}"
    if not found.watched:
        return None
    of = f" of {found.limit}" if found.limit else ""
    row = f" (start {found.attempts + 1}{of} in a row)" if found.attempts else ""
    waits = found.next_start_at is not None and clock.age(found.next_start_at) < 0
    when = f"at {clock.format_timestamp(found.next_start_at)}" if waits and found.next_start_at else "soon"
    return f"a supervisor starts it again {when}{row}; streamupdate cancel {app} keeps it down"


def asked_to_end(app: AppRegistry, current: Current, status: Status | None) -> bool:
    """Whether a dead driver had been suspended, or told to suspend or end, and had not refused: it is not to run."""
    if status is not None and status.state == SUSPENDED:
        return True
    box = CommandBox(app.deployment_folder(current.deployment), current.epoch)
    return box.told_to_rest()
