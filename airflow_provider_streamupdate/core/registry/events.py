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

KEPT = 1_000_000  # bytes of the latest events


class Events:
    """The driver is the only writer, so the file is replaced as a whole: object stores cannot append. So it keeps the
    latest events only. Events are for people, and nothing depends on them: one that cannot be written is dropped."""

    def __init__(self, deployment: Folder, epoch: int) -> None:
        self.folder = deployment
        self.epoch = epoch
        self._lock = threading.Lock()

    def add(self, event: str, **details: Any) -> None:
        line = json.dumps(EVENT.stamped({**details, "at": clock.now(), "epoch": self.epoch, "event": event}))
        with self._lock, contextlib.suppress(StorageError):
            text = self.folder.read("events.jsonl") or b""
            if len(text) > KEPT:
                text = text[-KEPT:].partition(b"\n")[2]
            self.folder.write("events.jsonl", text + line.encode() + b"\n")


def latest_lines(deployment: Folder) -> list[bytes]:
    """Return the latest events of a deployment's folder as they are written, oldest first: of a longer file its end."""
    text = deployment.read_end("events.jsonl", KEPT) or b""
    lines = text.splitlines()
    return lines[1:] if len(text) == KEPT else lines  # the first one may be cut
