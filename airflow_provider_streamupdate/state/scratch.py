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
    for other in abandoned(app):
        folder.remove(other)
    folder.write(f"{name}/used-by.json", to_json(_User(host=socket.gethostname(), pid=os.getpid(), at=clock.now())))
    return folder.sub(name)


def abandoned(app: AppRegistry) -> list[str]:
    """Names of the scratch folders whose process is gone."""
    folder = _all(app)
    texts = {name: folder.read(f"{name}/used-by.json") for name in folder.names()}
    return [
        name
        for name, text in texts.items()
        if text is not None and _gone(from_json(text, _User, folder.path(f"{name}/used-by.json")))
    ]


def remove(app: AppRegistry, name: str) -> None:
    """Nothing when it is gone."""
    _all(app).remove(name)


def _all(app: AppRegistry) -> Folder:
    return app.folder.sub("rehearsals")


def _gone(user: _User) -> bool:
    here = user.host == socket.gethostname()
    return clock.age(user.at) > FORGOTTEN_SECONDS or (here and not lives(user.pid))
