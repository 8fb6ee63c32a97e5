"""`StreamingApp`: the app author's API, and the driver's command line."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming import DataStreamWriter, StreamingQuery

from ..core.difference.request import ExpectedDifference
from ..core.errors import ApplicationError, StreamUpdateError, describe
from ..core.names import check_name
from ..core.plan.plan import SEEN_BATCH
from . import spark_internals
from .parameters import MissingParameterError, Parameters, unread
from .planning.author import Declarations, place
from .restore.migrator import MigrationFunction

QueryFunction = Callable[[SparkSession, dict[str, str]], DataStreamWriter]
QueriesFunction = Callable[[SparkSession, dict[str, str]], Mapping[str, DataStreamWriter]]


class StreamingApp:
    """A long-lived streaming program of one or more queries.

    name: the app's name in the registry
    require_names: refuse unnamed stateful operators instead of warning about them
    reloadable: the parameters that may change while the app runs (strategy ``in_flight``): its query functions are
        called again with the new values, in the same session
    """

    expected_differences: tuple[ExpectedDifference, ...] = ()

    def __init__(self, name: str, require_names: bool = False, reloadable: Iterable[str] = ()) -> None:
        self.name = check_name("app", name)
        self.require_names = require_names
        if isinstance(reloadable, str):
            raise ApplicationError(f"app {name}: reloadable={reloadable!r} must be a set of names: {{{reloadable!r}}}")
        self.reloadable = tuple(sorted(set(reloadable)))
        self._functions: list[
            tuple[str | None, Callable[..., Any]]
        ] = []  # with the name of its one query, if it has one
        self._built: dict[str, Callable[..., Any]] = {}  # the function of each query that was built last
        self.seen_batch: dict[str, str] = {}  # as declared, by query
        self._asked: set[str] = set()  # the parameters that the query functions read when they were called last
        self.migrations: dict[tuple[str, str], MigrationFunction] = {}

    def __getstate__(self) -> dict[str, Any]:
        """Return the parts that a function that uses the app takes along, and that its digest contains. Expected
        differences are no part of what it computes."""
        return {name: value for name, value in self.__dict__.items() if name != "expected_differences"}

    def query(self, name: str, seen_batch: str | None = None) -> Callable[[QueryFunction], QueryFunction]:
        """Register a query function: ``(spark, params) -> DataStreamWriter``, not started, without a checkpoint
        location or query name (the deployment has its own).

        seen_batch: what the query's foreachBatch function (or foreach object) does with a batch id that it has seen.
            ``skips``: it writes nothing; ``replaces``: it replaces what it wrote for the id; ``upserts``: it replaces
            rows that have the same key, whichever batch wrote them (MERGE); ``adds``: it writes once more. A rollback
            needs to know this, because the previous version computes batches again under ids that the newer one has
            used. Not needed where the function does not use the id.
        """
        check_name("query", name)
        if any(known == name for known, _ in self._functions):
            raise ApplicationError(f"app {self.name} has two queries named {name!r}; give one another name")
        self._declare(name, seen_batch)

        def register(function: QueryFunction) -> QueryFunction:
            self._functions.append((name, function))
            return function

        return register

    def queries(
        self, seen_batch: Mapping[str, str] = MappingProxyType({})
    ) -> Callable[[QueriesFunction], QueriesFunction]:
        """Register a function of several queries, which share DataFrames: ``(spark, params) -> {name: writer}``, each
        writer as that of `query`.

        seen_batch: by query, as for `query`
        """
        for name, declared in seen_batch.items():
            self._declare(check_name("query", name), declared)

        def register(function: QueriesFunction) -> QueriesFunction:
            self._functions.append((None, function))
            return function

        return register

    def _declare(self, query: str, seen_batch: str | None) -> None:
        if seen_batch is not None and seen_batch not in SEEN_BATCH:
            raise ApplicationError(
                f"query {query} of app {self.name}: seen_batch={seen_batch!r} must be one of {', '.join(SEEN_BATCH)}"
            )
        if seen_batch is not None:
            self.seen_batch[query] = seen_batch

    def migrate(self, stage: str, from_: str) -> Callable[[MigrationFunction], MigrationFunction]:
        """Register a migration function: ``(state) -> state``, DataFrames with the struct columns ``key`` and
        ``value``, from the stage's old state to its new one.

        stage: its name, or ``query/stage`` where two queries have one of that name
        from_: the old state as the compatibility report names it, for example ``k string -> count bigint``; a state of
            another form is not given to the function, so it may stay in the file for good
        """

        def register(function: MigrationFunction) -> MigrationFunction:
            if (stage, from_) in self.migrations:
                raise ApplicationError(f"app {self.name} migrates stage {stage!r} from {from_!r} twice; remove one")
            self.migrations[stage, from_] = function
            return function

        return register

    def expect_difference(self, query: str, where: str | None = None, *, column: str | None = None) -> None:
        """State that rows of a query may differ from the old version's when both run the same batches (strategy
        ``follow``). It changes nothing else: neither what the app computes nor whether it continues from saved state.

        where: an SQL predicate over the compared columns, for example ``carrier = 'XX'``. A row for which it is NULL is
            not expected to differ. Several calls for one query: one of their predicates must hold
        column: instead of `where`, a column that differs from run to run, such as ``uuid()``: it is not compared
        """
        self.expected_differences += (ExpectedDifference(query=query, where=where, column=column),)

    def build(self, spark: SparkSession, params: dict[str, str]) -> dict[str, DataStreamWriter]:
        """Call every query function and check what it returns; ApplicationError names the query and what is wrong."""
        if not self._functions:
            raise ApplicationError(f"app {self.name} has no query; decorate a function with @app.query('name')")
        spark_internals.disable_nagle(spark)  # it is this thread that plans them
        spark_internals.show_py_files(spark)
        writers: dict[str, DataStreamWriter] = {}
        self._asked, self._built = set(), {}
        for name, function in self._functions:
            returned = self._call(spark, params, name, function)
            by_query = _writers_by_query(self.name, function, returned) if name is None else {name: returned}
            for query, writer in by_query.items():
                if query in writers:
                    raise ApplicationError(f"app {self.name} has two queries named {query!r}; give one another name")
                writers[query] = _checked_writer(f"query {query} of app {self.name}", writer)
                self._built[query] = function
        if unknown := sorted(self.seen_batch.keys() - writers.keys()):
            raise ApplicationError(
                f"app {self.name} declares seen_batch of {', '.join(unknown)}, which none of its functions returned "
                f"(queries: {', '.join(writers)}); correct the name"
            )
        return writers

    def _call(self, spark: SparkSession, params: dict[str, str], name: str | None, function: Callable[..., Any]) -> Any:
        """Return what a query function returns; the query that it started, stopped, if it did."""
        where = f"query {name}" if name else f"function {getattr(function, '__name__', '?')}"
        started = {q.id for q in spark.streams.active}
        given = Parameters(params)
        try:
            returned = function(spark, given)
        except StreamUpdateError:
            raise
        except Exception as error:
            raise ApplicationError(f"{where} of app {self.name}: {_describe_failure(error, params)}") from error
        finally:
            self._asked |= given.names_read()
        for query in spark.streams.active:
            if query.id not in started:
                query.stop()
                returned = query
        return returned

    def unread(self, params: Iterable[str]) -> list[str]:
        """Warnings: the parameters that no query function read when they were called last."""
        return unread(params, self._asked)

    def written(self) -> dict[str, str]:
        """File and line of the function of every query that was built last, for messages: ``v1.py:12``."""
        codes = {query: getattr(function, "__code__", None) for query, function in self._built.items()}
        return {q: f"{Path(c.co_filename).name}:{c.co_firstlineno}" for q, c in codes.items() if c is not None}

    def declarations(self) -> Declarations:
        """Return what the app declares besides its queries. `build` was called before."""
        return Declarations(
            name=self.name,
            require_names=self.require_names,
            migrations=dict(self.migrations),
            reloadable=self.reloadable,
            written=self.written(),
            seen_batch=dict(self.seen_batch),
        )

    def checkpoints(self) -> dict[str, str]:
        """Return nothing: every deployment has its own."""
        return {}

    def check(self) -> None:
        """Do nothing: a query that the app's file starts is found when it is built."""

    def begin(self) -> None:
        """Do nothing: the app's file has given its queries away."""

    def finish(self, failed: bool = False) -> None:
        """Do nothing."""

    def main(self, argv: Sequence[str] | None = None) -> None:
        """The driver's entry point: ``run`` (what a launcher calls) or ``plan``. Exits with 0, 1 on failure."""
        from .agent import driver  # not needed to define an app
        from .agent.arguments import parser_of

        options = parser_of(f"Streaming app {self.name}").parse_args(sys.argv[1:] if argv is None else argv)

        sys.exit(driver.plan(self, options) if options.mode == "plan" else driver.run(self, options))


