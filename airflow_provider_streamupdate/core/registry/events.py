"""The events of a deployment's driver: ``events.jsonl``, one JSON object per line, oldest first."""

from __future__ import annotations

import contextlib
import json
import threading
from typing import Any

from .. import clock
from ..errors import StorageError
from ..formats import EVENT
from ..storage import Folder


class Events:
    """The driver is the only writer, so the file is replaced as a whole: object stores cannot append. Events are for
    people, and nothing depends on them: one that cannot be written is dropped."""

    def __init__(self, deployment: Folder, epoch: int) -> None:
        self.folder = deployment
        self.epoch = epoch
        self._lock = threading.Lock()

    def add(self, event: str, **details: Any) -> None:
        line = json.dumps(EVENT.stamped({**details, "at": clock.now(), "epoch": self.epoch, "event": event}))
        with self._lock, contextlib.suppress(StorageError):
            text = self.folder.read("events.jsonl") or b""
            self.folder.write("events.jsonl", text + line.encode() + b"\n")
