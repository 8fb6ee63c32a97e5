"""The lifecycle of a driver: it claims its epoch, has its engine run the queries, writes the heartbeat, obeys commands,
hands over and takes back, and leaves a clear final state. `engine.QueryEngine` hides what runs the queries."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable

from ...core.boundaries import boundary
from ...core.checkpoint.checkpoint import Checkpoint
from ...core.checkpoint.fence import unfence
from ...core.errors import FencedError
from ...core.registry.deployment import CANCELLED, FAILED, FINISHED, RESTORING, SUSPENDED
from ...core.registry.driver_settings import DriverSettings
from ...core.registry.output_log import OutputLog, kept_short
from ...core.registry.registry import AppRegistry
from ...core.registry.supervision import EVICTED
from ..engine.port import QueryEngine
from ..planning.author import describe_failure
from .context import STARTS, DriverContext, Pace, print_error
from .planning import Start, check_report
from .roles.role import Role
from .serving import TOLD_TO_END, serve


class Agent:
    """One driver of a deployment. It claims its epoch exclusively, so that a second driver started for the same epoch
    ends at once, and stops when current.json shows that its epoch is over."""

    def __init__(
        self,
        app: AppRegistry,
        deployment: str,
        epoch: int,
        engine: QueryEngine,
        role: Callable[[DriverContext], Role] = Role,
        pace: Pace | None = None,
    ) -> None:
        """epoch: the deployment's, or the one in which it is to take over; role: how it comes to run its queries"""
        self.driver = DriverContext(app, deployment, epoch, engine, pace or Pace())
        self.role = role(self.driver)

    def run(self) -> int:
        """Run until the app ends; 0, or 1 when it failed."""
        if not self.role.waits and not self.driver.epoch.claim():
            print(
                f"epoch {self.driver.epoch.number} of {self.driver.spec.app} already has a driver; this one ends",
                file=sys.stderr,
            )
            return 1
        with self.driver.signals.noted(lambda: self.driver.reporter.state in STARTS):
            try:
                self.driver.check_fence()
                self.driver.reporter.report()
                self.driver.settings = DriverSettings.of(os.environ)
                launch = self.driver.app.launch(self.driver.spec.deployment)
                self.driver.epoch.launch = launch
                log = OutputLog.of(launch, self.driver.folder, self.driver.settings)
                if self.driver.final is None:  # else the app was cancelled before this driver came up
                    with self.driver.reporter.heartbeat(), kept_short(log):
                        self._work()
                state, reason = self.driver.final or (FINISHED, "all queries ended by themselves")
                self.driver.report_end(state=state, reason=reason)
            except BaseException as error:
                print_error()
                self._fail(error)
            self.driver.recorder.wait_written()
        return 0 if self.driver.reporter.state in (CANCELLED, FINISHED) else 1

    def _work(self) -> None:
        start = self.role.prepare()
        if start is None:
            return
        with self.driver.patiently():
            self._restore(start)
        if self.driver.final is not None:
            return
        with self.driver.recorder.writing():
            try:
                self.driver.start()
                serve(self.driver)
            finally:
                self.driver.engine.stop()
                with contextlib.suppress(Exception):
                    last = self.driver.engine.progress()
                    self.driver.recorder.note(last)
                    self.driver.reporter.report(queries=last)

    def _restore(self, start: Start) -> None:
        """Bring the checkpoints to where the queries go on."""
        driver, saved = self.driver, start.saved
        if saved is not None:
            driver.report(state=RESTORING)
            boundary("restoring")
            check_report(driver, saved.compare(start.plan, driver.spec.agree), saved)
            if start.followed:
                driver.engine.catch_up(saved)
            driver.engine.restore(saved)
            driver.reporter.events.add("restored", source=saved.source)
        driver.check_fence()
        if driver.final is not None:
            return
        for query in start.queries:
            unfence(Checkpoint(driver.app.checkpoint(driver.spec.deployment, query)))
        if start.later_ids:
            driver.skip_used_batch_ids()
        if saved is None:
            driver.engine.check_start(driver.spec.agree)

    def _fail(self, error: BaseException) -> None:
        if isinstance(error, FencedError):
            current = self.driver.app.current()
            if current is not None and current.cancelled is not None:
                self.driver.report_end(state=CANCELLED, reason=str(current.cancelled))
                return
            if self.driver.epoch.replaced() or (current and current.deployment == self.driver.spec.deployment):
                return  # the status belongs to a later driver of this deployment
        if self.driver.signals.evicted and self.driver.reporter.state == SUSPENDED:
            return  # it stays what it was: nobody starts a suspended app that is lost
        if self.driver.signals.evicted:  # whoever watches the app starts it again
            own = isinstance(error, SystemExit) or str(error) == TOLD_TO_END
            why = TOLD_TO_END if own else f"{TOLD_TO_END}, and before its end: {describe_failure(error)}"
            self.driver.report_end(state=FAILED, error=why, reason=EVICTED)
            return
        if self.driver.signals.number is not None:
            state, ending = self.driver.end_by_signal()
            self.driver.report_end(state=state, reason=ending)
            return
        why = describe_failure(error)
        if gone := self.driver.engine.ended_part(error):
            why = f"{gone} ({why})"
        self.driver.report_end(state=FAILED, error=why, reason=type(error).__name__)