def _describe_failure(error: BaseException, params: Iterable[str]) -> str:
    """Describe what a query function raised, where, and what to do."""
    where = place(error)
    at = f"{where} " if where else "its function "
    if isinstance(error, MissingParameterError):
        given = ", ".join(sorted(params)) or "none"
        return f"{at}reads parameter {error.args[0]!r}, which was not set (given: {given}); set it (--set)"
    return (
        f"{at}raised {raised(error)}; correct it, or its parameters (--set); `streamupdate "
        "plan` tries it without starting anything"
    )


def raised(error: BaseException) -> str:
    """Return what code raised, without the plan that Spark adds to an AnalysisException: ``KeyError: 'x'``."""
    text = str(error)
    if isinstance(error, PySparkException):
        first = describe(error).partition(": ")[2].partition("\n")[0].partition(" SQLSTATE")[0]
        text = first.rstrip(" .;") or text
    return f"{type(error).__name__}: {text}"


def _writers_by_query(app: str, function: Callable[..., Any], returned: Any) -> Mapping[str, Any]:
    """Return what a function of several queries returned, by query; ApplicationError when it is something else."""
    name = getattr(function, "__name__", "?")
    if isinstance(returned, StreamingQuery):
        return {name: returned}  # refused as what it is
    if not isinstance(returned, Mapping) or not returned:
        raise ApplicationError(
            f"function {name} of app {app} returned {type(returned).__name__ if returned else 'nothing'}; return "
            "{'query': df.writeStream..., ...} from a function that is decorated with @app.queries()"
        )
    return {check_name("query", query): writer for query, writer in returned.items()}


def _checked_writer(where: str, returned: Any) -> DataStreamWriter:
    wanted = "return df.writeStream..., neither started nor with a checkpointLocation or queryName"
    if isinstance(returned, StreamingQuery):
        raise ApplicationError(
            f"{where} started its query, which was stopped again; remove .start() (for "
            f".toTable(name) write to_table(writer, name)): {wanted}"
        )
    if not isinstance(returned, DataStreamWriter):
        raise ApplicationError(f"{where} returned a {type(returned).__name__}; {wanted}")
    options = {k.lower(): v for k, v in spark_internals.writer_details(returned)["options"].items()}
    for option in ("checkpointlocation", "queryname"):
        if option in options:
            raise ApplicationError(
                f"{where} sets {option} ({options[option]}); remove it: every deployment has its own"
            )
    return returned
