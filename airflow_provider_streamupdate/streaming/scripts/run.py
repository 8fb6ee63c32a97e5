"""One run of a script, in a thread of its own: up to where it waits for its queries, and on when they have ended."""

from __future__ import annotations

import sys
import threading
import traceback
import types
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, NoReturn

import attrs
from pyspark import InheritableThread
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming import DataStreamWriter, StreamingQuery, StreamingQueryManager

from ...core import clock
from ...core.errors import ApplicationError
from .. import spark_internals

# As they are outside of a script's thread, where they do what calls.py says.
_ACTIVE, _WAIT = StreamingQueryManager.active.fget, threading.Event.wait
_FINISH_SECONDS = 60.0  # for what the script does when its queries have ended
_MOST_PAUSES = 100  # behind the end of its queries
_AT_WORK_SECONDS = 120.0  # for what it does behind its last start, where nothing shows that it waits


@attrs.define(eq=False)
class ScriptQuery:
    """A StreamingQuery that the driver runs: ``start()`` gives it to the script.

    name: empty until the script has started all (names.py), where it gives none
    writer: what was started; place: where, for messages; checkpoint: the script's own checkpoint location
    """

    _run: ScriptRun
    name: str
    writer: DataStreamWriter
    place: str
    checkpoint: str | None = None
    stopped: bool = False  # by the script

    def _query(self) -> StreamingQuery | None:
        return next((query for query in _ACTIVE(self._run.spark.streams) if query.name == self.name), None)

    def __getattr__(self, name: str) -> Any:
        """Return what the query says that runs (``lastProgress``, ``id`` ...); None while none does, which a method
        gives then."""
        if name.startswith("_") or not hasattr(StreamingQuery, name):
            raise AttributeError(name)
        if (query := self._query()) is not None:
            return getattr(query, name)
        return (lambda *args, **options: None) if callable(getattr(StreamingQuery, name)) else None

    @property
    def status(self) -> dict[str, Any]:
        query = self._query()
        return (
            query.status
            if query
            else {"message": "Initializing sources", "isDataAvailable": False, "isTriggerActive": False}
        )

    @property
    def isActive(self) -> bool:
        self._run.note_look()
        return not (self._run.over.is_set() or self.stopped)

    @property
    def recentProgress(self) -> list[Any]:
        query = self._query()
        return query.recentProgress if query else []

    def exception(self) -> None:
        """Return None: a query that fails ends the driver."""

    def awaitTermination(self, timeout: float | None = None) -> bool | None:
        over = self.stopped or self._run.wait(timeout)
        return None if timeout is None else over

    def processAllAvailable(self) -> None:
        self._run.hand_over()
        if query := self._query():
            query.processAllAvailable()

    def stop(self) -> None:
        """Stop the query that runs, as Spark does: when all are stopped, the app has finished."""
        self._run.hand_over()
        self.stopped = True
        if query := self._query():
            query.stop()


