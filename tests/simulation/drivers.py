"""Drivers as processes of the world, in the place of control/drivers/process.py."""

from __future__ import annotations

import argparse
import contextlib
import functools
import signal as real_signal
import socket
import traceback
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any
from unittest import mock

import standin_spark_submit

from airflow_provider_streamupdate.control.drivers import process as processes
from airflow_provider_streamupdate.core import clock
from airflow_provider_streamupdate.core.boundaries import boundary
from airflow_provider_streamupdate.core.processes.process_identity import ProcessIdentity
from airflow_provider_streamupdate.core.registry.deployment import Launch, Status

from .world import Process, World


class Drivers:
    """What a driver does, and where it prints, is in the subclasses."""

    def __init__(self, world: World) -> None:
        self.world = world

    @contextlib.contextmanager
    def installed(self) -> Iterator[None]:
        with contextlib.ExitStack() as patches:
            for name in ("start", "run", "alive", "alive_check", "end"):
                patches.enter_context(mock.patch.object(processes, name, getattr(self, name)))
            yield

    def prepare(self, process: Process, environment: Mapping[str, str], log: Path) -> None:
        """Before a driver begins."""

    def drive(self, process: Process, command: list[str], options: argparse.Namespace) -> None:
        """Be a driver."""
        raise NotImplementedError

    def run(
        self, command: list[str], environment: Mapping[str, str], folder: Path, output: IO[bytes], seconds: float
    ) -> int:
        """Plan."""
        try:
            return standin_spark_submit.main(command[1:])
        except SystemExit as error:
            return int(error.code or 0)
        except Exception:
            traceback.print_exc()
            return 1

    def start(
        self,
        command: list[str],
        environment: Mapping[str, str],
        log: Path,
        epoch: int,
        note: Callable[[Launch], None],
        folder: Path | None = None,
        **of_cluster: Any,
    ) -> Launch:
        """On the machine of whoever starts it."""
        world, (_, options) = self.world, standin_spark_submit.parsed(command[1:])
        process = world.reserve(f"driver {options.deployment}#{epoch}", [world.process().machine])
        self.prepare(process, environment, log)
        launch = Launch(
            epoch=epoch,
            host=socket.gethostname(),
            pid=process.pid,
            log=str(log),
            launched_at=clock.now(),
            process=ProcessIdentity.of(process.pid),
            mark=uuid.uuid4().hex,
            **of_cluster,
        )
        try:
            boundary("driver-forked")
            note(launch)
        except BaseException:
            process.alive = False
            raise
        world.begin(process, functools.partial(self.drive, process, command, options))
        boundary("driver-noted")
        return launch

    def alive(self, launch: Launch, status: Status | None = None) -> bool | None:
        """As control/drivers/process.py says it of processes outside clusters."""
        if launch.killed or launch.process is None:
            return False
        started = launch.process.lives()
        if started or status is None or status.process is None:
            return started
        reports = status.process.lives()
        return started if reports is False else reports

    def alive_check(self, many: bool = False) -> Any:
        return self.alive

    def end(self, launch: Launch, seconds: float = 10.0, at_once: bool = False) -> bool:
        process = self.world.processes.get(launch.pid or 0)
        if process is None or launch.process is None or not launch.process.here():
            return False
        for number in (real_signal.SIGKILL,) if at_once else (real_signal.SIGTERM, real_signal.SIGKILL):
            if process.alive:
                self.send(process.pid, number)
            until = self.world.seconds + seconds
            while process.alive and self.world.seconds < until:
                clock.sleep(0.05)
        return True

    def send(self, pid: int, number: int) -> None:
        """What `os.kill` does to a process of the world."""
        process = self.world.processes.get(pid)
        if process is None or not process.alive:
            raise ProcessLookupError(pid)
        actions: dict[int, Callable[[], None]] = {
            real_signal.SIGKILL: lambda: self.world.kill(process),
            real_signal.SIGSTOP: lambda: self.world.stop(process),
            real_signal.SIGCONT: lambda: self.world.go_on(process),
        }
        self.world.at(0.0, actions.get(number, lambda: self.world.signal(process, number)))
