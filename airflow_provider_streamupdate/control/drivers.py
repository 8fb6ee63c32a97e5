"""The drivers of an app: what state they are in, starting them, ending them."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs

from ..state import clock
from ..state.application import Application
from ..state.checkpoint import Checkpoint
from ..state.deployment import (
    FAILED,
    FINAL_STATES,
    LOST,
    RUNNING,
    STARTING,
    SUSPENDED,
    Current,
    DeploymentSpec,
    Launch,
    Status,
)
from ..state.errors import DriverError, FencedError, StreamUpdateError, WaitTimeoutError
from ..state.fence import put_up
from ..state.registry import AppRegistry
from ..state.storage import Folder
from . import process, runtime, yarn
from .launcher import Launcher, driver_environment, in_cluster, on_yarn
from .planning import tail
from .waiting import wait_for

NEW = "new"  # a deployment whose driver was never started
FIRST_SIGN_SECONDS = 120.0  # how long a driver on another machine may take to its first heartbeat
QUEUE_SECONDS = 900.0  # and one that YARN may let wait in a queue before


class Drivers:
    """The drivers of one app. alive: whether a launch's processes live; None: on another machine."""

    def __init__(
        self,
        app: AppRegistry,
        launcher: Launcher | None,
        root: str,
        storage_options: dict[str, Any],
        alive: Callable[[Launch], bool | None] = process.alive,
    ) -> None:
        self.alive = alive
        self.app = app
        self.launcher = launcher
        self.root = root
        self.storage_options = storage_options

    def state(self, deployment: str) -> str:
        """``new``, a state the driver wrote, or ``lost`` (its process is gone, or silent for too long)."""
        return self.look(deployment)[0]

    def status(self, deployment: str) -> Status | None:
        """The heartbeat of the driver started last; None before its first one."""
        launch = self.app.launch(deployment)
        return self._status_of(launch, deployment) if launch else None

    def look(self, deployment: str) -> tuple[str, Status | None]:
        """`state` and `status` of the same moment, reading each file once."""
        launch = self.app.launch(deployment)
        if launch is None:
            return NEW, None
        status = self._status_of(launch, deployment)
        if status is not None and status.final:
            return status.state, status
        living = self.alive(launch)
        if living is False:
            status = self._status_of(launch, deployment)  # it may have written its last word meanwhile
            return (status.state if status is not None and status.final else LOST), status
        if status is None:
            patience = QUEUE_SECONDS if launch.yarn_tag else FIRST_SIGN_SECONDS
            overdue = living is None and clock.age(launch.launched_at) > patience
            return (LOST if overdue else STARTING), None
        return (LOST if living is None and status.silent else status.state), status

    def _status_of(self, launch: Launch, deployment: str) -> Status | None:
        status = self.app.status(deployment)
        return status if status is not None and status.epoch >= launch.epoch else None

    def gone(self, deployment: str) -> bool:
        """Whether no driver of the deployment runs any more."""
        launch = self.app.launch(deployment)
        living = process.alive(launch) if launch else False
        return self.state(deployment) in (*FINAL_STATES, NEW) if living is None else not living

    def start(self, spec: DeploymentSpec, epoch: int, promoted: bool = False) -> Launch:
        """Make the deployment current in `epoch` and start its driver. The caller holds the lease and has seen to it
        that no other driver of the app runs; one that does all the same is fenced by the epoch, and where nobody can
        tell, it cannot begin a batch any more."""
        self._check_launcher()
        before = self.app.current()
        if before is not None and before.deployment != spec.deployment:
            self._fence(before.deployment)  # before the claim: a rerun after it would find nothing to fence
        if not self.app.claim(Current(deployment=spec.deployment, epoch=epoch, promoted=promoted)):
            raise FencedError(
                f"epoch {epoch} of {self.app.name} was taken by {self.app.current_id()} a moment ago; try again"
            )
        return self._launch(spec, epoch)

    def _fence(self, deployment: str) -> None:
        """Fence off a driver on another machine that was not heard of for long: it may still run."""
        launch, plan = self.app.launch(deployment), self.app.plan(deployment)
        if launch is not None and plan is not None and self.alive(launch) is None and self.state(deployment) == LOST:
            for query in plan.queries:
                put_up(Checkpoint(self.app.checkpoint(deployment, query.name)))

    def start_standby(self, spec: DeploymentSpec, epoch: int) -> Launch:
        """Start a driver that gets ready beside the current one and runs its queries when `epoch` becomes its own. No
        other driver of the deployment runs."""
        self._check_launcher()
        # What an earlier one left, which got ready for this epoch, or took over and was taken back from: its heartbeat
        # is not this one's, what it was told is not meant for this one, and its checkpoint is not what the current
        # deployment will leave behind.
        folder = self.app.deployment_folder(spec.deployment)
        for left in ("status.json", f"commands/{epoch}", "restored"):
            folder.remove(left)
        return self._launch(spec, epoch, "--standby")

    def start_beside(self, spec: DeploymentSpec, epoch: int) -> Launch:
        """Start a driver that runs its queries beside the current one; `epoch` becomes the app's if it is promoted."""
        self._check_launcher()
        return self._launch(spec, epoch, "--beside")

    def _check_launcher(self, to: str = "start a driver") -> None:
        if self.launcher is None:
            raise StreamUpdateError(f"this client was made without a launcher, so it cannot {to}")

    def _launch(self, spec: DeploymentSpec, epoch: int, *more: str) -> Launch:
        assert self.launcher is not None
        folder = local_folder(self.app.deployment_folder(spec.deployment))
        application = self.application(spec)
        args = [
            "run",
            "--root",
            self.root,
            "--app",
            spec.app,
            "--deployment",
            spec.deployment,
            "--epoch",
            str(epoch),
            *more,
        ]
        zipped = folder / "runtime.zip"
        if not zipped.exists():  # kept: a rollback runs the runtime the deployment was made with
            runtime.build(zipped, self.root)
        command, tag = self.launcher.command(application, args, str(zipped)), None
        if in_cluster(command) and on_yarn(command):
            tag = yarn.tag(self.root, spec.app, spec.deployment, str(epoch))
            command = yarn.tagged(command, tag)
        return process.start(
            command,
            driver_environment(self.launcher, application, command, self.storage_options),
            folder / f"driver-{epoch}.log",
            epoch,
            lambda launch: self.app.set_launch(spec.deployment, launch),
            tag,
        )

    def application(self, spec: DeploymentSpec) -> Application:
        """A deployment's application with its files on this machine."""
        return _located(spec.application, local_folder(self.app.deployment_folder(spec.deployment)))

    def wait_running(self, deployment: str, timeout: float) -> None:
        """Until the driver runs its queries; DriverError with its last log lines when it dies instead."""
        self.wait_for_states(deployment, (RUNNING, SUSPENDED), timeout)

    def wait_for_states(self, deployment: str, states: tuple[str, ...], timeout: float) -> None:
        """Until the driver is in one of the states; DriverError with its last log lines when it dies instead."""

        def poll() -> bool | None:
            state = self.state(deployment)
            if state in FINAL_STATES:
                raise DriverError(self.death(deployment, state))
            return True if state in states else None

        try:
            wait_for(poll, f"the start of deployment {deployment} of {self.app.name}", timeout)
        except WaitTimeoutError as error:
            raise WaitTimeoutError(
                f"{error}; its driver goes on starting: wait for it (status), give it longer (--timeout), or end it "
                f"(cancel)\n{self._last_lines(deployment)}"
            ) from error

    def death(self, deployment: str, state: str) -> str:
        """Why a driver ended, as far as it said, and its last log lines."""
        status = self.status(deployment)
        why = (status.error or status.reason) if status else None
        if state in (LOST, FAILED) and not why:
            why = "its process ended without a word"
        return (
            f"the driver of deployment {deployment} of {self.app.name} is {state}: {why or 'no reason given'}; correct "
            f"that and submit again (streamupdate log shows more)\n{self._last_lines(deployment)}"
        )

    def _last_lines(self, deployment: str) -> str:
        launch, status = self.app.launch(deployment), self.status(deployment)
        more = ""
        if launch is not None and launch.yarn_tag is not None:
            of = status.spark_app_id if status is not None and status.spark_app_id else "<its id>"
            more = f" (of spark-submit; the driver's own: yarn logs -applicationId {of})"
        return f"last lines of {self.log(deployment)}{more}:\n{self.log_tail(deployment)}"

    def log(self, deployment: str) -> str | None:
        launch = self.app.launch(deployment)
        return launch.log if launch else None

    def log_tail(self, deployment: str, lines: int = 30) -> str:
        log = self.log(deployment)
        return tail(Path(log), lines) if log else "(no driver was started)"

    def kill(self, deployment: str) -> None:
        """End the driver, if it runs on this machine or in a YARN cluster."""
        launch = self.app.launch(deployment)
        if launch is None:
            return
        process.end(launch)  # before YARN is asked: it may be about to submit
        if launch.yarn_tag is None or launch.killed:
            return
        self._check_launcher("end one in a cluster")
        assert self.launcher is not None
        application = self.app.spec(deployment).application
        spark_submit = self.launcher.command(application, [], "")[0]
        yarn.kill(spark_submit, self.launcher.environment(application), launch.yarn_tag)
        self.app.set_launch(deployment, attrs.evolve(launch, killed=True))


def local_folder(folder: Folder) -> Path:
    """A folder on this machine holding a deployment's application: its own for a local root, else a copy."""
    if folder.local:
        return Path(folder.base)
    name = re.sub(r"[/:]+", "_", folder.address)  # other stores have folders of the same path
    target = Path(tempfile.gettempdir()) / f"streamupdate-deployments-{os.getuid()}" / name
    for name in folder.files("application"):
        (target / "application" / name).parent.mkdir(parents=True, exist_ok=True)
        with folder.fs.open(folder.path(f"application/{name}"), "rb") as source:
            with open(target / "application" / name, "wb") as copy:
                shutil.copyfileobj(source, copy)
    return target


def _located(application: Application, folder: Path) -> Application:
    return attrs.evolve(
        application,
        file=str(folder / application.file),
        py_files=tuple(str(folder / f) for f in application.py_files),
        files=tuple(str(folder / f) for f in application.files),
    )
