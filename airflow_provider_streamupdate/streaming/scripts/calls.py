"""What PySpark's own calls do in a script's thread, and in those that it starts: a query that starts is noted, and
waiting for one hands over to the driver. In the driver's threads they do what they always do."""

from __future__ import annotations

import contextlib
import functools
import re
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import DataFrameWriter, DataFrameWriterV2, SparkSession
from pyspark.sql.streaming import DataStreamReader, DataStreamWriter, StreamingQueryManager

from ...core.errors import ApplicationError
from .. import spark_internals
from ..tables import to_table
from .protection import copy_of, refused
from .run import ScriptQuery, ScriptRun

_RUNS: dict[int, ScriptRun] = {}  # by the thread of the script
_FOR_THE_DRIVER = ("spark.master", "spark.app.name", "spark.submit.deployMode")  # of a builder; the driver has its own
# What a session takes, and nobody looks at any more.
_OF_THE_START = (
    "spark.hadoop.",
    "spark.executorEnv.",
    "spark.executor.",
    "spark.driver.",
    "spark.kubernetes.",
    "spark.yarn.",
)
# Of a writer: the driver's are others.
_OWN = ("checkpointlocation", "queryname")
_LOADS = ("load", "json", "csv", "text", "parquet", "orc", "xml")
_SAVES = ("save", "saveAsTable", "insertInto", "json", "parquet", "text", "csv", "orc", "xml", "jdbc")
_SAVES_V2 = ("create", "replace", "createOrReplace", "append", "overwrite", "overwritePartitions")
_COMMANDS = re.compile(
    r"\s*(?!create\s+(or\s+replace\s+)?(global\s+)?temp)(?!.*\bif\s+(not\s+)?exists\b)"
    r"(create|insert|drop|alter|merge|delete|update|truncate|replace|load|copy|msck|analyze|refresh\s+table)\b",
    re.IGNORECASE | re.DOTALL,
)
_installed: list[bool] = []


@contextlib.contextmanager
def made_by(run: ScriptRun) -> Iterator[None]:
    """Inside the block this thread is the script's."""
    if not _installed:
        _install()
        _installed.append(True)
    _RUNS[threading.get_ident()] = run
    try:
        yield
    finally:
        _RUNS.pop(threading.get_ident(), None)


def _install() -> None:
    calls: tuple[tuple[Any, str, Callable[..., Any]], ...] = (
        (SparkSession.Builder, "getOrCreate", _get_or_create),
        (SparkSession.Builder, "create", _get_or_create),
        (SparkSession, "stop", lambda run, original, session: None),  # the driver ends it
        (SparkContext, "stop", lambda run, original, context: None),
        (SparkContext, "__init__", _context),
        (SparkContext, "addPyFile", _add_file),
        (SparkContext, "addFile", _add_file),
        (SparkSession, "sql", _sql),
        (DataStreamWriter, "queryName", _query_name),
        (DataStreamWriter, "option", _option),
        (DataStreamWriter, "options", _options),
        (DataStreamWriter, "start", _start),
        (DataStreamWriter, "toTable", _to_table),
        (StreamingQueryManager, "awaitAnyTermination", _await_any),
        (StreamingQueryManager, "get", _get),
        (threading.Event, "wait", _wait),
        (threading.Thread, "start", _start_thread),
        (signal, "signal", _signal),
        (time, "sleep", _sleep),
        *((DataStreamReader, name, _read_options) for name in ("option", "options")),
        *((DataStreamReader, name, _loads) for name in _LOADS),
        *((DataFrameWriter, name, _saves(name)) for name in _SAVES),
        *((DataFrameWriterV2, name, _saves(name)) for name in _SAVES_V2),
    )
    for owner, name, call in calls:
        if (original := getattr(owner, name, None)) is not None:
            setattr(owner, name, _in_scripts(original, call))
    active = StreamingQueryManager.active.fget
    StreamingQueryManager.active = property(_in_scripts(active, _active))


def _in_scripts(original: Callable[..., Any], call: Callable[..., Any]) -> Callable[..., Any]:
    """Return what does `call` in a script's thread and `original` in any other. What the original calls in turn is
    PySpark's own."""

    @functools.wraps(original)
    def either(*args: Any, **options: Any) -> Any:
        run = _RUNS.pop(threading.get_ident(), None)
        if run is None:
            return original(*args, **options)
        try:
            return call(run, original, *args, **options)
        finally:
            _RUNS[threading.get_ident()] = run

    return either


def _context(
    run: ScriptRun, original: Callable[..., Any], context: SparkContext, *args: Any, conf: Any = None, **more: Any
) -> None:
    """Make it another name of the driver's own context, of which there is one."""
    conf = next((arg for arg in args if isinstance(arg, SparkConf)), conf)
    _configure(run, dict({*conf.getAll()} - {*SparkConf().getAll()}) if conf else {})
    vars(context).update(vars(run.spark.sparkContext))


def _add_file(run: ScriptRun, original: Callable[..., Any], context: SparkContext, path: str, *more: Any) -> None:
    original(context, copy_of(path), *more)


def _get_or_create(run: ScriptRun, original: Callable[..., Any], builder: Any) -> SparkSession:
    _configure(run, builder._options)
    run.spark.sparkContext.appName = builder._options.get("spark.app.name", run.spark.sparkContext.appName)
    return run.spark


def _configure(run: ScriptRun, given: Mapping[str, Any]) -> None:
    has = dict(run.spark.sparkContext.getConf().getAll())
    for key, value in given.items():
        if key in _FOR_THE_DRIVER or has.get(key) == str(value):
            continue
        if not key.startswith(_OF_THE_START):
            with contextlib.suppress(PySparkException):
                if run.spark.conf.get(key, None) != str(value):
                    run.spark.conf.set(key, value)
                continue
        run.warn(f"sets {key}, which comes too late here: give it with --conf {key}={value}")


