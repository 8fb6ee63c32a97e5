"""What a supervisor knows of an app, and what keeps it from the app. Each file has one writer: the supervisor, which
holds the app's lease when it counts a start, and who switches supervision off."""

from __future__ import annotations

import attrs

from .. import clock
from ..serde import read_file, to_json
from ..storage import Folder

EVICTED = "evicted"  # the reason of a driver that failed because its cluster ended it
PATH, OFF = "supervision.json", "supervision-off.json"


@attrs.frozen(kw_only=True)
class Supervision:
    """attempts: drivers that a supervisor started in a row and that did not recover
    epoch: of the driver it started last; started_at: when, ISO
    next_start_at: when it starts the next one at the earliest, if that driver dies (ISO); limit: after how many starts
        it gives up
    gave_up: why it does not try again; None: it does. A driver that somebody else starts ends that; gave_up_at: since
        when, ISO
    """

    attempts: int = 0
    epoch: int | None = None
    started_at: str = attrs.field(default="", validator=clock.is_moment)
    gave_up: str | None = None
    next_start_at: str = attrs.field(default="", validator=clock.is_moment)
    limit: int = 0
    gave_up_at: str = attrs.field(default="", validator=clock.is_moment)


@attrs.frozen(kw_only=True)
class SupervisionOff:
    """The app is not supervised. reason: why; at: since when, ISO"""

    reason: str
    at: str = attrs.field(validator=clock.is_moment)


def read(app: Folder) -> Supervision:
    """Read the record of the app in this folder."""
    return read_file(app, PATH, Supervision) or Supervision()


def write(app: Folder, found: Supervision) -> None:
    app.write(PATH, to_json(found))


def off(app: Folder) -> SupervisionOff | None:
    """Why the app is not supervised; None: it is."""
    return read_file(app, OFF, SupervisionOff)


def switch(app: Folder, reason: str | None) -> None:
    """Switch the supervision of an app off, for a reason, or on again (None)."""
    if reason is None:
        app.remove(OFF)
    else:
        app.write(OFF, to_json(SupervisionOff(reason=reason, at=clock.now())))
