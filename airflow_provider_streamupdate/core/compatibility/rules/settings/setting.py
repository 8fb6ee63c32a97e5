"""The rules for settings of the session. One that changes is asked about by its name, unless it is known to decide no
result (HARMLESS). What some of them change is measured (settings_table.py), so that it can be told."""

from __future__ import annotations

import attrs

from ....plan.plan import JVM_LOCALE, JVM_ZONE, PARALLELISM, PYTHON_IMPORTS, PYTHON_ZONE, TIME_ZONE, UNKNOWN
from ...report import LOSS
from ..rule import Facts, Rule
from .measured import SQL, Measured
from .settings_table import MEASURED


@attrs.frozen(kw_only=True)
class SettingChange:
    """A setting of a query with state before and after; none: the plan does not have it.

    not_default: the new value is not Spark's default
    unaffected: it is proven of both versions that the setting cannot change them (planning/settings/unaffected.py)
    """

    key: str
    old: str | None
    new: str | None
    not_default: bool = False
    unaffected: bool = False


@attrs.frozen(kw_only=True)
class OtherSetting:
    """A setting that the session was given; none: it was not, so that it is Spark's default.

    told: whether the plan of the saved state has such settings
    unaffected: it is proven of the new version that the setting cannot change it. If it could change the old one, then
        what it changed there has another text
    """

    key: str
    old: str | None
    new: str | None
    told: bool = True
    unaffected: bool = False


# Beginnings of settings that decide no result, and why. All that is not here is asked about; all that is here has been
# set to other values over a corpus of statements and of streams, and changed nothing (tests/sweep/settings.py);
# Hadoop's are reviewed.
HARMLESS = {
    "spark.sql.shuffle.partitions": "the rules for state stores compare it",
    "spark.sql.streaming.stateStore.": "how state is stored, not what: the rules for state stores compare what matters",
    "spark.sql.streaming.checkpoint": "where checkpoints are, and how their files are written",
    "spark.sql.streaming.forceDeleteTempCheckpointLocation": "about checkpoints that are removed at the end",
    # not compactInterval: with 0 the query fails
    "spark.sql.streaming.fileSource.log.deletion": "whether old parts of the log of files that were read are deleted",
    "spark.sql.streaming.fileSource.log.cleanupDelay": "when they are",
    "spark.sql.streaming.fileSink.log.deletion": "whether old parts of the log of files that were written are deleted",
    "spark.sql.streaming.fileSink.log.cleanupDelay": "when they are",
    "spark.sql.streaming.minBatchesToRetain": "how long old batches are kept",
    "spark.sql.streaming.maxBatchesToRetainInMemory": "how many versions of the state are in memory",
    "spark.sql.streaming.pollingDelay": "how long an idle query waits before it looks again",
    "spark.sql.streaming.stopTimeout": "how long the end of a query is waited for",
    "spark.sql.streaming.stopActiveRunOnRestart": "which of two runs of a query ends",
    "spark.sql.streaming.metricsEnabled": "what is measured",
    "spark.sql.streaming.numRecentProgressUpdates": "what is told",
    "spark.sql.streaming.noDataProgressEventInterval": "what is told",
    "spark.sql.streaming.streamingQueryListeners": "they are told what happens, and change nothing",
    "spark.sql.queryExecutionListeners": "the same",
    "spark.sql.streaming.ui.": "what is shown",
    "spark.sql.artifact.": "where a session keeps its own jars and files; Spark sets it itself",
    "spark.sql.ui.": "what is shown",
    "spark.sql.maxMetadataStringLength": "what is shown",
    "spark.sql.maxPlanStringLength": "what is shown",
    "spark.sql.adaptive.": "how a batch's plan is run; queries with state run without it (IncrementalExecution)",
    "spark.sql.broadcastTimeout": "how long a table is waited for",
    "spark.sql.codegen.": "whether expressions are compiled or interpreted",
    "spark.sql.parquet.compression.codec": "how files are written",
    "spark.sql.orc.compression.codec": "how files are written",
    "spark.sql.warehouse.dir": "where new tables are put; one that is read is known by where its files are",
    "spark.sql.thriftserver.": "a server that no driver of ours runs",
    "spark.sql.thriftServer.": "the same",
    "spark.hadoop.fs.s3a.": "how a store is reached; what is read of it is a source's path",
    "spark.hadoop.fs.s3.": "the same",
    "spark.hadoop.fs.s3n.": "the same",
    "spark.hadoop.fs.gs.": "the same",
    "spark.hadoop.fs.azure.": "the same",
    "spark.hadoop.fs.abfs.": "the same",
    "spark.hadoop.fs.abfss.": "the same",
    "spark.hadoop.fs.oss.": "the same",
    "spark.hadoop.fs.hdfs.": "the same",
    "spark.hadoop.fs.webhdfs.": "the same",
    "spark.hadoop.fs.file.": "the same, of this machine's files",
    "spark.hadoop.fs.AbstractFileSystem.": "the classes by which stores are reached",
    "spark.hadoop.google.": "how Google's stores are reached",
    "spark.hadoop.dfs.": "how HDFS is reached",
    "spark.hadoop.ipc.": "how Hadoop's services are reached",
    "spark.hadoop.rpc.": "the same",
    "spark.hadoop.hadoop.rpc.": "the same",
    "spark.hadoop.hadoop.security.": "who is let in",
    "spark.hadoop.hadoop.ssl.": "the same",
    "spark.hadoop.hive.metastore.warehouse.dir": "where new tables are put; Spark sets it itself",
    "spark.hadoop.hadoop.tmp.dir": "where files are put for a while",
    "spark.hadoop.yarn.": "the cluster that it runs in",
    "spark.hadoop.mapreduce.fileoutputcommitter.": "how files of a batch job are put in place; streams have a log",
}

