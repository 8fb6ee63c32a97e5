"""What the package takes from `threading` and `concurrent.futures`, as tasks of a simulated process."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from .world import Task, World

DRIVES = "whoever drives the world"


class Threads:
    """Stands for the modules' `threading`, in one world."""

    def __init__(self, world: World) -> None:
        made = {"world": world}
        self.Event = type("Event", (Event,), made)
        self.Lock = type("Lock", (Lock,), made)
        self.RLock = type("RLock", (RLock,), made)
        self.Thread = type("Thread", (Thread,), {**made, "Event": self.Event})
        self.Pool = type("Pool", (Pool,), {**made, "Event": self.Event})

    local = type("local", (), {})


class Event:
    world: World

    def __init__(self) -> None:
        self._set = False
        self._waiting: list[tuple[Task, int]] = []

    def is_set(self) -> bool:
        return self._set

    def set(self) -> None:
        self._set = True
        for task, turn in self._waiting:
            self.world.wake(task, turn)
        self._waiting.clear()

    def clear(self) -> None:
        self._set = False

    def wait(self, timeout: float | None = None) -> bool:
        if not self._set and self.world.current is None:
            self.world.run(self.is_set, float("inf") if timeout is None else timeout)
        elif not self._set:
            task = self.world.running()
            entry = (task, task.turn)
            self._waiting.append(entry)
            try:
                self.world.wait(timeout)
            finally:
                with contextlib.suppress(ValueError):
                    self._waiting.remove(entry)
        return self._set


class Lock:
    world: World

    def __init__(self) -> None:
        self._holder: Task | str | None = None
        self._depth = 0
        self._waiting: list[tuple[Task, int]] = []

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        task = self.world.current  # None: whoever drives the world
        while self._holder is not None and not self._may(task):
            if not blocking:
                return False
            if task is None:
                self.world.run(lambda: self._holder is None, float("inf") if timeout < 0 else timeout)
                continue
            self._waiting.append((task, task.turn))
            self.world.wait(None if timeout < 0 else timeout)
        self._holder, self._depth = task or DRIVES, self._depth + 1
        return True

    def _may(self, task: Task | None) -> bool:
        return False

    def release(self) -> None:
        self._depth -= 1
        if self._depth <= 0:
            self._holder, self._depth = None, 0
            for task, turn in self._waiting:
                self.world.wake(task, turn)
            self._waiting.clear()

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


class RLock(Lock):
    def _may(self, task: Task | None) -> bool:
        return self._holder is (task or DRIVES)


class Thread:
    world: World
    Event: type[Event]

    def __init__(
        self,
        target: Callable[..., Any] = lambda: None,
        name: str = "thread",
        args: Iterable[Any] = (),
        daemon: bool | None = None,
    ) -> None:
        self._run, self.name, self._ended = lambda: target(*args), name, self.Event()
        self._task: Task | None = None

    def start(self) -> None:
        process = self.world.process()

        def run() -> None:
            try:
                self._run()
            finally:
                self._ended.set()

        self._task = self.world.task(process, self.name, run)

    def join(self, timeout: float | None = None) -> None:
        self._ended.wait(timeout)

    def is_alive(self) -> bool:
        return self._task is not None and not self._ended.is_set()


class Answer:
    """A future."""

    def __init__(self, ended: Event) -> None:
        self._ended = ended
        self._value: Any = None
        self._error: BaseException | None = None
        self._cancelled = False

    def done(self) -> bool:
        return self._ended.is_set()

    def cancelled(self) -> bool:
        return self._cancelled

    def result(self, timeout: float | None = None) -> Any:
        self._ended.wait(timeout)
        if self._error is not None:
            raise self._error
        return self._value

    def fill(self, call: Callable[[], Any]) -> None:
        try:
            self._value = call()
        except Exception as error:
            self._error = error
        finally:
            self._ended.set()


class Pool:
    """ThreadPoolExecutor without a bound: more at once than the real one."""

    world: World
    Event: type[Event]

    def __init__(self, *_: Any, **__: Any) -> None:
        self._answers: list[Answer] = []

    def submit(self, call: Callable[..., Any], *args: Any, **named: Any) -> Answer:
        answer = Answer(self.Event())
        self._answers.append(answer)
        self.world.task(self.world.process(), "worker", lambda: answer.fill(lambda: call(*args, **named)))
        return answer

    def map(self, call: Callable[..., Any], *of: Iterable[Any]) -> Iterator[Any]:
        answers = [self.submit(call, *args) for args in zip(*of, strict=False)]
        return (answer.result() for answer in answers)

    def shutdown(self, wait: bool = True, cancel_futures: bool = False) -> None:
        for answer in self._answers if wait else ():
            answer._ended.wait()

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
