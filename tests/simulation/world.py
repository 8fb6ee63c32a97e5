"""Virtual time, machines and processes. Everything runs in one thread, as greenlets; an event queue in the order of
virtual time says who goes on. What is random for a process follows from the seed and from its name alone.

Every task belongs to a process, every process to a machine. A process that was killed reaches nothing any more: each
call to a port raises `Killed` in it, so that its `finally` blocks have no effect, as after SIGKILL.
"""

from __future__ import annotations

import heapq
import io
import itertools
import math
import random
import sys
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import IO, Any

import attrs
import greenlet

from airflow_provider_streamupdate.core.processes.kernel import ProcessInfo

FIRST_PID = 1 << 23  # larger than any real one (PID_MAX_LIMIT of Linux is 1 << 22), so that none is ever signalled
REAL_SLEEP = time.sleep
EPOCH = 1_790_000_000.0  # the virtual time of the world's beginning, seconds since 1970


class Killed(greenlet.GreenletExit):
    """The process that this task belongs to was killed."""


class Stuck(Exception):
    """Nothing can go on, or the schedule has no end."""


@attrs.define(eq=False)
class Machine:
    """boot: its id; offset: seconds that its wall clock is ahead; drift: seconds that its clocks gain in a second"""

    name: str
    boot: str
    offset: float = 0.0
    drift: float = 0.0
    cut_off: bool = False  # from the storage


@attrs.define(eq=False)
class Process:
    """handlers: of signals; environment: its variables; stopped: by SIGSTOP; main: the task that handlers raise in"""

    pid: int
    name: str
    machine: Machine
    alive: bool = True
    stopped: bool = False
    tasks: list[Task] = attrs.field(factory=list)
    handlers: dict[int, Callable[[int, Any], None]] = attrs.field(factory=dict)
    main: Task | None = None
    environment: Mapping[str, str] = attrs.field(factory=dict)
    noise: random.Random = attrs.field(factory=lambda: random.Random(0))
    ended_at: float | None = None
    output: IO[str] | None = None  # of what its tasks print; None: where everybody prints


@attrs.define(eq=False)
class Task:
    """turn: counts its waits, so that a wake-up of an earlier one is none of a later one"""

    process: Process
    greenlet: Any
    name: str
    turn: int = 0
    error: BaseException | None = None  # to raise in it when it goes on
    failed: BaseException | None = None  # what it ended with
    ended: bool = False
    streams: tuple[Any, Any] | None = None  # where it prints, once it has run