# How rows are shared out among tasks: those of files, and those of a join with a table, which stay where they are when
# the table is sent to all tasks. It counts where an expression tells (streaming/planning/settings/unaffected.py).
SHARES = (
    "spark.sql.autoBroadcastJoinThreshold",
    "spark.sql.files.maxPartitionBytes",
    "spark.sql.files.maxPartitionNum",
    "spark.sql.files.minPartitionNum",
    "spark.sql.files.openCostInBytes",
)


def harmless(key: str) -> bool:
    """Whether the setting is known to change no result."""
    return key.startswith(tuple(HARMLESS))


_MEANS = {
    TIME_ZONE: "texts without a zone become other times, and Python functions see other clock times",
    PYTHON_ZONE: "the zone of the machine (TZ), by which Python functions see other clock times",
    PYTHON_IMPORTS: "what importing the modules of the app's Python code does, besides giving values to names "
    "(`getcontext().prec = 4`), which holds for all Python functions that a worker runs",
    JVM_LOCALE: "the language of the machine's Java, by which `upper`, `lower` and `initcap` write letters that are "
    "not ASCII",
    JVM_ZONE: "the zone of Java (TZ, -Duser.timezone), by which times in ORC files and databases are other times, and "
    "code of the JVM (`java_method`, `%t` in `format_string`) sees other clock times",
    PARALLELISM: "into how many parts rows are shared out (local[N], the cores of the executors, "
    "spark.default.parallelism), which `spark_partition_id` and `monotonically_increasing_id` tell",
    "spark.sql.caseSensitive": "fields are found by other names when rows are parsed",
    "spark.sql.ansi.enabled": "what does not fit is an error in one and null in the other",
}
_KINDS = {
    "values": "it changes what {text} gives",
    "types": "it changes the types or the rows of {text}",
    "errors": "it decides whether {text} is an error",
}


def means(measured: Measured | None) -> str:
    """What a setting changes, in words; an example from the sweep."""
    if measured is None:
        return "this version does not know what it changes"
    if measured.key in _MEANS:
        return _MEANS[measured.key]
    text = " ".join(measured.example.split())
    shown = text if len(text) <= 100 else f"{text[:97]}..."
    with_ = f", with {measured.under}" if measured.under else ""
    under = f" (tried: {measured.default} and {measured.other}{with_})"
    return _KINDS[measured.change].format(text=f"`{shown}`" if measured.kind in SQL else f'"{shown}"') + under


def _facts(c: SettingChange) -> Facts:
    return {
        "key": c.key,
        "old": c.old or "nothing",
        "new": c.new or "nothing",
        "means": _MEANS.get(c.key) or means(MEASURED.get(c.key)),
    }


def _changed(c: SettingChange, recorded: bool) -> Facts | None:
    if c.unaffected or c.old is None or c.new is None or c.old == c.new:
        return None
    measured = MEASURED.get(c.key)
    return _facts(c) if (measured is not None and measured.recorded) == recorded else None


def _not_known(c: SettingChange) -> Facts | None:
    measured = MEASURED.get(c.key)
    if c.unaffected or c.old is not None or c.new is None or measured is None or not c.not_default:
        return None
    return _facts(c) | {"default": measured.default}


