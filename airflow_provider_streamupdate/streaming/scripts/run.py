"""One run of a script, in a thread of its own: up to where it waits for its queries, and on when they have ended."""

from __future__ import annotations

import sys
import threading
import traceback
import types
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import attrs
from pyspark import InheritableThread
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming import DataStreamWriter, StreamingQuery

from ...core import clock
from ...core.errors import ApplicationError

_FINISH_SECONDS = 60.0  # for what the script does when its queries have ended
_AT_WORK_SECONDS = 120.0  # for what it does behind its last start, where nothing shows that it waits


@attrs.define(eq=False)
class ScriptQuery:
    """A StreamingQuery that the driver runs: ``start()`` gives it to the script.

    writer: what was started; place: where, for messages; checkpoint: the script's own checkpoint location
    """

    _run: ScriptRun
    name: str
    writer: DataStreamWriter
    place: str
    checkpoint: str | None = None

    def _query(self) -> StreamingQuery | None:
        return next((query for query in self._run.spark.streams.active if query.name == self.name), None)

    def __getattr__(self, name: str) -> Any:
        """Return what the query says that runs (``lastProgress``, ``id`` ...); None while none does."""
        if name.startswith("_") or not hasattr(StreamingQuery, name):
            raise AttributeError(name)
        return getattr(self._query(), name, None)

    @property
    def isActive(self) -> bool:
        self._run.hand_over()  # the condition of a loop that waits
        return not self._run.over.is_set()

    @property
    def recentProgress(self) -> list[Any]:
        query = self._query()
        return query.recentProgress if query else []

    def exception(self) -> None:
        """Return None: a query that fails ends the driver."""

    def awaitTermination(self, timeout: float | None = None) -> bool | None:
        over = self._run.wait(timeout)
        return None if timeout is None else over

    def processAllAvailable(self) -> None:
        self._run.hand_over()
        if query := self._query():
            query.processAllAvailable()

    def stop(self) -> None:
        """Do nothing: the driver ends its queries."""
        self._run.hand_over()


class ScriptRun:
    """A run of a script in a session.

    queries: those that it has started
    warnings: what it does besides, before it waits for them
    over: set when the driver has ended them
    """

    def __init__(self, file: Path, arguments: Sequence[str], spark: SparkSession) -> None:
        self.file, self.spark, self.arguments = file, spark, tuple(arguments)
        self.queries: list[ScriptQuery] = []
        self.warnings: list[str] = []
        self.over = threading.Event()
        self._running = threading.Event()  # the driver runs the queries; never set where it only plans
        self._waits = threading.Event()  # the script waits for them, or has ended
        self._error: BaseException | None = None
        self._late: ApplicationError | None = None
        self._failed = False
        self._started = 0.0  # the last query, by the monotonic clock

    def until_it_waits(self, calls: Callable[[ScriptRun], AbstractContextManager[None]]) -> BaseException | None:
        """Run the script until it waits for a query, or ends. Return what ended it before, if anything did.

        calls: what PySpark's calls do in the script's thread
        """
        self._thread = InheritableThread(target=self._main, args=(calls,), name=self.file.name, daemon=True)
        self._thread.start()
        while not self._waits.wait(self._work_left()):
            if self.queries and self._work_left() <= 0:  # it may start another one yet
                return ApplicationError(
                    f"{self.file.name} has been at work for {_AT_WORK_SECONDS:g} s since {self.queries[-1].place} "
                    "started a query, and waits for none, so that it is not known whether it starts more: end it with "
                    "spark.streams.awaitAnyTermination()"
                )
        return self._error

    def _work_left(self) -> float:
        """Return for how many seconds it may go on behind its last start."""
        return self._started + _AT_WORK_SECONDS - clock.monotonic() if self.queries else _AT_WORK_SECONDS

    def begin(self) -> None:
        """Let the script go on where it only looks at its queries."""
        self._running.set()

    def finish(self, failed: bool) -> None:
        """Let the script go on where it waits for the end of its queries, if they have run, and wait for its own.

        failed: whether they failed: then the wait raises, as Spark's does
        """
        self._failed = failed
        if not self._running.is_set():
            return
        self.over.set()
        self._thread.join(_FINISH_SECONDS)
        if self._thread.is_alive():
            print(f"WARNING: {self.file.name} goes on {_FINISH_SECONDS:g} s after its queries' end", file=sys.stderr)

    def check(self) -> None:
        """Raise the error of a query that the script started too late: nobody runs it."""
        if self._late is not None:
            raise self._late

    def hand_over(self) -> None:
        """Wait, in the script's thread, until the driver runs the queries."""
        self._waits.set()
        self._running.wait()

    def wait(self, timeout: float | None) -> bool:
        """Wait, in the script's thread, for the queries' end, so many seconds at most. Return whether it came."""
        self.hand_over()
        over = self.over.wait(timeout)
        if over and self._failed:
            raise StreamingQueryException(message="the driver has ended with an error, which its status and log tell")
        return over

    def add(self, writer: DataStreamWriter, name: str | None, checkpoint: str | None, place: str) -> ScriptQuery:
        """Note a query. ApplicationError for one that cannot be one of the app's."""
        if self._waits.is_set():
            self._late = ApplicationError(
                f"{place} starts a query behind the wait for another one, so that nobody knows of it when the app is "
                "planned: start all queries before the first awaitTermination()"
            )
            raise self._late
        name = name or f"query-{len(self.queries) + 1}"
        if known := next((query.place for query in self.queries if query.name == name), None):
            raise ApplicationError(f"{place} starts a second query named {name} ({known}): give it another queryName")
        self._started = clock.monotonic()
        self.queries.append(ScriptQuery(self, name, writer, place, checkpoint))
        return self.queries[-1]

    def warn(self, what: str) -> None:
        self.warnings.append(f"{self.file.name} {what}")

    def note_effect(self, what: str) -> None:
        """Note what happens each time the app is planned as well."""
        if not self._waits.is_set():
            self.warn(f"{what} before its queries start, each time it is planned as well")

    def _main(self, calls: Callable[[ScriptRun], AbstractContextManager[None]]) -> None:
        main = types.ModuleType("__main__")
        main.__file__ = str(self.file)
        sys.modules["__main__"], sys.argv = main, [str(self.file), *self.arguments]
        try:
            with calls(self):
                exec(compile(self.file.read_bytes(), self.file, "exec"), vars(main))
        except BaseException as error:  # argparse and click end with SystemExit
            if not isinstance(error, SystemExit) or error.code not in (None, 0):
                self._error = error
            if self._waits.is_set() and self._error:
                print(f"WARNING: {self.file.name} failed beside its queries, which go on:", file=sys.stderr)
                traceback.print_exception(error)
        finally:
            self._waits.set()
