"""The rules for settings of the session. A change needs agreement by the setting's name, unless the setting is known to
change no result (HARMLESS). What some settings change was measured (settings_table.py), so that the report can say
it."""

from __future__ import annotations

import re

import attrs

from ....plan.differences import shortened
from ....plan.plan import JVM_LOCALE, JVM_ZONE, PARALLELISM, PYTHON_IMPORTS, PYTHON_ZONE, TIME_ZONE, UNKNOWN
from ....secret_names import HIDDEN, is_secret
from ...verdict import LOSS
from ..rule import Facts, Rule
from .settings_table import MEASURED, SQL, Measured


@attrs.frozen
class SettingChange:
    """A setting of a query with state before and after. None: the plan does not have it (of SETTING_RULES), or the
    session was not given it, so that it is Spark's default (of OTHER_SETTING_RULES).

    unaffected: it is proven that the setting cannot change the query (planning/settings/unaffected.py): of both
        versions, or of the new one alone where only a setting that was given is compared. If that could change the old
        one, then what it changed there has another text
    """

    key: str
    old: str | None
    new: str | None
    unaffected: bool = False


# Prefixes of settings that change no result, and why. A change of any other setting needs agreement. Those here were
# set to other values over a corpus of statements and streams, and changed nothing (tests/sweep/settings.py); Hadoop's
# were reviewed.
HARMLESS = (
    "spark.sql.shuffle.partitions",  # compared by the rules for state stores
    "spark.sql.streaming.stateStore.",  # how state is stored, not what: the same rules compare what matters
    # Where checkpoints and logs are, and how long they are kept. Not compactInterval: with 0 the query fails.
    "spark.sql.streaming.checkpoint",
    "spark.sql.streaming.forceDeleteTempCheckpointLocation",
    "spark.sql.streaming.fileSource.log.deletion",
    "spark.sql.streaming.fileSource.log.cleanupDelay",
    "spark.sql.streaming.fileSink.log.deletion",
    "spark.sql.streaming.fileSink.log.cleanupDelay",
    "spark.sql.streaming.minBatchesToRetain",
    "spark.sql.streaming.maxBatchesToRetainInMemory",
    # How a query runs, waits and ends. Queries with state run without adaptive execution (IncrementalExecution).
    "spark.sql.streaming.pollingDelay",
    "spark.sql.streaming.stopTimeout",
    "spark.sql.streaming.stopActiveRunOnRestart",
    "spark.sql.adaptive.",
    "spark.sql.broadcastTimeout",
    "spark.sql.codegen.",
    # How much is optimized, read early, or read once. The plans that are compared show what the optimizer has made.
    "spark.sql.optimizer.maxIterations",
    "spark.sql.optimizer.dynamicPartitionPruning.",
    "spark.sql.optimizer.runtime.bloomFilter.",
    "spark.sql.optimizer.runtimeFilter.",
    "spark.sql.parquet.filterPushdown",
    "spark.sql.orc.filterPushdown",
    "spark.sql.sources.parallelPartitionDiscovery.",
    "spark.sql.exchange.reuse",
    "spark.sql.execution.reuseSubquery",
    "spark.sql.subexpressionElimination.",
    # What is measured, told and shown.
    "spark.sql.streaming.metricsEnabled",
    "spark.sql.streaming.numRecentProgressUpdates",
    "spark.sql.streaming.noDataProgressEventInterval",
    "spark.sql.streaming.streamingQueryListeners",
    "spark.sql.queryExecutionListeners",
    "spark.sql.streaming.ui.",
    "spark.sql.ui.",
    "spark.sql.maxMetadataStringLength",
    "spark.sql.maxPlanStringLength",
    "spark.sql.planChangeLog.",
    # Where a session keeps its own jars and new tables (a table that is read is identified by the place of its files),
    # how files are compressed, and a server that this package's drivers do not run.
    "spark.sql.artifact.",
    "spark.sql.parquet.compression.codec",
    "spark.sql.orc.compression.codec",
    "spark.sql.warehouse.dir",
    "spark.sql.thriftserver.",
    "spark.sql.thriftServer.",
    # How a store or service is reached (a source's path says what is read from it), and authentication.
    *(f"spark.hadoop.fs.{kind}." for kind in ("s3a", "s3", "s3n", "gs", "azure", "abfs", "abfss", "oss", "hdfs")),
    *(f"spark.hadoop.fs.{kind}." for kind in ("webhdfs", "file", "AbstractFileSystem")),
    *(f"spark.hadoop.{kind}." for kind in ("google", "dfs", "ipc", "rpc", "hadoop.rpc", "hadoop.security")),
    "spark.hadoop.hadoop.ssl.",
    # Where new tables and temporary files are stored, the cluster that the driver runs in, and how a batch job commits
    # its files (streams use a log).
    "spark.hadoop.hive.metastore.warehouse.dir",
    "spark.hadoop.hadoop.tmp.dir",
    "spark.hadoop.yarn.",
    "spark.hadoop.mapreduce.fileoutputcommitter.",
)

