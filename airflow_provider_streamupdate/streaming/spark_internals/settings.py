"""Settings of a session, as Spark reads them."""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Iterable, Mapping
from typing import Any

from pyspark import SparkFiles
from pyspark.sql import SparkSession

from ...core.plan.state_stores import PROVIDER, ROCKSDB
from .jvm import (
    function,
    interface,
    java_map,
    lines,
    method,
    module,
    named,
    pairs,
    scala_object,
    scala_seq,
    sequence,
    static,
    with_argument,
)
from .version import CHECKPOINTING, adapter

JOIN_FORMAT = "spark.sql.streaming.join.stateFormatVersion"
FILE_MANAGER = "spark.sql.streaming.checkpointFileManagerClass"


def session_setting(spark: SparkSession, key: str) -> str:
    """A setting of the session, with Spark's default when it is not set."""
    return str(spark._jsparkSession.sessionState().conf().getConfString(key))


def hadoop_setting(spark: SparkSession, key: str) -> str | None:
    """A setting as Hadoop's classes get it: of the session, else of the context, else of Hadoop's files."""
    value = spark._jsparkSession.sessionState().newHadoopConf().get(key)
    return None if value is None else str(value)


def effective_settings(spark: SparkSession, keys: Iterable[str]) -> dict[str, str]:
    """Return the session's values with Spark's defaults, in one form (``true``, ``CORRECTED``, bytes as a number). Keys
    that this Spark does not know are left out."""
    conf = spark._jsparkSession.sessionState().conf()
    given = set(_explicit(spark._jvm, conf))
    defaults = _defaults(spark._jvm, tuple(keys))
    following = _following(spark._jvm, tuple(defaults))
    return {**defaults, **_read(spark._jvm, [k for k in defaults if k in given or k in following], conf)}


@functools.cache  # it is the same for as long as the JVM lives, and each takes several calls of it
def _defaults(jvm: Any, keys: tuple[str, ...]) -> dict[str, str]:
    """Return what Spark has where nothing is set."""
    return _read(jvm, keys, named(jvm, "org.apache.spark.sql.internal.SQLConf")())


@functools.cache
def _following(jvm: Any, keys: tuple[str, ...]) -> frozenset[str]:
    """Return the keys that can be set by another key: an older name, or the setting they follow."""
    entries = {key: _registry(jvm).getConfigEntry(key) for key in keys}
    return frozenset(
        key
        for key, entry in entries.items()
        if str(entry.defaultValueString()).startswith("<value of") or not entry.alternatives().isEmpty()
    )


def _read(jvm: Any, keys: Iterable[str], conf: Any) -> dict[str, str]:
    known, entries = _entries(jvm, tuple(keys))
    kind, reader = "org.apache.spark.internal.config.ConfigEntry", "org.apache.spark.internal.config.ConfigReader"
    read = function(jvm, with_argument(jvm, method(jvm, kind, "readFrom", reader), conf.reader()))
    return dict(zip(known, map(_form, lines(jvm, entries.map(read))), strict=True))


@functools.cache
def _entries(jvm: Any, keys: tuple[str, ...]) -> tuple[list[str], Any]:
    """Return the entries of the keys that Spark knows (a scala.Seq)."""
    registry, known, found = _registry(jvm), [], []
    for key in keys:
        if (entry := registry.getConfigEntry(key)) is not None:
            known.append(key)
            found.append(entry)
    return known, scala_seq(jvm, found)


_EXPONENT = re.compile(r"-?\d+\.\d+E-?\d+")  # how the JVM writes large and small numbers


def _form(value: str) -> str:
    return str(float(value)) if _EXPONENT.fullmatch(value) else value


def _registry(jvm: Any) -> Any:
    return scala_object(jvm, "org.apache.spark.sql.internal.SQLConf")


def given_settings(spark: SparkSession, keys: Iterable[str]) -> dict[str, str]:
    """Return the settings that were set in the configuration or in code, without those at their default."""
    conf = spark._jsparkSession.sessionState().conf()
    return {key: str(conf.getConfString(key)) for key in keys if conf.contains(key)}


