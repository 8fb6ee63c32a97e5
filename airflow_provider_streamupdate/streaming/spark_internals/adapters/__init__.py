"""One module for each minor version of Spark that is known, with what differs from the others. `spark_internals` is the
door through which they are used, and holds what is equal (compared with javap on the released jars).

Each has:

    PLAN_ARGUMENTS             the arguments of IncrementalExecution's constructor after ``mode``
    KEEPS_STATE_FORMAT         whether a restart goes on in the commit log's checkpoint format, not in the session's
    ANALYZES_WITH_CASE         whether a pipeline's graph is told by its caller whether names have a case
    GUARDS_JOIN_FORMAT         whether a first start gives a store without column families joins of a format without
    write_metadata(execution)  have a planned IncrementalExecution write its operators' metadata
"""

from __future__ import annotations

from types import ModuleType

from . import spark_4_2, spark_4_3

ADAPTERS: dict[str, ModuleType] = {"4.2": spark_4_2, "4.3": spark_4_3}
