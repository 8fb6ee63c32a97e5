"""What a query's sink function does with a batch id that it has had: as the app declares it, or nothing, where the
function's code does not use the id."""

from __future__ import annotations

import dis
import types
from typing import Any

from pyspark.sql.streaming import DataStreamWriter

from ..state.errors import ApplicationError
from ..state.plan import UNUSED
from ..state.rules.fork import FUNCTIONS
from ..state.rules.source import short_format
from . import spark_internals

# What may read a parameter that no instruction names, or the id from elsewhere (Spark sets the local property
# streaming.sql.batchId: MicroBatchExecution.runBatch).
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
        "getLocalProperty",
        "getLocalProperties",
    }
)


def seen_batch(where: str, writer: DataStreamWriter, format: str, declared: str | None) -> str | None:
    """One of plan.SEEN_BATCH, UNUSED, or None where it is not known or the sink is no function. ApplicationError for a
    declaration of a sink that is none. `where`: the query, for the message."""
    if short_format(format) not in FUNCTIONS:
        if declared is not None:
            raise ApplicationError(
                f"{where}: seen_batch={declared!r} is for a function (foreachBatch, foreach), and its sink is "
                f"{format}; leave it out"
            )
        return None
    if declared is not None:
        return declared
    return UNUSED if uses_id(spark_internals.batch_function(writer)) is False else None


def uses_id(function: Any) -> bool | None:
    """Whether a foreachBatch function reads its second parameter; None where its code does not tell."""
    skipped = 0
    while isinstance(function, types.MethodType):
        function, skipped = function.__func__, skipped + 1
    if not isinstance(function, types.FunctionType):
        return None
    code = function.__code__
    if code.co_argcount <= skipped + 1:  # the id comes in *args
        return None
    name = code.co_varnames[skipped + 1]
    return name in code.co_cellvars or any(_reads(each, name) for each in dis.get_instructions(code)) or _asks(code)


def _reads(step: dis.Instruction, name: str) -> bool:
    """Python 3.13 loads two variables in one instruction, or stores one and loads the next (STORE_FAST_LOAD_FAST); its
    `argval` has both."""
    named = step.argval if isinstance(step.argval, tuple) else (step.argval,)
    return "LOAD_" in step.opname and name in named


def _asks(code: types.CodeType) -> bool:
    """Whether it, or a function in it, uses a name by which a variable can be read unnamed."""
    inner = (each for each in code.co_consts if isinstance(each, types.CodeType))
    return not _MAY_READ.isdisjoint(code.co_names) or any(map(_asks, inner))
