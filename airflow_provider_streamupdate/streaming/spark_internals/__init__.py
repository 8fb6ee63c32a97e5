"""The only access to Spark's JVM internals. Nothing outside this folder uses ``_jdf``, ``_jvm`` and the like.

Class and field names are verified with javap on the released jars. What differs between minor versions is in
version.py; `check_version` refuses those that have none.
"""

from .connection import disable_nagle, on_termination
from .jvm import activate, in_background, unanswered
from .markers import with_marker
from .pipelines import PipelineFlow, PipelineGraph, classic, connected
from .plans.plans import analyzed_plan, optimized_inputs, plan_shape
from .plans.sources import streaming_sources
from .queries.dry_runs import DryRun, DryRunOptions, dry_run
from .queries.empty_sources import with_empty_sources
from .queries.following import SCRATCH, FollowedQuery, check_followable_here, check_trigger
from .queries.next_input import SourceOffsets, changed_file, next_input_problem
from .queries.queries import (
    ExecutedBatch,
    OperatorReport,
    executed_batches,
    execution_seconds,
    join_thread,
    rows_written,
    sleeping_between_batches,
    stop_after_batch,
    tasks_running,
    thread_alive,
)
from .queries.state_stores import rewrite_stores, save_aggregation, write_empty_store
from .queries.writers import (
    FOREACH,
    batch_function,
    copied,
    file_sink_batch,
    foreach_imports,
    in_session,
    muted,
    qualified,
    row_function,
    unsupported,
    writer_details,
    writer_frame,
)
from .settings import (
    FILE_MANAGER,
    effective_settings,
    environment_of_workers,
    first_settings,
    first_settings_with,
    given_settings,
    hadoop_setting,
    hadoop_settings,
    jvm_locale,
    jvm_zone,
    next_state_format,
    other_settings,
    parallelism,
    session_setting,
    show_py_files,
)
from .version import check_version, families_problem

__all__ = [
    "FILE_MANAGER",
    "FOREACH",
    "SCRATCH",
    "DryRun",
    "DryRunOptions",
    "ExecutedBatch",
    "FollowedQuery",
    "OperatorReport",
    "PipelineFlow",
    "PipelineGraph",
    "SourceOffsets",
    "activate",
    "analyzed_plan",
    "batch_function",
    "changed_file",
    "check_followable_here",
    "check_trigger",
    "check_version",
    "classic",
    "connected",
    "copied",
    "disable_nagle",
    "dry_run",
    "effective_settings",
    "environment_of_workers",
    "executed_batches",
    "execution_seconds",
    "families_problem",
    "file_sink_batch",
    "first_settings",
    "first_settings_with",
    "foreach_imports",
    "given_settings",
    "hadoop_setting",
    "hadoop_settings",
    "in_background",
    "in_session",
    "join_thread",
    "jvm_locale",
    "jvm_zone",
    "muted",
    "next_input_problem",
    "next_state_format",
    "on_termination",
    "optimized_inputs",
    "other_settings",
    "parallelism",
    "plan_shape",
    "qualified",
    "rewrite_stores",
    "row_function",
    "rows_written",
    "save_aggregation",
    "session_setting",
    "show_py_files",
    "sleeping_between_batches",
    "stop_after_batch",
    "streaming_sources",
    "tasks_running",
    "thread_alive",
    "unanswered",
    "unsupported",
    "with_empty_sources",
    "with_marker",
    "write_empty_store",
    "writer_details",
    "writer_frame",
]
