"""Settings of a session, as Spark reads them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pyspark.sql import SparkSession

from .jvm import module, scala_map
from .version import adapter_of

FILE_MANAGER = "spark.sql.streaming.checkpointFileManagerClass"


def session_setting(spark: SparkSession, key: str) -> str:
    """A setting of the session, with Spark's default when it is not set."""
    return str(spark._jsparkSession.sessionState().conf().getConfString(key))


def effective_settings(spark: SparkSession, keys: Iterable[str]) -> dict[str, str]:
    """What the session has, with Spark's defaults, in one form (``true``, ``CORRECTED``, bytes as a number). Keys that
    this Spark does not know are left out."""
    return _read(spark, keys, spark._jsparkSession.sessionState().conf())


def changed_settings(spark: SparkSession, keys: Iterable[str]) -> tuple[str, ...]:
    """Those of the keys whose value in the session is not this Spark's default."""
    conf = spark._jsparkSession.sessionState().conf()
    given = scala_map(conf.getAllConfs())
    found = [key for key in keys if key in given]
    defaults = _read(spark, found, spark._jvm.org.apache.spark.sql.internal.SQLConf())
    return tuple(key for key, value in _read(spark, found, conf).items() if value != defaults[key])


def _read(spark: SparkSession, keys: Iterable[str], conf: Any) -> dict[str, str]:
    registry, reader = module(spark, "org.apache.spark.sql.internal.SQLConf"), conf.reader()
    found = {}
    for key in keys:
        entry = registry.getConfigEntry(key)
        if entry is not None:
            value = entry.readFrom(reader)
            found[key] = str(value).lower() if isinstance(value, bool) else str(value)
    return found


def given_settings(spark: SparkSession, keys: Iterable[str]) -> dict[str, str]:
    """Those of the settings that the session was given (in its configuration or in code), not left at their default."""
    conf = spark._jsparkSession.sessionState().conf()
    return {key: str(conf.getConfString(key)) for key in keys if conf.contains(key)}


def next_state_format(spark: SparkSession, recorded: int) -> int:
    """The checkpoint format a query will write that continues from a checkpoint in format `recorded`."""
    if adapter_of(spark).KEEPS_STATE_FORMAT:
        return recorded
    return int(session_setting(spark, "spark.sql.streaming.stateStore.checkpointFormatVersion"))


def with_file_manager_for(checkpoint: str, session: Any) -> None:
    """A session's file manager is for where its checkpoints are (AbortableStreamBasedCheckpointFileManager, for object
    stores, refuses others); a folder on this machine gets Spark's own choice."""
    if checkpoint.startswith("file:"):
        session.conf().unset(FILE_MANAGER)
