"""The drivers of an app: their state, their start, their end."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from typing import Any

import attrs
import psutil

from ...core import clock
from ...core.checkpoint.checkpoint import Checkpoint
from ...core.checkpoint.fence import fence
from ...core.errors import (
    AppCancelledError,
    DriverError,
    FencedError,
    failure_advice,
)
from ...core.processes.elapsed import written_ago
from ...core.processes.pulse import Pulse
from ...core.registry.deployment import (
    CANCELLED,
    DEAD_STATES,
    FAILED,
    FINAL_STATES,
    LOST,
    NEW,
    SILENT,
    SILENT_SECONDS,
    STARTED_STATES,
    STARTING,
    Cancellation,
    Current,
    DeploymentSpec,
    DriverRole,
    DriverState,
    Launch,
    Status,
)
from ...core.registry.hiding import Hiding
from ...core.registry.registry import AppRegistry
from ...core.snapshots.plan_answer import PLANNED
from ...core.users import this_user, user_name
from ..waiting import POLL_SECONDS, wait_for
from . import process
from .clusters import Client, cluster_for, cluster_of
from .clusters import alive as lives_now
from .driver_log import ERROR_LINES, driver_log
from .launch_files import LaunchFiles, launch_files
from .launcher import Launcher, driver_environment, need_launcher
from .process import Alive

UPDATE_AGAIN = "Correct the cause, and run the update again"
QUIET_SECONDS = 5.0  # without a heartbeat, which comes every second: the reason why a wait was in vain
_pulse = Pulse()  # of all drivers this process has looked at, whichever request asked


def not_started(app: str, cancellation: Cancellation) -> str:
    """Return why nothing of an app is started."""
    return f"{app} was {cancellation}, so nothing of it is started; streamupdate restart {app} starts it again"


def check_not_cancelled(app: str, current: Current | None) -> None:
    """Raise AppCancelledError when the app is cancelled. current: who runs, as it was read"""
    if current is not None and current.cancelled is not None:
        raise AppCancelledError(not_started(app, current.cancelled))


@attrs.frozen
class Drivers:
    """The drivers of one app.

    watch: True: a driver that seems silent is watched until its next heartbeat, for SILENT_SECONDS at most, before it
        is reported as lost. False, for read-only requests: it is reported as silent, since a clock alone never makes a
        driver lost.
    """

    app: AppRegistry
    launcher: Launcher | None
    root: str
    storage_options: dict[str, Any] = attrs.field(repr=False)
    alive: Alive = lives_now
    watch: bool = True

    def state(self, deployment: str) -> DriverState:
        """Return ``new``, a state the driver wrote, ``lost`` (its process is gone, or it gave no heartbeat), or, for a
        dead driver whose app was cancelled, ``cancelled``."""
        return self.state_and_status(deployment)[0]

    def status(self, deployment: str) -> Status | None:
        """Return the last heartbeat of the driver started last; None before its first one."""
        launch = self.app.launch(deployment)
        return self._status_of(launch, deployment) if launch else None

    def state_and_status(self, deployment: str) -> tuple[DriverState, Status | None]:
        """Return `state` and `status` of the same moment, reading each file once."""
        _, state, status = self._launch_state_and_status(deployment)
        current = self.app.current() if state in DEAD_STATES else None
        cancelled = current is not None and current.deployment == deployment and current.cancelled is not None
        return (CANCELLED if cancelled else state), status

    def maybe_alive(self, deployment: str) -> bool:
        """Return whether a driver that gives no sign of life, and counts as dead, may run on a machine that cannot be
        inspected."""
        launch, state, status = self._launch_state_and_status(deployment)
        return launch is not None and state == LOST and self.alive(launch, status) is not False

    def _launch_state_and_status(self, deployment: str) -> tuple[Launch | None, DriverState, Status | None]:
        """Return the launch, the driver's own end or life, and its last heartbeat."""
        while True:
            launch = self.app.launch(deployment)
            if launch is None:
                return None, NEW, None
            status = self._status_of(launch, deployment)
            if status is not None and status.final:
                return launch, status.state, status
            living = self.alive(launch, status)
            if living is False:
                last = self._status_of(launch, deployment)  # it may have written its final status meanwhile
                beats = last is not None and status is not None and last.pulse != status.pulse
                return launch, (last.state if last is not None and (last.final or beats) else LOST), last
            if status is None:
                overdue = living is None and self._overdue(deployment, launch)
                return launch, (LOST if overdue else STARTING), None
            state = status.state if living else self._state_by_heartbeat(deployment, status)
            if state is not None:
                return launch, state, status
            clock.sleep(POLL_SECONDS)

    def _state_by_heartbeat(self, deployment: str, status: Status) -> DriverState | None:
        """Return the state of a driver whose process cannot be inspected, from changes of its heartbeat.

        None: not decided yet; look again.
        """
        beat = _pulse.observe(self.app.deployment_folder(deployment).address, status.pulse)
        if beat.quiet >= SILENT_SECONDS:
            return LOST
        if beat.changed or status.recent:
            return status.state
        return None if self.watch else SILENT

    def _overdue(self, deployment: str, launch: Launch) -> bool:
        """Return whether the first heartbeat of a driver whose process cannot be inspected is overdue.

        Both this machine's clock and the storage's must say so.
        """
        patience = cluster_of(launch).first_sign_seconds
        if clock.age(launch.launched_at) <= patience:
            return False
        return not self.watch or written_ago(self.app.folder, f"deployments/{deployment}/launch.json") > patience

    def _status_of(self, launch: Launch, deployment: str) -> Status | None:
        status = self.app.status(deployment)
        return status if status is not None and status.epoch >= launch.epoch else None

    def has_ended(self, deployment: str) -> bool:
        """Return whether no driver of the deployment runs any more."""
        launch = self.app.launch(deployment)
        living = lives_now(launch, self._status_of(launch, deployment)) if launch else False
        return self.state(deployment) in (*FINAL_STATES, NEW) if living is None else not living

    def start(self, spec: DeploymentSpec, epoch: int, promoted: bool = False, after_cancel: bool = False) -> Launch:
        """Make the deployment current in `epoch` and start its driver.

        The caller holds the lease and has made sure that no other driver of the app runs. If one runs nevertheless, the
        epoch fences it; where that is uncertain, its offset log is blocked, so that it cannot begin another batch.

        AppCancelledError when the app is cancelled, and nobody asked for the start (`after_cancel`). A cancellation
        claims an epoch as well, so none can come between this look and the claim.
        """
        need_launcher(self.launcher)
        files = launch_files(self.app, spec, self.root)
        self._check_cluster(files)
        before = self.app.current()
        if not after_cancel:
            check_not_cancelled(self.app.name, before)
        if before is not None:
            self.fence(before.deployment)  # before the claim: a rerun after it would find nothing to fence
        self.claim(Current(deployment=spec.deployment, epoch=epoch, promoted=promoted))
        return self._launch(spec, files, epoch)

    def claim(self, successor: Current, after: int | None = None) -> None:
        """Make a deployment current (`AppRegistry.claim`). AppCancelledError when somebody has just cancelled the app,
        FencedError when somebody has just claimed the epoch otherwise."""
        if not self.app.claim(successor, after):
            check_not_cancelled(self.app.name, self.app.current())
            raise FencedError(f"the epoch of {self.app.name} passed to {self.app.current_id()} a moment ago; try again")

    def replace_dead(self, dead: str, successor: Current) -> None:
        """Make a deployment whose driver stands by current, in place of one whose driver died."""
        self.fence(dead)
        self.claim(successor)

    def fence(self, deployment: str) -> None:
        """Fence a lost driver whose process cannot be inspected: it may still run on another machine."""
        plan = self.app.plan(deployment)
        if plan is not None and self.maybe_alive(deployment):
            for query in plan.queries:
                fence(Checkpoint(self.app.checkpoint(deployment, query.name)))

    def start_beside(
        self, spec: DeploymentSpec, epoch: int, role: DriverRole, follow: int = 0, compare_with: str | None = None
    ) -> Launch:
        """Start a driver that gets ready beside the current one, for its role. No other driver of the deployment runs.

        epoch: the one in which it is to run, if it takes over or is promoted
        follow: it runs the current one's batches meanwhile, muted, from so many of the last ones on; 0: it does not
        compare_with: the deployment with whose rows a witness compares its own
        """
        need_launcher(self.launcher)
        check_not_cancelled(self.app.name, self.app.current())
        folder = self.app.deployment_folder(spec.deployment)
        folder.remove(PLANNED)
        if role is not DriverRole.PARALLEL:
            # What an earlier standby driver of this deployment has left: its heartbeat, the commands to it, and the
            # marks of its checkpoint, which does not hold the state that the current deployment will end with.
            for left in ("status.json", f"commands/{epoch}", "restored"):
                folder.remove(left)
        more = ["--follow", str(follow)] if follow else []
        more += ["--compare-with", compare_with] if compare_with else []
        return self._launch(spec, launch_files(self.app, spec, self.root), epoch, "--role", str(role), *more)

    def _check_cluster(self, files: LaunchFiles) -> None:
        """Raise what would keep the driver from starting, before another one is fenced or an epoch is claimed."""
        launcher = need_launcher(self.launcher)
        command = launcher.command(files.application, [], "")
        environment = driver_environment(launcher, files.application, command, self.storage_options)
        cluster_for(command).check(command, environment)

    def _launch(self, spec: DeploymentSpec, files: LaunchFiles, epoch: int, *more: str) -> Launch:
        launcher, application = need_launcher(self.launcher), files.application
        args = ["run", "--root", self.root, "--app", spec.app, "--deployment", spec.deployment, "--epoch", str(epoch)]
        command = launcher.command(application, [*args, *more], str(files.runtime))
        cluster = cluster_for(command)
        # A root of the same address elsewhere, or one that was removed and made again, is another one.
        driver = (f"{self.app.folder.address}|{self.app.first_claim()}", spec.app, spec.deployment, str(epoch))
        environment = driver_environment(launcher, application, command, self.storage_options)
        cluster.check(command, environment, driver)
        prepared = cluster.prepare(command, driver, environment)
        return process.start(
            prepared.command,
            environment,
            files.folder / f"driver-{epoch}.log",
            epoch,
            lambda launch: self._note(spec.deployment, launch),
            cluster=cluster.name,
            submitted=prepared.submitted,
            folder=application.working_folder(files.folder),
        )

    def _note(self, deployment: str, launch: Launch) -> None:
        """Record a launch. FencedError when somebody else has started a later driver of the deployment, or is about to:
        this process stood still."""
        known, current = self.app.launch(deployment), self.app.current()
        later = known.epoch if known is not None else 0
        if current is not None and current.deployment == deployment:
            later = max(later, current.epoch)
        if later > launch.epoch:
            raise FencedError(
                f"somebody else starts a driver of deployment {deployment} of {self.app.name} in epoch {later}, so "
                f"none is started in epoch {launch.epoch}; streamupdate status {self.app.name} shows what runs"
            )
        self.app.set_launch(deployment, launch)

    def wait_running(self, deployment: str, timeout: float) -> None:
        """Wait until the driver runs its queries, or has run them to their end (trigger availableNow); DriverError with
        its last log lines when it dies instead."""
        self.wait_for_states(deployment, STARTED_STATES, timeout)

    def wait_for_states(
        self,
        deployment: str,
        states: tuple[DriverState, ...],
        timeout: float,
        needless: Callable[[], bool] = lambda: False,
    ) -> None:
        """Wait until the driver is in one of the states; DriverError with its last log lines when it dies instead.

        needless: asked at each look, ends the wait when true
        """

        def poll() -> bool | None:
            state = self.state(deployment)
            if state in FINAL_STATES and state not in states:
                raise DriverError(self.death(deployment, state))
            return True if state in states or needless() else None

        def why() -> str:
            reason = self.cluster_message(deployment)
            return (
                f"{f'{reason}. ' if reason else ''}The driver is still starting: watch it "
                f"(streamupdate status {self.app.name}), give it more time (--timeout), or end it "
                f"(streamupdate cancel {self.app.name})\n{self.last_lines(deployment)}"
            )

        wait_for(poll, f"the start of deployment {deployment} of {self.app.name}", timeout, why=why)

    def living_state(self, deployment: str) -> DriverState:
        """Return the state of a driver. DriverError with its `death` when it has ended."""
        state = self.state(deployment)
        if state in FINAL_STATES:
            raise DriverError(self.death(deployment, state))
        return state

    def death(self, deployment: str, state: DriverState, then: str | None = None) -> str:
        """Return why a driver ended, as far as it reported that, what to do (`then`), and its last log lines.

        then: None: correct the cause, and start the driver or the update again
        """
        status = self.status(deployment)
        why = (status.error or status.reason) if status else None
        if state in DEAD_STATES and not why:
            why = self.cluster_message(deployment) or "its process exited without a final status"
        if then is None and deployment != self.app.current_id():  # it was started beside the current one
            then = UPDATE_AGAIN
        elif then is None and state == FAILED:
            then = failure_advice(self.app.name)
        elif then is None:
            then = f"Correct the cause, and start it again with streamupdate restart {self.app.name}"
        return (
            f"the driver of deployment {deployment} of {self.app.name} is {state}: {why or 'no reason given'}. "
            f"{then} (streamupdate log {self.app.name} --deployment {deployment} shows more)\n"
            f"{self.last_lines(deployment)}"
        )

    def silence(self, deployment: str) -> str | None:
        """Return why a driver that lives does not answer, as far as that is known; None: it gives signs of life."""
        status, launch = self.status(deployment), self.app.launch(deployment)
        if status is None or status.final:
            return None
        who = f"the driver of deployment {deployment}"
        for identity in (status.process, launch.process if launch else None):
            if identity is not None and identity.here() and _is_stopped(identity.pid):
                return (
                    f"process {identity.pid} of {who} is stopped (SIGSTOP): continue it (kill -CONT {identity.pid}) or "
                    f"end it (kill -KILL {identity.pid}), then run this again"
                )
        if (quiet := clock.age(status.heartbeat_at)) < QUIET_SECONDS:
            return None
        return (
            f"{who} (process {status.pid} on {status.host}) has given no sign of life for {quiet:.0f} s: it hangs, or "
            "cannot write to the root (streamupdate doctor names folders of other users); mend that or end the "
            "process, then run this again"
        )

    def cluster_message(self, deployment: str) -> str | None:
        """Return why the driver does not run yet, or why it ended, in its cluster's words; None: it says nothing."""
        launch = self.app.launch(deployment)
        message = cluster_of(launch).why_not_running(launch) if launch else None
        if message is None:  # it may hold the end of a log
            return None
        return Hiding.of([self.app.spec(deployment)]).text(message)

    def grace_problem(self, deployment: str, status: Status | None) -> str | None:
        """Return why a batch would be cut when the cluster has the driver end, e.g. to drain its node; None: it would
        not."""
        launch = self.app.launch(deployment)
        grace = cluster_of(launch).grace_seconds(launch) if launch else None
        longest = max((figures.seconds for q in (status.queries.values() if status else ()) for figures in q.figures),
                      default=0.0)  # fmt: skip
        if grace is None or longest < grace:
            return None
        return (
            f"the driver of {deployment} has {grace:g} s to end when its node is drained, and batches took up to "
            f"{longest:.0f} s: a longer terminationGracePeriodSeconds in the driver's pod template "
            "(spark.kubernetes.driver.podTemplateFile) lets them finish"
        )

    def last_lines(self, deployment: str) -> str:
        """Return the end of the driver's log, around its error, for an error message."""
        return str(driver_log(self.app, deployment, ERROR_LINES, around=True))

    def log(self, deployment: str) -> str | None:
        """Return the path of the driver's log on the machine that started it; None when no driver was started."""
        launch = self.app.launch(deployment)
        return launch.log if launch else None

    def kill(self, deployment: str) -> None:
        """End the driver, by its processes if they can be identified from here, or by its cluster.

        DriverError when it may still run: a process that may not be the driver's is never signalled.
        """
        launch = self.app.launch(deployment)
        if launch is None or launch.killed:
            return
        ended = cluster_of(launch).end(launch, lambda: self._client(deployment))
        if ended and launch.submitted:  # later this cannot be found out from here
            if self.app.launch(deployment) == launch:  # no other driver was started meanwhile
                self.app.set_launch(deployment, attrs.evolve(launch, killed=True))
        elif not self.has_ended(deployment):
            status = self._status_of(launch, deployment) or launch
            raise DriverError(
                f"the driver of deployment {deployment} of {self.app.name} was not ended: {_why_not(launch)}. End "
                f"process {status.pid} on {status.host}, then run this again"
            )

    def _client(self, deployment: str) -> Client:
        """Return the client that reaches the cluster the driver runs in."""
        launcher, application = need_launcher(self.launcher), self.app.spec(deployment).application
        return Client(launcher.command(application, [], "")[0], launcher.environment(application))


def _why_not(launch: Launch) -> str:
    if launch.submitted:
        return (
            f"its cluster has nothing of it, and whether process {launch.pid} on {launch.host} is still submitting it "
            "cannot be seen from here; without a sign of life it counts as lost after some minutes"
        )
    if launch.process is None or not launch.process.here():
        return (
            "it runs on another machine or in another container, or was started before this machine's last boot; "
            "nothing was signalled"
        )
    with contextlib.suppress(psutil.Error):
        driver = psutil.Process(launch.process.pid)
        if os.geteuid() not in (0, driver.uids().effective):
            owner = user_name(driver.uids().effective)
            return f"it is a process of {owner}, which {this_user()} cannot signal: run this as {owner} or root"
    return "its processes did not end after SIGTERM and SIGKILL"


def _is_stopped(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() == psutil.STATUS_STOPPED)
    except psutil.Error:
        return False
