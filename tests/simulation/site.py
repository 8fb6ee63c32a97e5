"""The package in a world: its ports lead there."""

from __future__ import annotations

import argparse
import ast
import contextlib
import functools
import io
import json
import signal as real_signal
import sys
import types
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any
from unittest import mock

import attrs
import fake_engine
import standin_spark_submit

from airflow_provider_streamupdate.control import waiting
from airflow_provider_streamupdate.control.client import StreamUpdateClient
from airflow_provider_streamupdate.control.drivers import drivers, runtime
from airflow_provider_streamupdate.control.drivers.launch_files import LaunchFiles
from airflow_provider_streamupdate.core import boundaries, clock
from airflow_provider_streamupdate.core.errors import StorageError
from airflow_provider_streamupdate.core.processes import kernel
from airflow_provider_streamupdate.core.processes.pulse import Beat, Pulse
from airflow_provider_streamupdate.core.registry.application import Application
from airflow_provider_streamupdate.core.registry.deployment import DeploymentSpec
from airflow_provider_streamupdate.core.registry.registry import AppRegistry, Registry
from airflow_provider_streamupdate.core.serde import from_json
from airflow_provider_streamupdate.core.storage.backends import roots
from airflow_provider_streamupdate.streaming.agent import signals
from airflow_provider_streamupdate.streaming.agent.context import Pace

from .drivers import Drivers
from .engine import CountingEngine, Sink
from .invariants import Invariants
from .storage import Storage, backends
from .threads import Threads
from .world import Process, World

PACKAGE = "airflow_provider_streamupdate"
PACE = Pace(commands=0.5, standby=0.5, heartbeat=2.0, takeover=60.0)
POLL_SECONDS = 0.5  # of whoever waits for a driver
START_SECONDS, PLAN_SECONDS = 4.0, 3.0  # of a driver's session, and of a plan
APP = "alarm"
VERSION = 'APP = "alarm"\nVERSION = {version!r}\nSTAGES = {{"rooms": ["room"]}}\n{more}'


class Launcher:
    """Starts drivers in the world."""

    def check(self) -> None:
        return

    def command(self, application: Application, args: list[str], runtime: str) -> list[str]:
        return ["spark-submit", application.file, *args]

    def environment(self, application: Application) -> dict[str, str]:
        return {}


class SiteDrivers(Drivers):
    """Drivers with the counting engine."""

    def __init__(self, site: Site) -> None:
        super().__init__(site.world)
        self.site = site

    def drive(self, process: Process, command: list[str], options: argparse.Namespace) -> None:
        with contextlib.suppress(StorageError):  # it cannot even read what it is
            self.site.drive(process, options)

    def run(
        self, command: list[str], environment: Mapping[str, str], folder: Path, output: IO[bytes], seconds: float
    ) -> int:
        clock.sleep(PLAN_SECONDS)
        return super().run(command, environment, folder, output, seconds)


class Signals:
    """Stands for `signal` where a driver notes its signals."""

    SIGTERM, SIGINT, Signals = real_signal.SIGTERM, real_signal.SIGINT, real_signal.Signals

    def __init__(self, world: World) -> None:
        self.world = world

    def signal(self, number: int, handler: Any) -> Any:
        handlers = self.world.running().process.handlers
        before = handlers.get(number)
        handlers[number] = handler
        return before


