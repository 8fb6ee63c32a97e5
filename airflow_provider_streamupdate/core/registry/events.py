"""The events of a deployment's driver: ``events.jsonl``, one JSON object per line, oldest first."""

from __future__ import annotations

import contextlib
import json
import threading
from typing import Any

from .. import clock
from ..errors import CorruptError, StorageError
from ..formats import EVENT
from ..serde import parse_json
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


def parse_event(line: bytes, where: str) -> dict[str, Any]:
    """Return one of these lines as an event; CorruptError or NewerFormatError, naming `where`, when it is none."""
    event = EVENT.understood(parse_json(line, where, finite=True), where)
    if not isinstance(event, dict) or not isinstance(event.get("epoch"), int | None):
        raise CorruptError(f"{where} holds a line that is no event of a driver: {line[:60]!r}; remove that line")
    return event
