"""The scratch folders of rehearsals: ``<app>/rehearsals/<id>/``, with the process that uses each."""

from __future__ import annotations

import os
import socket

import attrs

from . import clock
from .registry import AppRegistry
from .serde import from_json, to_json
from .storage import Folder
from .successor import lives

FORGOTTEN_SECONDS = 86400.0  # no rehearsal takes so long


@attrs.frozen(kw_only=True)
class _User:
    host: str
    pid: int
    at: str


def take(app: AppRegistry, name: str) -> Folder:
    """The scratch folder `name`, which is this process's from now on. What a rehearsal that was killed has left behind
    is removed on the way."""
    folder = _all(app)
    for other in folder.names():
        text = folder.read(f"{other}/used-by.json")
        if text is not None and _gone(from_json(text, _User, folder.path(f"{other}/used-by.json"))):
            folder.remove(other)
    folder.write(f"{name}/used-by.json", to_json(_User(host=socket.gethostname(), pid=os.getpid(), at=clock.now())))
    return folder.sub(name)


def remove(app: AppRegistry, name: str) -> None:
    """Nothing when it is gone."""
    _all(app).remove(name)


def _all(app: AppRegistry) -> Folder:
    return app.folder.sub("rehearsals")


def _gone(user: _User) -> bool:
    here = user.host == socket.gethostname()
    return clock.age(user.at) > FORGOTTEN_SECONDS or (here and not lives(user.pid))