def other_settings(spark: SparkSession) -> dict[str, str]:
    """All settings of SQL, and of what is not Spark's own (formats and file systems get those of the session, too:
    SessionState.newHadoopConf), that the session was given and that are not Spark's default. Left out is what the
    offset log holds: its values win over the session's."""
    conf = spark._jsparkSession.sessionState().conf()
    logged = _logged(spark)
    given = {k: v for k, v in _explicit(spark._jvm, conf).items() if _of_sql(k) and k not in logged}
    keys = tuple(sorted(given))
    defaults = _defaults(spark._jvm, keys)
    return {k: v for k, v in {**given, **_read(spark._jvm, keys, conf)}.items() if v != defaults.get(k)}


def hadoop_settings(spark: SparkSession) -> dict[str, str]:
    """Return Hadoop's settings as set in Spark's configuration, in the session or in code
    (SparkContext.hadoopConfiguration), as ``spark.hadoop.<key>``. Values from Hadoop's own files are left out."""
    jvm, state = spark._jvm, spark._jsparkSession.sessionState()
    session = _explicit(jvm, state.conf())
    told = {k: v for k, v in session.items() if k.startswith(_HADOOP)}
    copied = named(jvm, "java.util.HashMap")
    now, before = state.newHadoopConf().getPropsWithPrefix(""), copied(_hadoop_at_first(spark))
    changed = copied(now)
    changed.entrySet().removeAll(before.entrySet())
    changed.keySet().removeIf(_begins_with(jvm, "spark."))  # the session's settings are there as well
    before.keySet().removeAll(now.keySet())
    found = {**dict.fromkeys(java_map(jvm, before), "(unset)"), **java_map(jvm, changed)}
    return {**told, **{f"{_HADOOP}{k}": v for k, v in found.items() if k not in session}}


@functools.cache
def _begins_with(jvm: Any, text: str) -> Any:
    """A java.util.function.Predicate on texts."""
    handle = method(jvm, "java.lang.String", "startsWith", "java.lang.String")
    asked = with_argument(jvm, handle, text)
    return interface(jvm, "java.util.function.Predicate", asked.asType(asked.type().generic()))


_HADOOP = "spark.hadoop."
_AT_FIRST: dict[str, Any] = {}  # by application: to read Hadoop's files takes a while


def _hadoop_at_first(spark: SparkSession) -> Any:
    """Return Hadoop's settings from its files and Spark's configuration, before any code changed them (a
    java.util.Map)."""
    context = spark._jsparkSession.sparkContext()
    name = str(context.applicationId())
    if name not in _AT_FIRST:
        made = spark._jvm.org.apache.spark.deploy.SparkHadoopUtil.get().newConfiguration(context.conf())
        _AT_FIRST[name] = made.getPropsWithPrefix("")
    return _AT_FIRST[name]


# What of the options of an executor's JVM, and of its environment, says which language it has, and which time zone.
_LANGUAGE = re.compile(
    r"-D(user\.(?:language|region|country|variant|script|extensions)[^=\s]{0,30}|file\.encoding)=(\S*)"
)
_LANGUAGE_OF_ENVIRONMENT = ("LC_ALL", "LANG")
_ZONE = re.compile(r"-D(user\.timezone)=(\S*)")


def jvm_locale(spark: SparkSession) -> str:
    """The language and country by which Java writes texts in capitals; and what executors were told of theirs."""
    own = str(static(spark._jvm, "java.util.Locale#getDefault")().toLanguageTag())
    return ", ".join([own, *_told_to_executors(spark, _LANGUAGE, _LANGUAGE_OF_ENVIRONMENT)])


def jvm_zone(spark: SparkSession) -> list[str]:
    """The time zone that Java has by itself, whatever the session's is; and what executors were told of theirs."""
    own = str(static(spark._jvm, "java.util.TimeZone#getDefault")().getID())
    return [own, *_told_to_executors(spark, _ZONE, ("TZ",))]


def _told_to_executors(spark: SparkSession, options: re.Pattern[str], environment: Iterable[str]) -> list[str]:
    conf = _context(spark)
    if _is_local(conf):
        return []
    every = " ".join(conf.get(f"spark.executor.{kind}JavaOptions", "") or "" for kind in ("default", "extra"))
    told = {**{name: conf.get(f"spark.executorEnv.{name}") for name in environment}, **dict(options.findall(every))}
    return [f"{name}={value}" for name, value in sorted(told.items()) if value]


def _context(spark: SparkSession) -> Any:
    """The context's configuration itself: getConf() is a copy, which takes two calls of the JVM for each setting."""
    return spark.sparkContext._conf


def _is_local(conf: Any) -> bool:
    return str(conf.get("spark.master", "")).split("[")[0] == "local"