class Pulses:
    """What each process has seen of heartbeats."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.own: dict[int, Pulse] = {}

    def observe(self, whose: str, value: object) -> Beat:
        return self.own.setdefault(self.world.own_pid(), Pulse()).observe(whose, value)


class Site:
    """A world with a storage, machines and one app. versions: folder of application files on the real disk"""

    def __init__(self, world: World, storage: Storage, kind: str, versions: Path, skips: bool = False) -> None:
        self.world, self.storage, self.versions = world, storage, versions
        self.sink, self.sink_beside = Sink(skips), Sink(skips, beside=True)
        self.beside: str | None = None  # the version that has a sink of its own
        self.engines: dict[int, CountingEngine] = {}  # of drivers, by pid
        self.invariants = Invariants(world, storage)
        self.invariants.newest = lambda: self.sink.newest
        self.root = f"sim{kind}://root"
        self.threads = Threads(world)
        self.reached: Callable[[str], None] = lambda _: None
        self.said = io.StringIO()

    def sink_of(self, deployment: str) -> Sink:
        return self.sink_beside if deployment.partition("-")[0] == self.beside else self.sink

    def client(self) -> StreamUpdateClient:
        return StreamUpdateClient(self.root, Launcher())

    def registry(self) -> AppRegistry:
        return Registry(self.root).app(APP)

    def application(self, version: str, **more: Any) -> Application:
        lines = "".join(f"{name} = {value!r}\n" for name, value in more.items())
        text = VERSION.format(version=version, more=lines)
        file = self.versions / f"{version}-{uuid.uuid5(uuid.NAMESPACE_OID, text).hex[:8]}.py"
        if not file.exists():
            file.write_text(text)
        return Application(file=str(file))

    def drive(self, process: Process, options: argparse.Namespace) -> None:
        """Be a driver."""
        clock.sleep(START_SECONDS * process.noise.random())
        registry = Registry(options.root).existing(options.app)
        spec = registry.spec(options.deployment)
        constants: dict[str, Any] = {}
        path = f"root/{options.app}/deployments/{options.deployment}/{spec.application.file}"
        exec(self.storage.files[path].data, constants)
        sink = self.sink_of(options.deployment)
        engine = self.engines[process.pid] = CountingEngine(
            constants, registry, options.deployment, self.world, sink, self.storage, process, self.invariants
        )
        agent = standin_spark_submit.agent_of(options, registry, engine, PACE)
        engine.epoch = lambda: agent.driver.epoch.number
        engine.reached = self.reached
        code = agent.run()
        self.world.note(f"{process.name} ({process.pid}) exits with {code}")

    @contextlib.contextmanager
    def installed(self) -> Iterator[None]:
        """Inside the block the package's ports lead into the world, and to its storage."""
        self.world.bystander = Process(1, "whoever judges the schedule", self.world.machines[0])
        compact = types.SimpleNamespace(**{**vars(json), "dumps": _dumps})
        parsed = types.SimpleNamespace(**{**vars(ast), "parse": functools.lru_cache(100)(ast.parse)})
        openers = {kind: functools.partial(_open, backend) for kind, backend in backends(self.storage).items()}
        with contextlib.ExitStack() as patches:
            patches.enter_context(
                ports(self.world, self.threads, {"json": compact, "from_json": _from_json, "ast": parsed})
            )
            for target, attribute, stand_in in (
                (fake_engine, "BATCH_SECONDS", 1.0),
                (fake_engine, "FIGURES", 1),
                (drivers, "launch_files", _launch_files),
                (runtime, "build", lambda *_, **__: Path("/sim/runtime.zip")),
                (waiting.wait_for, "__defaults__", (POLL_SECONDS, *(waiting.wait_for.__defaults__ or ())[1:])),
                (uuid, "uuid4", self.world.uuid4),
                (sys, "stderr", self.said),
                (sys, "stdout", self.said),
            ):
                patches.enter_context(mock.patch.object(target, attribute, stand_in))
            patches.enter_context(mock.patch.dict(roots.OPENERS, openers))
            patches.enter_context(SiteDrivers(self).installed())
            patches.enter_context(self.invariants.watched())
            boundaries.watch(lambda name: self.reached(name))
            try:
                yield
            finally:
                self.world.end()
                boundaries.watch(None)


@contextlib.contextmanager
def ports(world: World, threads: Threads, more: Mapping[str, Any]) -> Iterator[None]:
    """Inside the block the package's time, threads, signals and processes are the world's.

    more: stands for modules' attributes of these names, wherever they are
    """
    stand_ins = {"threading": threads, "ThreadPoolExecutor": threads.Pool, **more}
    clocks = types.SimpleNamespace(monotonic=world.monotonic, sleep=world.sleep, time=world.wall)
    before = kernel.this_kernel()
    with contextlib.ExitStack() as patches:
        for name, module in list(sys.modules.items()):
            if module is None or name.startswith(f"{PACKAGE}.plugins"):  # the page's server has threads of its own
                continue
            if not (name.startswith(f"{PACKAGE}.") or module is fake_engine):
                continue
            for attribute, stand_in in stand_ins.items():
                if attribute in vars(module):
                    patches.enter_context(mock.patch.object(module, attribute, stand_in))
        for target, attribute, stand_in in (
            (fake_engine, "time", clocks),
            (signals, "signal", Signals(world)),
            (signals, "Alarm", threads.Event),
            (drivers, "_pulse", Pulses(world)),
        ):
            patches.enter_context(mock.patch.object(target, attribute, stand_in))
        clock.use(world)
        kernel.use(world)
        try:
            yield
        finally:
            kernel.use(before)
            clock.use(clock.SystemClock())


def _open(backend: Any, uri: str, _options: dict[str, Any]) -> tuple[Any, str]:
    return backend, uri.partition("://")[2]


@functools.lru_cache(5000)
def _from_json(text: bytes, kind: type[Any], where: str) -> Any:
    """What it gives is frozen, and most files are read again and again."""
    return from_json(text, kind, where)


def _dumps(value: Any, indent: int | None = None, **more: Any) -> str:
    """A line for each value, without true indentation, which only Python's own encoder makes: it took a fifth of a
    schedule (measured)."""
    return json.dumps(value, separators=(",\n ", ": "), **more) if indent else json.dumps(value, **more)


def _launch_files(app: AppRegistry, spec: DeploymentSpec, _root: str) -> LaunchFiles:
    here = Path("/sim") / spec.deployment
    application = attrs.evolve(spec.application, file=str(here / spec.application.file))
    return LaunchFiles(folder=here, runtime=here / "runtime.zip", application=application)
