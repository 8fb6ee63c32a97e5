"""What a supervisor knows of an app, and what keeps it from the app."""

from __future__ import annotations

import attrs

from .. import clock
from ..serde import from_json, to_json
from ..storage import Folder

PATH = "supervision.json"


@attrs.frozen(kw_only=True)
class Supervision:
    """off: why the app is not supervised; None: it is
    attempts: drivers that a supervisor started in a row and that did not recover
    epoch: of the driver it started last; started_at: when, ISO
    gave_up: why it does not try again; None: it does. A driver that somebody else starts ends that
    """

    off: str | None = None
    attempts: int = 0
    epoch: int | None = None
    started_at: str = attrs.field(default="", validator=clock.is_moment)
    gave_up: str | None = None


def read(app: Folder) -> Supervision:
    """Of the app in this folder."""
    text = app.read(PATH)
    return Supervision() if text is None else from_json(text, Supervision, app.path(PATH))


def write(app: Folder, found: Supervision) -> None:
    app.write(PATH, to_json(found))
