"""A sample of the sweep over Python code as the function that makes a key of a row's number."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Iterator
from typing import Any

SECONDS = 1.0  # a mutant may loop for ever


def python_key(source: str, inputs: tuple[str, ...]) -> Callable[[int], str]:
    """What `f` of `source` makes of the arguments that belong to a number."""
    f, arguments = loaded(source), [eval(f"({text},)") for text in inputs]

    def key(number: int) -> str:
        try:
            return repr(f(*arguments[number % len(arguments)]))
        except Exception as error:
            return type(error).__name__

    return key


def loaded(source: str) -> Callable[..., Any]:
    """`f`, as an application's file defines it, which is Spark's ``__main__``."""
    names: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(source, "app.py", "exec"), names)
    function: Callable[..., Any] = names["f"]
    return function


def answers(source: str, inputs: tuple[str, ...]) -> tuple[str, ...] | None:
    """The keys of all inputs; None for a function that has none, or other ones the second time, or in another order."""
    try:
        with _deadline():
            key = python_key(source, inputs)
            numbers = range(len(inputs))
            one = tuple(key(n) for n in numbers)
            again = tuple(key(n) for n in reversed(numbers))[::-1]
            return one if one == again and len(set(one)) > 1 and TimeoutError.__name__ not in one else None
    except Exception:
        return None


@contextlib.contextmanager
def _deadline() -> Iterator[None]:
    def stop(number: int, frame: Any) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, SECONDS, SECONDS)  # the function may catch the first one
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