class World:
    """seed: decides everything. trace: gets a line for each step; began: the time of its beginning, seconds since
    1970. Whoever makes a world, and waits in it, drives it: time passes for all others meanwhile (`bystander`)."""

    def __init__(self, seed: int, trace: Callable[[str], None] | None = None, began: float = EPOCH) -> None:
        self.began = began
        self.thread = threading.get_ident()
        self.bystander: Process | None = None  # the process of who made the world, where it takes part
        self._seed, self._names = seed, Counter[str]()
        self.seconds = 0.0
        self._reads = 0.0
        self.steps = 0
        self.most_steps = 400_000
        self.trace = trace
        self.processes: dict[int, Process] = {}
        self.machines: list[Machine] = []
        self.current: Task | None = None
        self._hub = greenlet.getcurrent()
        self._queue: list[tuple[float, int, Any, int]] = []
        self._number = itertools.count()
        self._pids = itertools.count(FIRST_PID)
        self._deferred: dict[int, list[tuple[Task, int]]] = {}
        self._until: Callable[[], bool] = lambda: True  # what `run` waits for
        self._end = 0.0  # and until when
        self.failures: list[tuple[Task, BaseException]] = []

    # machines and processes

    def machine(self, name: str) -> Machine:
        machine = Machine(name, f"boot-{name}")
        self.machines.append(machine)
        return machine

    def spawn(self, name: str, machines: Sequence[Machine], main: Callable[[], Any]) -> Process:
        """Start a process on one of the machines; it begins a moment later."""
        process = self.reserve(name, machines)
        self.begin(process, main)
        return process

    def reserve(self, name: str, machines: Sequence[Machine]) -> Process:
        """A process that is there and does nothing yet."""
        self._names[name] += 1
        noise = random.Random(f"{self._seed} {name} {self._names[name]}")
        process = Process(next(self._pids), name, noise.choice(machines), noise=noise)
        self.processes[process.pid] = process
        return process

    def begin(self, process: Process, main: Callable[[], Any]) -> None:
        def run() -> None:
            try:
                main()
            finally:
                if process.alive:
                    self.at(0.0, lambda: self.kill(process, "ended"))

        process.main = self.task(process, "main", run)

    def task(self, process: Process, name: str, run: Callable[[], Any]) -> Task:
        """Start a thread of a process."""
        task = Task(process, None, name)

        def body() -> None:
            try:
                if not process.alive:
                    raise Killed
                run()
            except Killed:
                pass
            except SystemExit:
                pass
            except Exception as error:  # others end the test: Ctrl-C, its timeout
                task.failed = error
                self.failures.append((task, error))
            finally:
                task.ended = True

        task.greenlet = greenlet.greenlet(body, parent=self._hub)
        process.tasks.append(task)
        self._push(0.0, task)
        return task

    def kill(self, process: Process, why: str = "killed") -> None:
        """From the hub only."""
        if not process.alive:
            return
        process.alive, process.ended_at = False, self.seconds
        self.note(f"{process.name} ({process.pid}) {why}")
        self._deferred.pop(process.pid, None)
        for task in list(process.tasks):
            if not task.ended and task.greenlet:
                self._switch(task, Killed())
            elif not task.greenlet:
                task.ended = True

    def stop(self, process: Process) -> None:
        process.stopped = True
        self.note(f"{process.name} ({process.pid}) stands still")

    def go_on(self, process: Process) -> None:
        if process.stopped:
            process.stopped = False
            self.note(f"{process.name} ({process.pid}) goes on")
            for task, turn in self._deferred.pop(process.pid, []):
                heapq.heappush(self._queue, (self.seconds, next(self._number), task, turn))

    def signal(self, process: Process, number: int) -> None:
        """From the hub only."""
        if not process.alive or process.main is None:
            return
        handler = process.handlers.get(number)
        self.note(f"{process.name} ({process.pid}) gets signal {number}")
        if handler is None:
            self.kill(process)
            return
        before, self.current = self.current, process.main
        try:
            handler(number, None)
        except SystemExit as error:
            process.main.error = error
            process.main.turn += 1
            self._push(0.0, process.main)
        finally:
            self.current = before

    # time

    def at(self, seconds: float, then: Callable[[], None]) -> None:
        """Call something in so many seconds, as nobody."""
        heapq.heappush(self._queue, (self.seconds + seconds, next(self._number), then, 0))

    def sleep(self, seconds: float) -> None:
        """Of the current task."""
        if threading.get_ident() != self.thread:
            return REAL_SLEEP(seconds)
        if self.current is None:
            self.run(lambda: False, seconds)
            return None
        task = self._alive()
        if not self._passes(task, max(seconds, 0.0)):
            self._push(max(seconds, 0.0), task)
            self._wait(task)
        return None

    def wait(self, seconds: float | None) -> int:
        """Wait to be woken with this task's turn, or for so many seconds."""
        task = self._alive()
        if seconds is not None and self._passes(task, max(seconds, 0.0)):
            return task.turn
        if seconds is not None:
            self._push(max(seconds, 0.0), task)
        self._wait(task)
        return task.turn

    def wake(self, task: Task, turn: int) -> None:
        if task.turn == turn and not task.ended:
            heapq.heappush(self._queue, (self.seconds, next(self._number), task, turn))

    def running(self) -> Task:
        """The current task; Killed when its process is dead."""
        return self._alive()

    def _alive(self) -> Task:
        task = self.current
        assert task is not None, "nobody runs"
        if not task.process.alive:
            raise Killed
        return task

    def _passes(self, task: Task, seconds: float) -> bool:
        """Let time pass at once where nothing else happens meanwhile: a switch of tasks takes longer than a call."""
        at = self.seconds + seconds
        if (self._queue and self._queue[0][0] <= at) or at > self._end or task.process.stopped:
            return False
        if self.steps >= self.most_steps or self._until():
            return False  # whoever drives the world sees to it
        self.steps += 1
        self.seconds = at
        task.turn += 1
        if task.error is not None:
            error, task.error = task.error, None
            raise error
        return True

    def _wait(self, task: Task) -> None:
        self._hub.switch()
        task.turn += 1
        if not task.process.alive:
            raise Killed
        if task.error is not None:
            error, task.error = task.error, None
            raise error

    def _push(self, seconds: float, task: Task) -> None:
        heapq.heappush(self._queue, (self.seconds + seconds, next(self._number), task, task.turn))

    def _switch(self, task: Task, error: BaseException | None = None) -> None:
        before, self.current = self.current, task
        streams = sys.stdout, sys.stderr
        sys.stdout, sys.stderr = task.streams or (task.process.output or sys.stdout, task.process.output or sys.stderr)
        if error is not None:
            sys.stdout = sys.stderr = io.StringIO()  # the dead say nothing
        try:
            if error is None:
                task.greenlet.switch()
            else:
                task.greenlet.throw(error)
        finally:
            task.streams = sys.stdout, sys.stderr
            self.current = before
            sys.stdout, sys.stderr = streams

    def run(self, until: Callable[[], bool], most_seconds: float) -> bool:
        """Go on until something is so, or so many seconds are over; whether it became so."""
        end = self.seconds + most_seconds
        self._until, self._end = until, end
        while not until():
            if not self._queue:
                if end == math.inf:
                    raise Stuck("nobody has anything to do")
                self.seconds = end
                return until()
            at, _, what, turn = heapq.heappop(self._queue)
            if at > end:
                heapq.heappush(self._queue, (at, next(self._number), what, turn))
                self.seconds = end
                return False
            self.seconds = max(self.seconds, at)
            self.steps += 1
            if self.steps > self.most_steps:
                raise Stuck(f"after {self.steps} steps it has not ended")
            if not isinstance(what, Task):
                what()
            elif what.ended or what.turn != turn or not what.process.alive:
                continue
            elif what.process.stopped:
                self._deferred.setdefault(what.process.pid, []).append((what, turn))
            else:
                self._switch(what)
        return True

    def end(self) -> None:
        """Kill everybody."""
        for process in list(self.processes.values()):
            self.kill(process, "ended with the world")

    def note(self, line: str) -> None:
        if self.trace is not None:
            self.trace(f"{self.seconds:10.3f} {line}")

    # ports

    def wall(self) -> float:
        machine = self.process().machine
        self._reads += 1e-6  # no two moments are one
        return self.began + self.seconds * (1 + machine.drift) + machine.offset + self._reads

    def monotonic(self) -> float:
        machine = self.process().machine
        return self.seconds * (1 + machine.drift)

    def uuid4(self) -> uuid.UUID:
        return uuid.UUID(int=self.process().noise.getrandbits(128), version=4)

    # the kernel (core.processes.kernel.Kernel)

    def process(self) -> Process:
        """Of whoever asks."""
        if self.current is not None:
            return self.current.process
        assert self.bystander is not None, "nobody runs"
        return self.bystander

    def own_pid(self) -> int:
        return self.process().pid

    def boot(self) -> str:
        return self.process().machine.boot

    def namespace(self) -> str:
        return "pids"

    def uptime(self) -> float:
        return self.monotonic()

    def inspect(self, pid: int) -> ProcessInfo | None:
        process = self.processes.get(pid)
        if process is None or not process.alive or process.machine is not self.process().machine:
            return None
        return ProcessInfo(pid, pid, pid, False)