# What says how many tasks a cluster runs at a time, where nothing else is said.
_CORES = ("spark.cores.max", "spark.executor.cores", "spark.executor.instances", "spark.dynamicAllocation.enabled")


def parallelism(spark: SparkSession) -> str:
    """Into how many parts rows are shared out where nothing else says so (SparkContext.defaultParallelism). A cluster's
    grows as its executors come: there what was asked of it."""
    conf = _context(spark)
    if _is_local(conf) or conf.get("spark.default.parallelism"):
        return str(spark.sparkContext.defaultParallelism)
    told = [f"{key}={value}" for key in _CORES if (value := conf.get(key))]
    return ", ".join(told) or "what the cluster has"


def show_py_files(spark: SparkSession) -> None:
    """Put ``--py-files`` on the path of the Python processes that the driver's JVM starts.

    Tasks are told what to import from (`worker_util.setup_spark_files`). The process in which Spark asks a
    StatefulProcessor for its state variables, when a query is planned and started, is not
    (`transform_with_state_driver_worker.main`): a processor of a module of --py-files ended with "No module named".
    Each gets the environment of its function. On executors elsewhere the folder is not there, and counts for nothing.
    """
    context = spark.sparkContext
    root = SparkFiles.getRootDirectory()  # single modules lie in it, archives are named
    paths = [root, *(os.path.join(root, name) for name in context._python_includes or ())]
    given = context.environment.get("PYTHONPATH", "").split(os.pathsep)
    context.environment["PYTHONPATH"] = os.pathsep.join(dict.fromkeys([*filter(None, given), *paths]))


def environment_of_workers(spark: SparkSession, name: str) -> str | None:
    """A variable that Spark gives its executors, and with them Python workers; None where it gives none."""
    value = _context(spark).get(f"spark.executorEnv.{name}")
    return None if value is None else str(value)


def _explicit(jvm: Any, conf: Any) -> dict[str, str]:
    """Return the explicit values of a configuration, by key."""
    return pairs(jvm, conf.getAllConfs().toSeq())


_LOGGED: dict[str, frozenset[str]] = {}


def _logged(spark: SparkSession) -> frozenset[str]:
    """Return the settings that the offset log holds (OffsetSeqMetadata.relevantSQLConfs)."""
    if spark.version not in _LOGGED:
        metadata = module(spark, f"{CHECKPOINTING}.OffsetSeqMetadata")
        _LOGGED[spark.version] = frozenset(str(entry.key()) for entry in sequence(metadata.relevantSQLConfs()))
    return _LOGGED[spark.version]


def _of_sql(key: str) -> bool:
    return key.startswith("spark.sql.") or not key.startswith("spark.")


def next_state_format(spark: SparkSession, recorded: int) -> int:
    """The checkpoint format a query will write that continues from a checkpoint in format `recorded`."""
    if adapter().keeps_state_format:
        return recorded
    return int(session_setting(spark, "spark.sql.streaming.stateStore.checkpointFormatVersion"))


def first_settings(spark: SparkSession) -> dict[str, str]:
    """Return the settings that a query's first batch records when Spark changes one: for a store without column
    families joins get a format without them, whatever the session asks for
    (MicroBatchExecution.applyJoinStateConfigGuardrails). Empty when it records the session's values. Otherwise all that
    are recorded: a missing one counts as that of an old Spark (OffsetSeqMetadata.setSessionConf: aggregates of format
    1)."""
    families = int(session_setting(spark, JOIN_FORMAT)) >= 3
    if not adapter().guards_join_format or not families or session_setting(spark, PROVIDER) == ROCKSDB:
        return {}
    return {**{key: session_setting(spark, key) for key in sorted(_logged(spark))}, JOIN_FORMAT: "2"}


def first_settings_with(spark: SparkSession, stores: Mapping[str, str]) -> dict[str, str]:
    """All that a query's first batch will record whose stores these settings say."""
    logged = {key: session_setting(spark, key) for key in sorted(_logged(spark))}
    return {**logged, **first_settings(spark), **stores}


def with_file_manager_for(checkpoint: str, session: Any) -> None:
    """A session's file manager is for where its checkpoints are (AbortableStreamBasedCheckpointFileManager, for object
    stores, refuses others); a folder on this machine gets Spark's own choice."""
    if checkpoint.startswith("file:"):
        session.conf().unset(FILE_MANAGER)