class ScriptRun:
    """A run of a script in a session.

    queries: those that it has started
    warnings: what it does besides, before it waits for them
    over: set when the driver has ended them
    thread: in which it runs; it may start others
    """

    def __init__(self, file: Path, arguments: Sequence[str], spark: SparkSession) -> None:
        self.file, self.spark, self.arguments = file, spark, tuple(arguments)
        self.queries: list[ScriptQuery] = []
        self.warnings: list[str] = []
        self.over = threading.Event()
        self.thread = threading.current_thread()  # its own, when it has begun
        self._running = threading.Event()  # the driver runs the queries; never set where it only plans
        self._waits = threading.Event()  # the script waits for them, or has ended
        self._error: BaseException | None = None
        self._late: ApplicationError | None = None
        self._looks = 0  # at queries, since the last start
        self._pauses = 0  # behind the queries' end
        self._settings: dict[str, str] = {}  # of the session, at the first start
        self._failed = False
        self._started = 0.0  # the last query, by the monotonic clock

    def until_it_waits(self, calls: Callable[[ScriptRun], AbstractContextManager[None]]) -> BaseException | None:
        """Run the script until it waits for a query, or ends. Return what ended it before, if anything did.

        calls: what PySpark's calls do in the script's thread
        """
        self.thread = InheritableThread(target=self._main, args=(calls,), name=self.file.name, daemon=True)
        self.thread.start()
        while not self._waits.wait(self._work_left()):
            if self.queries and self._work_left() <= 0:  # it may start another one yet
                return ApplicationError(
                    f"{self.file.name} has been at work for {_AT_WORK_SECONDS:g} s since {self.queries[-1].place} "
                    "started a query, and waits for none, so that it is not known whether it starts more: end it with "
                    "spark.streams.awaitAnyTermination()"
                )
        self._put_back_settings()
        return self._late or self._error

    def _put_back_settings(self) -> None:
        """Put back what the script has set behind its last start: Spark's queries have the settings of their start."""
        for key, value in self._sql_settings().items() ^ self._settings.items() if self.queries else ():
            if key not in self._settings:
                self.spark.conf.unset(key)
            elif value == self._settings[key]:
                self.spark.conf.set(key, value)

    def _sql_settings(self) -> dict[str, str]:
        return {key: value for key, value in self.spark.conf.getAll.items() if key.startswith("spark.sql.")}

    def _work_left(self) -> float:
        """Return for how many seconds it may go on behind its last start."""
        return self._started + _AT_WORK_SECONDS - clock.monotonic() if self.queries else _AT_WORK_SECONDS

    def starts(self) -> bool:
        """Return whether this is the script's own thread, before it waits for its queries."""
        return threading.current_thread() is self.thread and not self._waits.is_set()

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
        self.thread.join(_FINISH_SECONDS)
        if self.thread.is_alive():
            print(f"WARNING: {self.file.name} goes on {_FINISH_SECONDS:g} s after its queries' end", file=sys.stderr)

    def check(self) -> None:
        """Raise the error of a query that the script started too late: nobody runs it."""
        if self._late is not None:
            raise self._late

    def pause(self, seconds: float = 0.0) -> bool:
        """Hand over where the script's own thread sleeps behind a start, for so long at most. Return whether it has
        slept. Behind the queries' end nothing sleeps, and a loop that nothing else ends is ended by SystemExit."""
        if not self.queries or threading.current_thread() is not self.thread:
            return False
        self.hand_over()
        if self.over.is_set():
            self._pauses += 1
            if self._pauses > _MOST_PAUSES:
                raise SystemExit
        _WAIT(self.over, seconds)
        return True

    def note_look(self) -> None:
        """Hand over at the second look since a query was started: it is the condition of a loop that waits."""
        self._looks += threading.current_thread() is self.thread
        if self._looks > 1:
            self.hand_over()

    def hand_over(self) -> None:
        """Wait, in a thread of the script, until the driver runs the queries. A thread beside its own only waits."""
        if threading.current_thread() is self.thread:
            self._waits.set()
        _WAIT(self._running)

    def wait(self, timeout: float | None) -> bool:
        """Wait, in the script's thread, for the queries' end, so many seconds at most. Return whether it came."""
        self.hand_over()
        over = _WAIT(self.over, timeout)
        if over and self._failed:
            raise StreamingQueryException(message="the driver has ended with an error, which its status and log tell")
        return over

    def add(self, writer: DataStreamWriter, name: str | None, checkpoint: str | None, place: str) -> ScriptQuery:
        """Note a query. ApplicationError for one that cannot be one of the app's."""
        if threading.current_thread() is not self.thread:
            self._refuse(
                f"{place} starts a query in a thread of its own: whether others follow is not known when the app is "
                "planned. Start all queries in the main thread, and wait with spark.streams.awaitAnyTermination()"
            )
        if self._waits.is_set():
            self._refuse(
                f"{place} starts a query behind the wait for another one, so that nobody knows of it when the app is "
                "planned: start all queries before the first awaitTermination()"
            )
        if known := next((query.place for query in self.queries if name and query.name == name), None):
            raise ApplicationError(f"{place} starts a second query named {name} ({known}): give it another queryName")
        settings = self._sql_settings()
        if self.queries and (changed := sorted(key for key, _ in settings.items() ^ self._settings.items())):
            raise ApplicationError(
                f"{place} starts a query under another {changed[0]} than {self.queries[0].place} had: the queries of "
                "an app have one session. Set it before the first start, or make two apps of it"
            )
        self._started, self._settings, self._looks = clock.monotonic(), settings, 0
        self.queries.append(ScriptQuery(self, name or "", writer, place, checkpoint))
        return self.queries[-1]

    def _refuse(self, why: str) -> NoReturn:
        """Raise the error, which the script may not show, since it is in another thread, or nobody waits for it."""
        self._late = ApplicationError(why)
        self._waits.set()
        raise self._late

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
            spark_internals.activate(self.spark)
            with calls(self):
                exec(compile(self.file.read_bytes(), self.file, "exec", dont_inherit=True), vars(main))
        except BaseException as error:  # argparse and click end with SystemExit
            if not isinstance(error, SystemExit) or error.code not in (None, 0):
                self._error = error
            if self._waits.is_set() and self._error:
                print(f"WARNING: {self.file.name} failed beside its queries, which go on:", file=sys.stderr)
                traceback.print_exception(error)
        finally:
            self._waits.set()