def _sql(
    run: ScriptRun, original: Callable[..., Any], session: SparkSession, query: str, *args: Any, **more: Any
) -> Any:
    if _COMMANDS.match(query):
        run.note_effect(f"runs {' '.join(query.split())[:60]!r}")
    return original(session, query, *args, **more)


def _saves(name: str) -> Callable[..., Any]:
    def call(run: ScriptRun, original: Callable[..., Any], writer: Any, *args: Any, **more: Any) -> Any:
        target = args[0] if args and isinstance(args[0], str) else more.get("path") or more.get("name")
        run.note_effect(f"writes to {target}" if target else f"writes by {name}()")
        return original(writer, *args, **more)

    return call


def _loads(run: ScriptRun, original: Callable[..., Any], reader: Any, path: Any = None, *args: Any, **more: Any) -> Any:
    _check_input(run, path)
    return original(reader, path, *args, **more)


def _read_options(run: ScriptRun, original: Callable[..., Any], reader: Any, *args: Any, **options: Any) -> Any:
    given = {args[0]: args[1], **options} if len(args) == 2 else options
    _check_input(run, next((value for key, value in given.items() if str(key).lower() == "path"), None))
    return original(reader, *args, **options)


def _check_input(run: ScriptRun, path: Any) -> None:
    if why := refused(path, "new files do not come there"):
        raise ApplicationError(f"{_place(run.file)} reads a stream from {why}")


def _query_name(run: ScriptRun, original: Callable[..., Any], writer: Any, name: str) -> Any:
    _own(writer)["queryname"] = name
    return writer


def _option(run: ScriptRun, original: Callable[..., Any], writer: Any, key: str, value: Any) -> Any:
    return _options(run, original, writer, **{key: value})


def _options(run: ScriptRun, original: Callable[..., Any], writer: Any, **options: Any) -> Any:
    for key, value in options.items():
        if key.lower() in _OWN:
            _own(writer)[key.lower()] = str(value)
        else:
            writer.option(key, value)
    return writer


def _own(writer: Any) -> dict[str, str]:
    found: dict[str, str] = vars(writer).setdefault("_streamupdate", {})
    return found


def _start(
    run: ScriptRun,
    original: Callable[..., Any],
    writer: DataStreamWriter,
    path: str | None = None,
    format: str | None = None,
    outputMode: str | None = None,
    partitionBy: Any = None,
    queryName: str | None = None,
    **options: Any,
) -> ScriptQuery:
    _options(run, original, writer, **options)
    for given, how in ((outputMode, writer.outputMode), (partitionBy, writer.partitionBy), (format, writer.format)):
        if given is not None:
            how(given)
    if path is not None:
        writer.option("path", path)
    own = _own(writer)
    if not spark_internals.in_session(writer, run.spark):
        raise ApplicationError(f"{_place(run.file)} starts a query in a session of its own: leave newSession() out")
    writer = spark_internals.copied(writer)  # the script may go on with it, and start it again elsewhere
    return run.add(writer, queryName or own.get("queryname"), own.get("checkpointlocation"), _place(run.file))


def _to_table(
    run: ScriptRun,
    original: Callable[..., Any],
    writer: DataStreamWriter,
    tableName: str,
    format: str | None = None,
    outputMode: str | None = None,
    partitionBy: Any = None,
    queryName: str | None = None,
    **options: Any,
) -> ScriptQuery:
    return _start(run, original, to_table(writer, tableName), None, None, outputMode, partitionBy, queryName, **options)


def _await_any(run: ScriptRun, original: Callable[..., Any], manager: Any, timeout: float | None = None) -> bool | None:
    over = run.wait(timeout)
    return None if timeout is None else over


def _active(run: ScriptRun, original: Callable[..., Any], manager: Any) -> list[Any]:
    return [] if run.over.is_set() else [query for query in run.queries if not query.stopped]


def _get(run: ScriptRun, original: Callable[..., Any], manager: Any, id: str) -> Any:
    return next((query for query in run.queries if query.id == id), None)


def _start_thread(run: ScriptRun, original: Callable[..., Any], thread: threading.Thread) -> None:
    """Start a thread of the script's, in which these calls are the same."""
    inner = thread.run

    def of_script() -> None:
        with made_by(run):
            inner()

    thread.run = of_script  # type: ignore[method-assign]
    original(thread)


def _wait(run: ScriptRun, original: Callable[..., Any], event: threading.Event, timeout: float | None = None) -> bool:
    """Wait as a sleep does; what another thread waits for is its own."""
    run.pause()
    return bool(original(event, 0 if run.over.is_set() else timeout))


def _sleep(run: ScriptRun, original: Callable[..., Any], seconds: float) -> None:
    """Sleep, where the script does nothing else than to wait for its queries."""
    if not run.pause(seconds):
        original(seconds)


def _signal(run: ScriptRun, original: Callable[..., Any], number: int, handler: Any) -> Any:
    """A script's handlers end its queries, which the driver does by itself."""
    return signal.getsignal(number)


def _place(file: Path) -> str:
    """Return the line of the script, or of a module of its own, that makes the call, with its number."""
    frame, folder = sys._getframe(1), str(file.parent)
    while frame.f_back is not None and not (
        frame.f_code.co_filename == str(file) or frame.f_code.co_filename.startswith(f"{folder}/")
    ):
        frame = frame.f_back
    return f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"
