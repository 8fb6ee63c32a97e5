"""Settings of a session, as Spark reads them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pyspark.sql import SparkSession

from .version import adapter_of

FILE_MANAGER = "spark.sql.streaming.checkpointFileManagerClass"


def session_setting(spark: SparkSession, key: str) -> str:
    """A setting of the session, with Spark's default when it is not set."""
    return str(spark._jsparkSession.sessionState().conf().getConfString(key))


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
