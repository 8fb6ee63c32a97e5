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
    """The starts that a supervisor made for an app."""

    attempts: int = 0  # drivers that were started in a row and did not recover
    epoch: int | None = None  # of the driver that was started last
    started_at: str = attrs.field(default="", validator=clock.is_moment)
    gave_up: str | None = None  # why no other start is made; a driver that somebody else starts ends that
    next_start_at: str = attrs.field(default="", validator=clock.is_moment)  # the earliest, if that driver dies
    limit: int = 0  # starts after which the supervisor gives up
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
