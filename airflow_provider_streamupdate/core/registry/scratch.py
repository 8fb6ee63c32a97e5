"""The scratch folders of rehearsals: ``<app>/rehearsals/<id>/``, with the process that uses each."""

from __future__ import annotations

import socket

import attrs

from .. import clock
from ..processes.elapsed import written_ago
from ..processes.kernel import own_pid
from ..processes.process_identity import ProcessIdentity
from ..serde import read_file, to_json
from ..storage import Folder
from .registry import AppRegistry

FORGOTTEN_SECONDS = 86400.0  # no rehearsal takes so long


@attrs.frozen(kw_only=True)
class UsedBy:
    """The owner of a scratch folder."""

    host: str
    pid: int
    at: str
    process: ProcessIdentity


def take(app: AppRegistry, name: str) -> Folder:
    """Take the scratch folder `name` for this process. What a killed rehearsal has left behind is removed first."""
    folder = _all(app)
    for other in abandoned(app):
        folder.remove(other)
    user = UsedBy(host=socket.gethostname(), pid=own_pid(), at=clock.now(), process=ProcessIdentity.own())
    folder.write(_mark(name), to_json(user))
    return folder.sub(name)


def abandoned(app: AppRegistry) -> list[str]:
    """Names of the scratch folders whose process is gone."""
    folder = _all(app)
    users = {name: read_file(folder, _mark(name), UsedBy) for name in folder.names()}
    return [name for name, user in users.items() if user and _is_abandoned(user, app, f"rehearsals/{_mark(name)}")]


def _mark(name: str) -> str:
    return f"{name}/used-by.json"


def remove(app: AppRegistry, name: str) -> None:
    """Remove a scratch folder, if it is there."""
    _all(app).remove(name)


def _all(app: AppRegistry) -> Folder:
    return app.folder.sub("rehearsals")


def _is_abandoned(user: UsedBy, app: AppRegistry, path: str) -> bool:
    """Whether the owner has certainly ended, or, where that is unknown, took the folder too long ago, also by the
    storage's clock."""
    lives = user.process.lives()
    if lives is not None:
        return not lives
    return clock.age(user.at) > FORGOTTEN_SECONDS and written_ago(app.folder, path) > FORGOTTEN_SECONDS
