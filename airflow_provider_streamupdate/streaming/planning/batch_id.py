"""What a query's sink function does with a batch id that it has seen: as the app declares it, or nothing, where the
function's code does not use the id."""

from __future__ import annotations

import dis
import shlex
import types
from collections.abc import Iterable, Iterator
from typing import Any

from pyspark.sql.streaming import DataStreamWriter

from ...core.compatibility.rules.sinks import is_function, kind_of
from ...core.compatibility.rules.sources.source_options import short_format
from ...core.errors import ApplicationError
from ...core.plan.plan import UNUSED, QueryPlan
from .. import spark_internals
from .listeners import told_by_listener
from .reach import codes, is_app_function, reached

# What may read a parameter that no instruction names, or the id from elsewhere: Spark sets the local property
# streaming.sql.batchId (MicroBatchExecution.runBatch), and a query's progress tells it.
_MAY_READ = frozenset(
    {
        "locals",
        "vars",
        "dir",
        "eval",
        "exec",
        "_getframe",
        "currentframe",
        "stack",
        "trace",
        "f_locals",
        "f_back",
        "import_module",
        "__import__",
        "getLocalProperty",
        "getLocalProperties",
        "localProperties",
        "currentBatchId",
        "batchId",
        "_current_frames",
        "_jdf",
        "_jsc",
        "_jvm",
        "lastProgress",
        "recentProgress",
        "active",
    }
)


def seen_batch(where: str, writer: DataStreamWriter, format: str, declared: str | None) -> str | None:
    """Return one of plan.SEEN_BATCH, UNUSED, or None where it is unknown or the sink is not a function.
    ApplicationError for a declaration when the sink is not a function. `where`: the query, for the message."""
    if not kind_of(format).is_function:
        if declared is not None:
            raise ApplicationError(
                f"{where}: seen_batch={declared!r} applies to functions only (foreachBatch, foreach), but its sink is "
                f"{format}; remove it"
            )
        return None
    if declared is not None:
        return declared
    if short_format(format) == "foreach":
        found = row_uses_id(spark_internals.row_function(writer))
    else:
        found = uses_id(spark_internals.batch_function(writer))
    return UNUSED if found is False else None


def undeclared(queries: Iterable[QueryPlan]) -> Iterator[str]:
    """Warn of each query whose function may use the batch id, and whose app does not declare what it does with it."""
    for query in queries:
        if is_function(query) and query.sink.seen_batch is None:
            yield (
                f"query {query.name}: its {query.sink.format} function may use the batch id. Declare what it does with "
                f"an id that it has seen: @app.query({query.name!r}, seen_batch=...), or of a script --seen-batch "
                f"{shlex.quote(query.name)}=..., with 'replaces' (what it wrote for the id), 'upserts' (rows of the "
                "same key: MERGE), 'skips' (it writes nothing) or 'adds'. Without it, the next update asks to agree "
                f"(--agree {shlex.quote(f'{query.name}/{query.sink.format}')})"
            )


def uses_id(function: Any) -> bool | None:
    """Whether a foreachBatch function reads its second parameter; None where its code does not tell."""
    skipped, held = 0, []  # held: the objects whose methods it is
    while isinstance(function, types.MethodType):
        held.append(function.__self__)
        function, skipped = function.__func__, skipped + 1
    if not isinstance(function, types.FunctionType):
        return None
    code = function.__code__
    if code.co_argcount <= skipped + 1:  # the id comes in *args
        return None
    name = code.co_varnames[skipped + 1]
    if name in code.co_cellvars or any(_reads(each, name) for each in dis.get_instructions(code)):
        return True
    return _finds_id(function, *held)


def row_uses_id(function: Any) -> bool | None:
    """Whether a function given to foreach, which gets a row alone, reads the batch id otherwise; None where its code
    does not tell. An object's open() gets the id."""
    return _finds_id(function) if isinstance(function, types.FunctionType) else None


def _finds_id(*functions: Any) -> bool | None:
    met = list(reached(*functions))
    if any(_asks(each.__code__) for each in met if is_app_function(each)):
        return True
    return None if told_by_listener(met) else False


def _reads(step: dis.Instruction, name: str) -> bool:
    """Python 3.13 loads two variables in one instruction, or stores one and loads the next (STORE_FAST_LOAD_FAST); its
    `argval` has both."""
    named = step.argval if isinstance(step.argval, tuple) else (step.argval,)
    return "LOAD_" in step.opname and name in named


def _asks(code: types.CodeType) -> bool:
    """Return whether code uses a name by which the id can be read unnamed, or names the id in a text."""
    return any(
        "batchId" in repr([value for value in each.co_consts if isinstance(value, (str, tuple))])
        or not _MAY_READ.isdisjoint(each.co_names)
        for each in codes(code)
    )