def _imports_unknown(c: SettingChange) -> Facts | None:
    """What cannot be compared comes first (streaming/code/digest.py)."""
    if c.unaffected or c.key != PYTHON_IMPORTS:
        return None
    unknown = next((told for told in (c.new, c.old) if told and told.startswith(UNKNOWN)), None)
    return {"imports": unknown, "means": _MEANS[c.key]} if unknown else None


def _unknown(c: OtherSetting) -> Facts | None:
    if c.unaffected or c.key in MEASURED or harmless(c.key) or c.old == c.new:
        return None
    was = c.old or ("Spark's default" if c.told else "what the plan of the saved state does not tell")
    return {"key": c.key, "old": was, "new": c.new or "Spark's default"}


SETTING_RULES: tuple[Rule[SettingChange], ...] = (
    Rule[SettingChange](
        id="setting.changed",
        verdict=LOSS,
        change="another value of one of the [settings that change results](#settings-that-change-results), in a query "
        "with state: the session time zone (which comes from the machine when it is not set), ANSI mode ...; or "
        "another time zone of the machine, where Python functions are used (`python.timezone`), or other effects of "
        "importing the modules of the app's Python code, where Python has a part in the state (`python.imports`), or "
        "language of its Java (`jvm.locale`), or zone of it (`jvm.timezone`), or number of parts that rows are shared "
        "out into (`default.parallelism`); where a key or aggregate depends on it, it is another one. Settings "
        "are compared as the session has them, with Spark's defaults; one that this Spark does not have is not",
        reason="{key} changed from {old} to {new}: {means}; the state was built under the old one",
        source="measured: tests/sweep/settings.py; OffsetSeqMetadata.relevantSQLConfs does not hold it",
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
        applies=lambda c: _changed(c, recorded=False),
    ),
    Rule[SettingChange](
        id="setting.recorded",
        verdict=LOSS,
        change="another value of a setting that changes results and that the offset log holds "
        "(`spark.sql.streaming.multipleWatermarkPolicy` ...): Spark goes on with the old one",
        reason="{key} changed from {old} to {new}, which has no effect: Spark goes on with what the offset log holds; "
        "{means}",
        source="OffsetSeqMetadata.setSessionConf: the offset log's value wins over the session's, which Spark ignores "
        "silently",
        tests=("core/test_settings_rules.py::test_what_the_offset_log_holds_does_not_change",),
        applies=lambda c: _changed(c, recorded=True),
    ),
    Rule[SettingChange](
        id="setting.not-known-before",
        verdict=LOSS,
        change="a setting that changes results, is not Spark's default, and is not in the plan of the saved state, "
        "which an earlier version of this package (or of Spark) wrote",
        reason="{key} is {new}, and Spark's default is {default}; what it was is not known, since the plan of the "
        "saved state does not hold it: {means}",
        source="plans held the time zone, case sensitivity and ANSI mode only",
        tests=("core/test_settings_rules.py::test_a_plan_from_before_does_not_hold_it",),
        applies=_not_known,
    ),
    Rule[SettingChange](
        id="setting.imports-unknown",
        verdict=LOSS,
        change="the app's Python code imports a module of the app that does something on import which cannot be "
        "compared, where Python has a part in the state (`python.imports`); unchanged code, too",
        reason="what importing does cannot be compared: {imports}. It counts because {means}; agree if it decides no "
        "result of the other functions",
        source="a digest of each effect on import (streaming/code/)",
        tests=("spark/test_imports.py::test_what_cannot_be_compared_is_asked_about_though_nothing_has_changed",),
        applies=_imports_unknown,
    ),
)

OTHER_SETTING_RULES: tuple[Rule[OtherSetting], ...] = (
    Rule[OtherSetting](
        id="setting.unknown",
        verdict=LOSS,
        change="another value of any other setting of SQL or of a file format (`spark.sql.*`, and what does not begin "
        "with `spark.`) or of Hadoop (`spark.hadoop.*`, or set in the code) that the session was given, in a query "
        "with state. How a store or a cluster is reached is no part of it. One that is known to [change "
        "nothing](#settings-that-change-results) is not asked about",
        reason="{key} changed from {old} to {new}: whether it changes results is not known, and the state was built "
        "under the old value",
        source="what is not known to be harmless is part of the meaning; tests/sweep/settings.py tries what it can",
        tests=(
            "spark/test_settings.py::test_a_setting_that_nobody_knows_is_asked_about",
            "spark/test_surroundings.py::test_hadoop_s_settings_are_asked_about",
            "spark/test_surroundings.py::test_how_files_are_shared_out_counts_where_an_expression_tells",
        ),
        applies=_unknown,
    ),
)
