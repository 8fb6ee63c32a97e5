"""What a driver reports under the root: its status, which is also its heartbeat, and its events."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Mapping
from typing import Any

import attrs

from ...core import clock
from ...core.errors import StreamUpdateError
from ...core.processes.kernel import own_pid
from ...core.processes.process_identity import ProcessIdentity
from ...core.processes.threads import repeating
from ...core.registry.deployment import DRAINING, HEARTBEAT_SECONDS, RUNNING, STARTING, QueryStatus, Status
from ...core.registry.events import Events
from ...core.registry.hiding import Hiding
from ...core.serde import to_json
from ...core.storage import Folder, call_count


class Reporter:
    """folder: the deployment's; epoch: the one it was started for; every: seconds between two heartbeats, which may be
    changed at any time; hiding: hides what the deployment was given as a secret"""

    def __init__(
        self, folder: Folder, epoch: int, every: float = HEARTBEAT_SECONDS, hiding: Hiding | None = None
    ) -> None:
        self.folder = folder
        self.every = every
        self.hiding = hiding or Hiding()
        self.events = Events(folder, epoch)
        self._tick = every
        self._written_at = 0.0
        self._lock = threading.RLock()
        self._status = Status(
            state=STARTING,
            epoch=epoch,
            heartbeat_at=clock.now(),
            started_at=clock.now(),
            host=socket.gethostname(),
            pid=own_pid(),
            process=ProcessIdentity.own(),
        )

    @property
    def state(self) -> str:
        return self._status.state

    @property
    def started_at(self) -> str:
        return self._status.started_at

    def report(self, **changes: Any) -> None:
        """Write status.json with `changes` of a Status, and an event when they change the state. On a StorageError, the
        changes are written with the next report."""
        with self._lock:
            before = self._status.state
            beat = self._status.beat + 1
            always: dict[str, Any] = {"heartbeat_at": clock.now(), "beat": beat, "requests": call_count()}
            if changes.get("state", before) != before:
                always["state_since"] = clock.now()
            if changes.get("state") == DRAINING and before != DRAINING:
                idle = tuple(name for name, query in self._status.queries.items() if query.idle)
                always |= {"drain_began_at": clock.now(), "idle_at_drain": idle}
            if "queries" in changes and before == RUNNING:
                always["first_idle_at"] = _first_idle(self._status.first_idle_at, changes["queries"])
            self._status = self.hiding.status(attrs.evolve(self._status, **{**always, **changes}))
            if self._status.state != before:
                began = {"since": self._status.started_at} if before == STARTING else {}
                self.events.add(
                    "state",
                    state=self._status.state,
                    reason=self._status.reason if "reason" in changes else None,
                    **began,
                )
            self.folder.write("status.json", to_json(self._status), lasting=False)  # another comes at once
            self._written_at = clock.monotonic()

    def heartbeat(self) -> contextlib.AbstractContextManager[None]:
        """Write heartbeats while the main thread is busy (session start, restore), so that a slow start does not look
        like a death."""
        return repeating(self._tick, self._beat, StreamUpdateError)

    def _beat(self) -> None:
        """Write a heartbeat, unless a report was one already: an object store is paid for each."""
        if clock.monotonic() - self._written_at >= self.every:
            self.report()


def _first_idle(known: Mapping[str, str], queries: Mapping[str, QueryStatus]) -> dict[str, str]:
    """Return when each query first found nothing to read, before it committed a batch."""
    idle = {name: clock.now() for name, query in queries.items() if query.idle and query.first_commit_at is None}
    return {**idle, **known}
