"""What importing the modules of an app's Python code does, which holds for all of it that runs in the same workers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import attrs
from pyspark import cloudpickle

from ....core.plan.plan import PYTHON_IMPORTS, UNKNOWN, NotUnderstood, QueryPlan
from ...code.digest import describe

# In texts: what a function, a state function or a table is called that is written in Python (expression._function,
# definition._code, spark_internals/plans/leaves.py). A column of that name only makes it asked about.
_PYTHON = "python"


def imports(found: Any) -> Iterator[str]:
    """Return the imports that a plan's JSON tells of: of functions, sources and types ("module#digest";
    spark_internals)."""
    left = [found]
    while left:
        value = left.pop()
        if isinstance(value, dict):
            yield from map(str, value.get("imports") or ())
            left += value.values()
        elif isinstance(value, list):
            left += value


def migration_imports(functions: Mapping[tuple[str, str], Any]) -> Iterator[str]:
    """Return the imports of the app's migration functions, whose Python functions run in the same workers before the
    queries do."""
    for (stage, _), function in functions.items():
        try:
            command = cloudpickle.dumps(function)
        except Exception as e:  # it runs in the driver, so that Spark may never have to write it out
            yield f"{UNKNOWN}migration of {stage} (it cannot be pickled: {type(e).__name__}: {e})"
        else:
            yield from describe(command).imports


def with_imports(queries: Iterable[QueryPlan], found: Iterable[str]) -> tuple[QueryPlan, ...]:
    """The queries with what importing does in their settings. Spark gives a worker to whatever runs next
    (PythonWorkerFactory), so that it holds for all queries whichever has the modules imported."""
    told = ", ".join(sorted(set(found)))
    return tuple(
        attrs.evolve(
            query,
            conf={**query.conf, PYTHON_IMPORTS: told},
            unaffected=query.unaffected if _keeps_python(query) else (*query.unaffected, PYTHON_IMPORTS),
        )
        for query in queries
    )


def _keeps_python(query: QueryPlan) -> bool:
    """Return whether Python has a part in what the query keeps, or may have one."""
    if any(source.code is not None for source in query.sources):
        return True
    for stage in query.stages:
        told = str((stage.definition, stage.filters, stage.arrivals, stage.paths)).lower()
        if _PYTHON in told or UNKNOWN in told or isinstance(stage.definition, NotUnderstood):
            return True
    return False
