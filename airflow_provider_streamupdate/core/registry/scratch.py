"""The scratch folders of rehearsals: ``<app>/rehearsals/<id>/``, with the process that uses each."""

from __future__ import annotations

import socket

import attrs

from .. import clock
from ..processes.elapsed import written_ago
from ..processes.kernel import own_pid
from ..processes.process_identity import ProcessIdentity
from ..serde import from_json, to_json
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
    folder.write(f"{name}/used-by.json", to_json(user))
    return folder.sub(name)


def abandoned(app: AppRegistry) -> list[str]:
    """Names of the scratch folders whose process is gone."""
    folder = _all(app)
    texts = {name: folder.read(_mark(name)) for name in folder.names()}
    return [
        name
        for name, text in texts.items()
        if text is not None
        and _is_abandoned(from_json(text, UsedBy, folder.path(_mark(name))), app, f"rehearsals/{_mark(name)}")
    ]


def _mark(name: str) -> str:
    return f"{name}/used-by.json"


def remove(app: AppRegistry, name: str) -> None:
    """Nothing when it is gone."""
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
