"""Progress of long work on standard error: each line with the time since the start.

A terminal shows a spinner with the phase that is under way; on a pipe, a line from time to time repeats it.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ..control.waiting import Phase
from ..core.processes.threads import repeating
from .messages import INTERRUPTED, Failure, echo, printable

QUIET_SECONDS = 15.0  # after so long without a line, a pipe gets one that says that the work continues


@contextmanager
def progress(first: str, interrupted: str) -> Iterator[Callable[[str], None]]:
    """Show `first`, then every line that the block reports.

    interrupted: the message after Ctrl-C: what is left behind, and what to do next
    """
    try:
        with (_spinner if sys.stderr.isatty() else _lines)(first) as report:
            yield report
    except KeyboardInterrupt as error:
        raise Failure(f"interrupted; {interrupted}", "Interrupted", INTERRUPTED) from error


class _Lines:
    """Progress as lines on a pipe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._began = self._said = time.monotonic()
        self._phase = Phase("")

    def report(self, line: str) -> None:
        with self._lock:
            if isinstance(line, Phase):
                known, self._phase = self._phase.name == line.name, line
                if known:
                    return
            self._said = time.monotonic()
            self._show(line)

    def still(self) -> None:
        """Repeat the phase as "still: ..." when no line was printed for QUIET_SECONDS."""
        with self._lock:
            now = time.monotonic()
            if now - self._said >= QUIET_SECONDS:
                self._said = now
                self._show(f"still: {self._phase}")

    def _show(self, line: str) -> None:
        echo(f"{stamp(time.monotonic() - self._began)} {line}", err=True)


@contextmanager
def _lines(first: str) -> Iterator[Callable[[str], None]]:
    shown = _Lines()
    shown.report(Phase(first))
    with repeating(min(1.0, QUIET_SECONDS), shown.still):
        yield shown.report


@contextmanager
def _spinner(first: str) -> Iterator[Callable[[str], None]]:
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    console, began, phase = Console(stderr=True, highlight=False), time.monotonic(), Phase(first)
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as shown:
        task = shown.add_task(escape(first), total=None)

        def report(line: str) -> None:
            nonlocal phase
            known = False
            if isinstance(line, Phase):
                known, phase = phase.name == line.name, line
                shown.update(task, description=escape(printable(line)))
            if not known:
                console.print(f"{stamp(time.monotonic() - began)} {printable(line)}", markup=False)

        console.print(f"{stamp(0)} {first}", markup=False)
        yield report


def stamp(seconds: float) -> str:
    """Return the time since the start, of constant width up to 9,999 seconds."""
    return f"[{seconds:4.0f} s]"