# How rows are divided among tasks: rows of files, and rows of a join with a table, which stay where they are when the
# table is broadcast. It matters where an expression reveals it (streaming/planning/settings/unaffected.py).
SHARES = (
    "spark.sql.autoBroadcastJoinThreshold",
    "spark.sql.files.maxPartitionBytes",
    "spark.sql.files.maxPartitionNum",
    "spark.sql.files.minPartitionNum",
    "spark.sql.files.openCostInBytes",
)


def harmless(key: str) -> bool:
    """Whether the setting is known to change no result."""
    return key.startswith(HARMLESS)


_MEANS = {
    TIME_ZONE: "texts without a zone become other times, and Python functions see other local times",
    PYTHON_ZONE: "the zone of the machine (TZ), by which Python functions see other local times",
    PYTHON_IMPORTS: "what importing the modules of the app's Python code does besides assigning names "
    "(`getcontext().prec = 4`), which affects all Python functions that a worker runs",
    JVM_LOCALE: "the language of the machine's Java, by which `upper`, `lower` and `initcap` convert letters that are "
    "not ASCII",
    JVM_ZONE: "the zone of Java (TZ, -Duser.timezone), by which times in ORC files and databases become other times, "
    "and code of the JVM (`java_method`, `%t` in `format_string`) sees other local times",
    PARALLELISM: "the number of partitions that rows are divided into (local[N], the cores of the executors, "
    "spark.default.parallelism), which `spark_partition_id` and `monotonically_increasing_id` reveal",
    "spark.sql.caseSensitive": "parsed fields match column names in another way",
    "spark.sql.ansi.enabled": "invalid values are an error with it and null without",
}
_KINDS = {
    "values": "it changes the values of {text}",
    "types": "it changes the types or the rows of {text}",
    "errors": "it decides whether {text} fails",
}


def means(measured: Measured | None) -> str:
    """Return what a setting changes, in words, with an example from the sweep."""
    if measured is None:
        return "what it changes is unknown"
    if measured.key in _MEANS:
        return _MEANS[measured.key]
    text = " ".join(measured.example.split())
    shown = text if len(text) <= 100 else f"{text[:97]}..."
    with_ = f", with {measured.under}" if measured.under else ""
    under = f" (tried: {measured.default} and {measured.other}{with_})"
    return _KINDS[measured.change].format(text=f"`{shown}`" if measured.kind in SQL else f'"{shown}"') + under


_IMPORT = re.compile(r"(?<![^,\s#])(([^,\s#]+)#\w+)")  # a module, and a digest of what importing it does
_RECORDED = ". It has no effect: Spark keeps the value in the offset log"


def _changed(c: SettingChange) -> Facts | None:
    if c.unaffected or c.old is None or c.new is None or c.old == c.new:
        return None
    measured = MEASURED.get(c.key)
    old, new = c.old or "nothing", c.new or "nothing"
    values: Facts = {"old": old, "new": new, "how": f"from {old} to {new}"}
    if c.key == PYTHON_IMPORTS:  # "module#digest"
        modules = sorted({name for _, name in {*_IMPORT.findall(c.old)} ^ {*_IMPORT.findall(c.new)}})
        values = {"how": f"({shortened(modules)})", "details": f"old: {old}; new: {new}"}
    return {
        **values,
        "key": c.key,
        "means": _MEANS.get(c.key) or means(measured),
        "recorded": _RECORDED if measured and measured.recorded else "",
    }


