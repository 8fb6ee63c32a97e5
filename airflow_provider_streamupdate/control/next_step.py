"""What to do about an app whose driver is dead or whose update was interrupted: one sentence, the same everywhere."""

from __future__ import annotations

from ..core.errors import way_on
from ..core.registry.deployment import DEAD_STATES, FAILED, SILENT, Current, DriverState
from ..core.registry.update import UpdateRecord
from .interruption import Interruption


def next_step(
    app: str,
    state: DriverState,
    current: Current | None,
    update: UpdateRecord | None,
    interrupted: Interruption | None = None,
    supervised: str | None = None,
) -> str | None:
    """Return what to do; None when nothing has to be done: the app runs, or was ended on request.

    update: the last one, ended or not
    interrupted: the details when no process works on it
    supervised: what supervision makes of a dead driver, in words
    """
    if current is None:
        return None
    ongoing = update is not None and update.under_way(current.deployment)
    if interrupted is not None and (ongoing or interrupted.back_to):
        return str(interrupted)
    if state not in (*DEAD_STATES, SILENT):
        return None
    if ongoing and update is not None:
        return (
            f"an update to {update.new} is under way ({update.step}): run it again to continue it, or "
            f"streamupdate rollback {app}"
        )
    if state == SILENT:
        return f"streamupdate restart {app} watches its driver for a sign of life, and starts it again if there is none"
    if state == FAILED:
        back = update is not None and update.new == current.deployment and update.old is not None
        step = f"{way_on(app, back)}. streamupdate log {app} shows its error"
    else:
        step = (
            f"streamupdate restart {app} continues from its own checkpoint (streamupdate log {app} shows why it ended)"
        )
    return f"{supervised}; {step}" if supervised else step
