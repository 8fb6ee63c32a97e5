"""What the parts of a driver's agent share."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import traceback
from contextlib import AbstractContextManager
from typing import Any

import attrs

from ...core import clock
from ...core.boundaries import boundary
from ...core.coordination import commands as words
from ...core.coordination.commands import CommandBox
from ...core.coordination.successor import Successor
from ...core.errors import StorageError, StreamUpdateError
from ...core.registry.deployment import (
    CANCELLED,
    DRAINING,
    HEARTBEAT_SECONDS,
    RESTORING,
    RUNNING,
    STANDBY,
    STARTING,
    STOPPED,
    SUSPENDED,
)
from ...core.registry.driver_settings import DriverSettings
from ...core.registry.hiding import Hiding
from ...core.registry.registry import AppRegistry
from ...core.serde import to_json
from ...core.storage.patience import Patience, patiently
from ...core.storage.space import no_room
from ..engine.port import QueryEngine
from .epoch import Epoch
from .recording import Recorder
from .reporting import Reporter
from .signals import Signals


@attrs.frozen(kw_only=True)
class Pace:
    """The intervals of a driver's recurring actions, in seconds.

    commands: between looks for commands, and at a successor
    standby: between looks, while standing by, whether its epoch has begun; a part of the pause
    heartbeat: between heartbeats, with a look whether its epoch is over
    takeover: a successor that has not committed after this time is given up

    Where each look at the storage is a request that is paid for, a running driver slows down:
    idle_after: without a command for this time; until then it is as fast as elsewhere, as an update needs it
    idle_commands, idle_heartbeat: in place of `commands` and `heartbeat` then
    """

    commands: float = 0.2
    standby: float = 0.02
    heartbeat: float = HEARTBEAT_SECONDS
    takeover: float = 300.0
    idle_after: float = 120.0
    idle_commands: float = 5.0
    idle_heartbeat: float = 10.0


STARTS = (STARTING, STANDBY, RESTORING)  # states in which the main thread is not in the loop that looks at signals
SERVES = (RUNNING, DRAINING, SUSPENDED)  # states in which commands are carried out


class DriverContext:
    """One driver of `deployment`: its engine, its right to run batches, and what it tells.

    box: the commands to it
    final: the state and the reason to end with; None while it is to go on
    why: the reason for which it runs; None: it was started
    successor: who may commit now, by this driver's own doing
    serving: the main thread watches the queries, and looks at signals
    """

    def __init__(
        self,
        app: AppRegistry,
        deployment: str,
        epoch: int,
        engine: QueryEngine,
        pace: Pace,
    ) -> None:
        self.app = app
        self.engine = engine
        self.spec = app.spec(deployment)
        self.pace = pace
        self.epoch = Epoch(app, self.spec, epoch)
        self.folder = app.deployment_folder(deployment)
        self.box = CommandBox(self.folder, epoch)
        self.reporter = Reporter(self.folder, epoch, pace.heartbeat, Hiding.of([self.spec]))
        self.recorder = Recorder(app.folder, deployment, epoch)
        self.signals = Signals()
        self.settings = DriverSettings()
        self.final: tuple[str, str | None] | None = None
        self.why: str | None = None
        self.successor: Successor | None = None
        self.serving = False

    def start(self) -> None:
        """Start the queries."""
        self.engine.start()
        boundary("queries-started")
        self.report(state=RUNNING, reason=self.why)
        boundary("running-reported")

    def end(self, reason: str) -> bool:
        """Have the driver end as cancelled. False, for the caller to return."""
        self.final = (CANCELLED, reason)
        return False

    def end_by_signal(self) -> tuple[str, str]:
        """Return the final state and reason of a driver that got a signal: it was stopped, unless a command asked for
        its end."""
        with contextlib.suppress(StreamUpdateError):  # without the storage nobody can tell
            if cancellation := self.app.cancellation():
                return CANCELLED, str(cancellation)
            if self.box.told_to_end():
                return CANCELLED, f"told to end, and {self.signals.reason}"
        return STOPPED, self.signals.reason

    def evict(self) -> None:
        """Leave before the cluster ends this driver: at once when no query runs, else after the batches in flight."""
        self.signals.evicted = True
        if self.reporter.state in STARTS and not self.serving:
            os.kill(os.getpid(), signal.SIGTERM)  # interrupts the main thread
        self.signals.woken.set()

    def check_fence(self) -> None:
        """Raise FencedError when the epoch is over; have the driver end when it is to for another reason."""
        if self.successor is not None:
            return  # it may commit, and this driver runs no batch
        reason = self.epoch.check()
        if reason and self.epoch.drains and self.reporter.state in SERVES:
            self.box.issue(words.DRAIN)  # who cancelled the app may have died before it told this driver
        elif reason:
            self.end(reason)

    def note_plan(self) -> None:
        """Keep the plan of what runs."""
        self.folder.write("plan.json", to_json(self.engine.plan))
        boundary("plan-written")

    def skip_used_batch_ids(self) -> None:
        """Begin after the batch ids that another version has left in the sinks, and tell it."""
        others = self.engine.skip_used_batch_ids()
        self.recorder.skip({query: last for query, (_, last) in others.items()})
        for query, (batch, last) in others.items():
            self.reporter.events.add("renumbered", query=query, batch=batch, to=last)
            print(
                f"WARNING: the sink of query {query} has batches up to {last} from another version: the input after "
                f"batch {batch} is computed again, in batches {last + 1} and later",
                file=sys.stderr,
            )

    def report(self, **changes: Any) -> None:
        """Report; without the storage, with the next heartbeat."""
        with contextlib.suppress(StorageError):
            self.reporter.report(**changes)

    def report_end(self, **changes: Any) -> None:
        """Report the final state, and deliver what is not answered yet, as soon as the storage takes it. A signal ends
        the wait, and a later driver of this deployment, whose status it is then. StorageError after the patience."""
        patience = Patience(self.settings.patience)
        while True:
            with contextlib.suppress(StorageError):
                self.box.deliver()
            try:
                return self.reporter.report(**changes)
            except StorageError:
                with contextlib.suppress(StorageError):
                    if self.epoch.replaced():
                        return None
                if self.signals.number is not None or patience.over():
                    raise
            clock.sleep(self.pace.commands)

    def patiently(self) -> AbstractContextManager[None]:
        """While the block runs, calls to the storage that fail are tried again, for as long as the patience lasts and
        this driver's epoch is not over."""
        return patiently(self._wait_for_storage)

    def _wait_for_storage(self, error: StorageError, seconds: float) -> bool:
        """Wait a moment; whether the call is to be made again. FencedError when the epoch is over."""
        if no_room(error) or seconds > self.settings.patience:
            return False
        with contextlib.suppress(StorageError):
            self.check_fence()
        if self.final is not None or self.signals.number is not None or self.signals.evicted:
            return False
        self.signals.woken.wait(self.pace.commands)
        return True


def print_error() -> None:
    """Print the traceback for the driver's log; the log may have ended with the JVM that reads it from this process."""
    with contextlib.suppress(OSError):
        traceback.print_exc()
