"""The package in a world: its ports lead there."""

from __future__ import annotations

import contextlib
import functools
import io
import json
import signal as real_signal
import sys
import types
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any
from unittest import mock

import attrs
import fake_engine
import standin_spark_submit

from airflow_provider_streamupdate.control.client import StreamUpdateClient
from airflow_provider_streamupdate.control.drivers import clusters, drivers, runtime
from airflow_provider_streamupdate.control.drivers.clusters.cluster import Alive, Client, Cluster, Prepared
from airflow_provider_streamupdate.control.drivers.launch_files import LaunchFiles
from airflow_provider_streamupdate.core import boundaries, clock
from airflow_provider_streamupdate.core.errors import StorageError
from airflow_provider_streamupdate.core.processes import kernel
from airflow_provider_streamupdate.core.processes.process_identity import ProcessIdentity
from airflow_provider_streamupdate.core.processes.pulse import Beat, Pulse
from airflow_provider_streamupdate.core.registry.application import Application
from airflow_provider_streamupdate.core.registry.deployment import DeploymentSpec, Launch, Status
from airflow_provider_streamupdate.core.registry.registry import AppRegistry, Registry
from airflow_provider_streamupdate.core.serde import from_json
from airflow_provider_streamupdate.core.storage.backends import opening
from airflow_provider_streamupdate.streaming.agent import signals
from airflow_provider_streamupdate.streaming.agent.lifecycle import Agent
from airflow_provider_streamupdate.streaming.agent.pace import Pace

from .engine import CountingEngine, Sink
from .invariants import Invariants
from .storage import Storage, backends
from .threads import Threads
from .world import Process, World

PACKAGE = "airflow_provider_streamupdate"
PACE = Pace(commands=0.5, standby=0.2, heartbeat=2.0, takeover=60.0)
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


class SimulatedCluster(Cluster):
    """Drivers are processes of the world, on the machine of who starts them."""

    name = "local"

    def __init__(self, site: Site) -> None:
        self.site = site

    def takes(self, command: Sequence[str]) -> bool:
        return True

    def prepare(self, command: list[str], driver: tuple[str, ...], environment: Mapping[str, str]) -> Prepared:
        return Prepared(command)

    def start(
        self,
        prepared: Prepared,
        environment: Mapping[str, str],
        log: Path,
        epoch: int,
        note: Callable[[Launch], None],
    ) -> Launch:
        world = self.site.world
        options = self.site.driver_options(prepared.command)
        machine = world.running().process.machine
        process = world.reserve(f"driver {options.deployment}#{epoch}", machine)
        identity = ProcessIdentity(host="sim", pid=process.pid, boot=machine.boot, namespace="pids", start=process.pid)
        launch = Launch(
            epoch=epoch,
            host="sim",
            pid=process.pid,
            pid_started=None,
            log=str(log),
            launched_at=clock.now(),
            process=identity,
            mark="mark",
        )
        try:
            boundaries.boundary("driver-forked")
            note(launch)
        except BaseException:
            process.alive = False
            raise
        world.begin(process, functools.partial(self.site.drive, process, options))
        boundaries.boundary("driver-noted")
        return launch

    def run(
        self, command: list[str], environment: Mapping[str, str], folder: Path, output: IO[bytes], seconds: float
    ) -> int:
        clock.sleep(PLAN_SECONDS)
        return standin_spark_submit.main(command[1:])

    def look(self, many: bool = False) -> Alive:
        def alive(launch: Launch, status: Status | None = None) -> bool | None:
            return False if launch.killed else launch.process.lives() if launch.process else None

        return alive

    def end(self, launch: Launch, client: Callable[[], Client]) -> bool:
        world = self.site.world
        if launch.process is None or not launch.process.here():
            return False
        process = world.processes[launch.process.pid]
        for number in (real_signal.SIGTERM, real_signal.SIGKILL):
            end = world.monotonic() + 10
            if number == real_signal.SIGKILL:
                world.at(0.0, lambda: world.kill(process))
            else:
                world.at(0.0, lambda: world.signal(process, real_signal.SIGTERM))
            while process.alive and world.monotonic() < end:
                clock.sleep(0.2)
        return not process.alive


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

    def look(self, whose: str, value: object) -> Beat:
        return self.own.setdefault(self.world.own_pid(), Pulse()).look(whose, value)


class Site:
    """A world with a storage, machines and one app. versions: folder of application files on the real disk"""

    def __init__(self, world: World, storage: Storage, kind: str, versions: Path, skips: bool = False) -> None:
        self.world, self.storage, self.versions = world, storage, versions
        self.sink, self.invariants = Sink(skips), Invariants(world, storage)
        self.invariants.newest = lambda: self.sink.newest
        self.root = f"sim{kind}://root"
        self.threads = Threads(world)
        self.reached: Callable[[str], None] = lambda _: None
        self.said = io.StringIO()

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

    def driver_options(self, command: Sequence[str]) -> Any:
        """What a driver's command line says."""
        words = list(command)
        options = types.SimpleNamespace(standby="--standby" in words, hot="--hot" in words, beside="--beside" in words)
        for name, kind in (("root", str), ("app", str), ("deployment", str), ("epoch", int), ("follow", int)):
            at = f"--{name}"
            setattr(options, name, kind(words[words.index(at) + 1]) if at in words else kind())
        return options

    def drive(self, process: Process, options: Any) -> None:
        """Be a driver, which ends by itself where it cannot even read what it is."""
        with contextlib.suppress(StorageError):
            self._drive(process, options)

    def _drive(self, process: Process, options: Any) -> None:
        clock.sleep(START_SECONDS * self.world.chance.random())
        registry = Registry(options.root).existing(options.app)
        spec = registry.spec(options.deployment)
        constants: dict[str, Any] = {}
        path = f"root/{options.app}/deployments/{options.deployment}/{spec.application.file}"
        exec(self.storage.files[path].data, constants)
        engine = CountingEngine(
            constants, registry, options.deployment, self.world, self.sink, self.storage, process, self.invariants
        )
        agent = Agent(
            registry,
            options.deployment,
            options.epoch,
            engine,
            options.standby,
            options.beside,
            PACE,
            options.follow,
            options.hot,
        )
        engine.epoch = lambda: agent.driver.epoch.number
        engine.reached = self.reached
        code = agent.run()
        self.world.note(f"{process.name} ({process.pid}) exits with {code}")

    @contextlib.contextmanager
    def installed(self) -> Iterator[None]:
        """Inside the block the package's ports lead into the world, and to its storage."""
        self.world.bystander = Process(1, "whoever judges the schedule", self.world.machines[0])
        compact = types.SimpleNamespace(**{**vars(json), "dumps": _dumps})
        openers = {kind: functools.partial(_open, backend) for kind, backend in backends(self.storage).items()}
        with contextlib.ExitStack() as patches:
            patches.enter_context(ports(self.world, self.threads, {"json": compact, "from_json": _from_json}))
            for target, attribute, stand_in in (
                (fake_engine, "BATCH_SECONDS", 1.0),
                (fake_engine, "FIGURES", 1),
                (drivers, "launch_files", _launch_files),
                (runtime, "build", lambda *_, **__: Path("/sim/runtime.zip")),
                (uuid, "uuid4", self.world.uuid4),
                (sys, "stderr", self.said),
                (sys, "stdout", self.said),
                (clusters, "CLUSTERS", [SimulatedCluster(self)]),
            ):
                patches.enter_context(mock.patch.object(target, attribute, stand_in))
            patches.enter_context(mock.patch.dict(opening.OPENERS, openers))
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
