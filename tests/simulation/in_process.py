"""Stand-in drivers in the test's own process: the real lifecycle over the fake engine, in virtual time, on the real
disk. Whoever runs the test drives the world: time passes when it waits."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import functools
import io
import os
import sys
import time
import traceback
import types
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any
from unittest import mock

import fake_engine
import pytest
import standin_spark_submit

from airflow_provider_streamupdate.control.drivers import drivers
from airflow_provider_streamupdate.core import clock
from airflow_provider_streamupdate.core.boundaries import storage_call
from airflow_provider_streamupdate.core.storage import folder
from airflow_provider_streamupdate.core.storage.backends.disk import Disk
from airflow_provider_streamupdate.streaming.agent import context, lifecycle

from .drivers import Drivers
from .site import ports
from .threads import Threads
from .world import REAL_SLEEP, Killed, Process, World

STARTS_SECONDS = 0.2  # of a driver
SENSORS = "airflow.sdk.bases.sensor"  # of Airflow, which looks at the time
TRIGGERS = "airflow_provider_streamupdate.triggers.base"


class LoggedDrivers(Drivers):
    """Drivers that print to their logs."""

    def prepare(self, process: Process, environment: Mapping[str, str], log: Path) -> None:
        log.parent.mkdir(parents=True, exist_ok=True)
        process.environment = dict(environment)
        process.output = open(log, "a", buffering=1)  # noqa: SIM115 (it ends with the world)

    def drive(self, process: Process, command: list[str], options: argparse.Namespace) -> None:
        clock.sleep(STARTS_SECONDS)
        try:
            standin_spark_submit.main(command[1:])
        except Exception:
            traceback.print_exc()

    def run(
        self, command: list[str], environment: Mapping[str, str], folder: Path, output: IO[bytes], seconds: float
    ) -> int:
        stream = open(output.fileno(), "a", closefd=False, buffering=1)  # noqa: SIM115 (closed by its owner)
        with contextlib.redirect_stdout(stream), contextlib.redirect_stderr(stream):
            return super().run(command, environment, folder, output, seconds)


@contextlib.contextmanager
def in_process(test: types.ModuleType) -> Iterator[World]:
    """Inside the block drivers run in this process, in virtual time, and so do the threads that a test module makes."""
    world = World(0, began=time.time())
    machine = world.machine("this machine")
    world.bystander = Process(os.getpid(), "the test", machine)
    world.processes[os.getpid()] = world.bystander
    found, threads, kill = LoggedDrivers(world), Threads(world), os.kill
    locks: dict[str, Any] = {}  # by folder, of this world

    def kill_in_world(pid: int, number: int) -> None:
        (found.send if pid in world.processes and pid != os.getpid() else kill)(pid, number)

    def dies(code: int) -> None:
        process = world.process()
        if process is world.bystander:
            os._exit(code)
        process.alive = False
        sys.stdout = sys.stderr = io.StringIO()
        raise Killed

    with contextlib.ExitStack() as patches:
        patches.enter_context(ports(world, threads, {}))
        for name, of_threads in (("threading", threads), ("ThreadPoolExecutor", threads.Pool)):
            if hasattr(test, name):
                patches.enter_context(mock.patch.object(test, name, of_threads))
        patches.enter_context(found.installed())
        own_os = types.SimpleNamespace(**{**vars(os), "_exit": dies, "getpid": world.own_pid})
        for target, attribute, stand_in in (
            (fake_engine, "os", own_os),
            (standin_spark_submit, "os", _Environments(world)),
            (lifecycle, "os", _Environments(world)),
            (context, "os", types.SimpleNamespace(**{**vars(os), "getpid": world.own_pid, "kill": kill_in_world})),
            (drivers, "_is_stopped", lambda pid: pid in world.processes and world.processes[pid].stopped),
            (os, "kill", kill_in_world),
            (time, "sleep", functools.partial(_sleep, world)),
            (folder, "storage_call", functools.partial(_check_alive, world)),
            (Disk, "lock", lambda self, path: locks.setdefault(path, threads.RLock())),
        ):
            patches.enter_context(mock.patch.object(target, attribute, stand_in))
        own_time = types.SimpleNamespace(
            **{**vars(time), "sleep": world.sleep, "monotonic": world.monotonic, "time": world.wall}
        )
        if SENSORS in sys.modules:
            patches.enter_context(mock.patch.object(sys.modules[SENSORS], "time", own_time))
        if TRIGGERS in sys.modules:
            patches.enter_context(mock.patch.object(sys.modules[TRIGGERS], "asyncio", _Loop(world)))
        for name in ("write", "create", "copy_from", "touch"):
            patches.enter_context(mock.patch.object(Disk, name, _dated(world, getattr(Disk, name))))
        try:
            yield world
        finally:
            world.bystander.tasks.clear()
            world.end()


def _sleep(world: World, seconds: float) -> None:
    """Sleep in the world, but for who waits for a real child: that takes real time."""
    (REAL_SLEEP if sys._getframe(1).f_globals["__name__"] == "subprocess" else world.sleep)(seconds)


def _check_alive(world: World) -> None:
    """A process that was killed reaches no disk, whatever its `finally` blocks try."""
    if world.current is not None and not world.current.process.alive:
        raise Killed
    storage_call()


class _Loop:
    """Stands for `asyncio` in the triggers: nothing else runs in their loop."""

    def __init__(self, world: World) -> None:
        self._world = world

    async def to_thread(self, call: Callable[..., Any], *args: Any) -> Any:
        return call(*args)

    async def sleep(self, seconds: float) -> None:
        self._world.sleep(seconds)

    def __getattr__(self, name: str) -> Any:
        return getattr(asyncio, name)


class _Environments:
    """Stands for `os` where a driver reads its environment."""

    def __init__(self, world: World) -> None:
        self._world = world

    @property
    def environ(self) -> Mapping[str, str]:
        process = self._world.process()
        return os.environ if process is self._world.bystander else process.environment

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)


def _dated(world: World, call: Callable[..., Any]) -> Callable[..., Any]:
    """A call of a disk after which the file has the world's time."""

    def dated(self: Disk, path: str, *args: Any, **named: Any) -> Any:
        value = call(self, path, *args, **named)
        target = args[-1] if call.__name__ == "copy_from" else path
        with contextlib.suppress(OSError, TypeError):
            if call.__name__ != "copy_from":
                os.utime(target, (world.wall(),) * 2)
        return value

    return dated


@pytest.fixture(name="drivers_world")
def world(request: pytest.FixtureRequest) -> Iterator[World | None]:
    """Stand-in drivers run in this process, in virtual time; as real processes (None) where a test is marked so, or
    slow: these show that both are alike."""
    if any(request.node.get_closest_marker(mark) for mark in ("processes", "slow")):
        yield None
        return
    with in_process(request.module) as made:
        yield made
