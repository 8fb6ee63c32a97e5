"""Spark's own registry of SQL settings, with the values worth trying."""

from __future__ import annotations

import re
from typing import Any

import attrs
from pyspark.sql import SparkSession

from airflow_provider_streamupdate.streaming.spark_internals.jvm import module

SQLCONF = "org.apache.spark.sql.internal.SQLConf"

# Numbers to try of a setting that takes one: none at all, few, one that switches off, and many.
NUMBERS = ("0", "1", "2", "7", "-1", "100000")
# Texts, where a value can be named. The rest of the texts are left out (`left_out` says so).
TEXTS = {f"spark.sql.{key}": values for key, values in {
    "session.timeZone": ("Asia/Tokyo", "UTC"),
    "columnNameOfCorruptRecord": ("broken",),
    "sources.default": ("json",),
    "optimizer.excludedRules": tuple(
        f"org.apache.spark.sql.catalyst.optimizer.{rule}" for rule in ("ConstantFolding", "PushDownPredicates")),
    "adaptive.optimizer.excludedRules": ("org.apache.spark.sql.execution.adaptive.AQEPropagateEmptyRelation",),
    "sources.useV1SourceList": ("",),
    "optimizer.nestedPredicatePushdown.supportedFileSources": ("",),
    "files.ignoredPathSegmentRegex": ("^[.]", "^[._b]"),
    "streaming.disabledV2MicroBatchReaders": ("org.apache.spark.sql.execution.streaming.sources.RateStreamProvider",),
    "defaultColumn.allowedProviders": ("csv",),
    "timeTravelTimestampKey": ("asOf",),
    "redaction.options.regex": (".*",),
    "redaction.string.regex": (".*",),
    "parquet.compression.codec": ("gzip", "none"),
    "orc.compression.codec": ("none",),
    "execution.arrow.compression.codec": ("lz4",),
    "variant.forceShreddingSchemaForTest": ("a int",),
    "functionResolution.sessionOrder": ("first", "last"),
    "execution.pandas.structHandlingMode": ("row", "dict"),
    "streaming.stateStore.providerClass": ("org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",),
    "streaming.multipleWatermarkPolicy": ("max",),
    "streaming.stateStore.encodingFormat": ("avro",),
    "streaming.stateStore.compression.codec": ("zstd",),
    "streaming.internal.stateStore.partitions": ("3",),
    "orc.impl": ("hive",),
    "codegen.compiler": ("jdk",),
}.items()}  # fmt: skip


@attrs.frozen(kw_only=True)
class Setting:
    """kind: ``boolean``, ``number``, ``enumeration`` or ``text``; values: those to try; reason: why there are none"""

    key: str
    default: str
    kind: str
    public: bool
    values: tuple[str, ...] = ()
    reason: str = ""


def settings(spark: SparkSession) -> list[Setting]:
    """All of SQLConf's registry, internal ones too, in the order of their keys."""
    spark.sql("SET -v").collect()  # has Spark load what registers more
    conf = module(spark, SQLCONF)
    found = {str(entry.key()): entry for entry in conf.getConfigEntries().toArray()}
    scratch = spark.newSession()
    return [_setting(scratch, conf, key, found[key]) for key in sorted(found)]


def _setting(scratch: SparkSession, conf: Any, key: str, entry: Any) -> Setting:
    default, public = str(entry.defaultValueString()), bool(entry.isPublic())
    if conf.isStaticConfigKey(key):
        return Setting(
            key=key, default=default, kind="static", public=public, reason="static: cannot be set in a session"
        )
    kind, options = _kind(scratch, key)
    tried = {"boolean": ("true", "false"), "number": NUMBERS, "enumeration": options}.get(kind, TEXTS.get(key, ()))
    effective = effective_value(scratch, key)
    values = tuple(v for v in (TEXTS.get(key) or tried) if v != effective and _takes(scratch, key, v))
    reason = "" if values else "free text" if kind == "text" else "no other value is accepted"
    return Setting(key=key, default=default, kind=kind, public=public, values=values, reason=reason)


def effective_value(session: SparkSession, key: str) -> str | None:
    """What Spark reads: set, else a default, else that of the setting it falls back on. None when it has none."""
    try:
        value = str(session._jsparkSession.sessionState().conf().getConfString(key))
    except Exception:
        return None
    return None if value == "<undefined>" else value


def _kind(scratch: SparkSession, key: str) -> tuple[str, tuple[str, ...]]:
    try:
        scratch.conf.set(key, "no-such-value")
    except Exception as error:
        text = str(error)
        if options := re.search(r"should be one of '(.*?)'", text):
            return "enumeration", tuple(sorted(o.strip() for o in options[1].split(",")))
        if "'boolean' value" in text:
            return "boolean", ()
        if _takes(scratch, key, "1") and not _takes(scratch, key, "true"):
            return "number", ()
        if _takes(scratch, key, "true") and not _takes(scratch, key, "1"):
            return "boolean", ()
        return "text", ()
    scratch.conf.unset(key)
    return "text", ()


def _takes(scratch: SparkSession, key: str, value: str) -> bool:
    try:
        scratch.conf.set(key, value)
    except Exception:
        return False
    scratch.conf.unset(key)
    return True