def _imports_unknown(c: SettingChange) -> Facts | None:
    """The facts when code cannot be looked at: it begins the text (planning/settings/python_imports.py)."""
    if c.unaffected or c.key != PYTHON_IMPORTS:
        return None
    unknown = next((told for told in (c.new, c.old) if told and told.startswith(UNKNOWN)), None)
    told = _IMPORT.sub(r"\2", unknown).removeprefix(UNKNOWN) if unknown else ""
    return {"imports": told, "means": _MEANS[c.key], "details": unknown} if unknown else None


def _unknown(c: SettingChange) -> Facts | None:
    if c.unaffected or c.key in MEASURED or harmless(c.key) or c.old == c.new:
        return None
    old, new = (HIDDEN if value and is_secret(c.key) else value for value in (c.old, c.new))
    return {"key": c.key, "old": old or "Spark's default", "new": new or "Spark's default"}


SETTING_RULES: tuple[Rule[SettingChange], ...] = (
    Rule[SettingChange](
        id="setting.changed",
        verdict=LOSS,
        change="another value of one of the [settings that change results](#settings-that-change-results), in a query "
        "with state: the session time zone (the machine's when it is not set), ANSI mode ...; another time zone of "
        "the machine, where Python functions are used (`python.timezone`); other effects of importing the modules of "
        "the app's Python code, where Python takes part in the state (`python.imports`); another language "
        "(`jvm.locale`) or zone (`jvm.timezone`) of Java; another number of partitions that rows are divided into "
        "(`default.parallelism`). A key or aggregate that depends on the value is another one. Settings are compared "
        "as the session has them, with Spark's defaults; one that this Spark does not have is not compared. One that "
        "the offset log holds (`spark.sql.streaming.multipleWatermarkPolicy` ...) keeps its old value",
        reason="{key} changed {how}: {means}; the state was built with the old value{recorded}",
        source="measured: tests/sweep/settings.py; OffsetSeqMetadata.setSessionConf: of the settings in the offset log "
        "its value wins over the session's, which Spark ignores silently",
        tests=(
            "spark/test_settings.py::test_another_zone_is_agreed_to_where_no_state_depends_on_it",
            "spark/test_settings.py::test_a_sum_that_wraps_without_ansi_is_an_error_with_it",
            "spark/test_settings.py::test_fields_under_another_case_are_not_found_any_more",
            "spark/test_settings.py::test_a_text_is_another_date_under_another_parser",
            "spark/test_surroundings.py::test_the_zone_of_the_machine_counts_for_python_functions",
            "spark/test_imports.py::test_what_another_function_s_module_sets_counts",
            "spark/test_surroundings.py::test_the_language_of_java_counts",
            "spark/test_surroundings.py::test_the_zone_of_java_counts_where_it_is_looked_at",
            "spark/test_surroundings.py::test_the_number_of_parts_counts_where_an_expression_tells",
        ),
        applies=_changed,
    ),
    Rule[SettingChange](
        id="setting.imports-unknown",
        verdict=LOSS,
        change="Python code of the app that cannot be looked at (a migration function that cannot be pickled), where "
        "Python takes part in the state (`python.imports`); also when the code is unchanged",
        reason="the effects of an import cannot be compared: {imports}. They matter: {means}. Agree if they change no "
        "result of the other functions",
        source="its modules are imported by the same workers (streaming/code/)",
        tests=("spark/test_imports.py::test_what_cannot_be_compared_is_asked_about_though_nothing_has_changed",),
        applies=_imports_unknown,
    ),
)

OTHER_SETTING_RULES: tuple[Rule[SettingChange], ...] = (
    Rule[SettingChange](
        id="setting.unknown",
        verdict=LOSS,
        change="another value of any other setting of SQL or of a file format (`spark.sql.*`, and names that do not "
        "begin with `spark.`) or of Hadoop (`spark.hadoop.*`, or set in the code) that the session was given, in a "
        "query with state. Settings for reaching a store or a cluster do not count, nor do those known to [change "
        "nothing](#settings-that-change-results)",
        reason="{key} changed from {old} to {new}: whether it changes results is unknown, and the state was built "
        "with the old value",
        source="what is not known to be harmless counts; tests/sweep/settings.py tries what it can",
        tests=(
            "spark/test_settings.py::test_a_setting_that_nobody_knows_is_asked_about",
            "spark/test_surroundings.py::test_hadoop_s_settings_are_asked_about",
            "spark/test_surroundings.py::test_how_files_are_shared_out_counts_where_an_expression_tells",
        ),
        applies=_unknown,
    ),
)
