"""The wish for a hot standby of an app, and its deployment. Written under the app's lease."""

from __future__ import annotations

import attrs

from .. import clock
from ..names import named
from ..serde import read_file, to_json
from ..storage import Folder
from .deployment import DeploymentSpec

PATH = "hot-standby.json"
_OWNER = "hot standby of "  # in the spec of one


@attrs.frozen(kw_only=True)
class HotStandby:
    """The wish for a hot standby."""

    deployment: str = attrs.field(validator=named("deployment"))  # the one that was started last to stand by
    asked_by: str
    asked_at: str = attrs.field(validator=clock.is_moment)


def owner(parent: str) -> str:
    """The owner token of the hot standbys of a deployment."""
    return f"{_OWNER}{parent}"


def leader(spec: DeploymentSpec) -> str | None:
    """The deployment that this one was a hot standby of, with the same code; None: it was none."""
    return spec.parent if spec.owner.startswith(_OWNER) else None


def snapshot_of(spec: DeploymentSpec) -> str | None:
    """The snapshot that a deployment started from. A hot standby's spec names one that is never stored."""
    return None if leader(spec) is not None else spec.from_snapshot


def read(app: Folder) -> HotStandby | None:
    """Read the record of the app in this folder; None when the app is to have no hot standby."""
    return read_file(app, PATH, HotStandby)


def write(app: Folder, wanted: HotStandby | None) -> None:
    if wanted is None:
        app.remove(PATH)
    else:
        app.write(PATH, to_json(wanted))
