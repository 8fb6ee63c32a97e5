"""Spark's own registry: its SQL settings with the values worth trying, and the examples of its built-in functions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import attrs
from pyspark.sql import SparkSession

from airflow_provider_streamupdate.streaming.spark_internals.jvm import module

SQLCONF = "org.apache.spark.sql.internal.SQLConf"

# Numbers to try of a setting that takes one: none at all, few, one that switches off, and many.
NUMBERS = ("0", "1", "2", "7", "-1", "100000")
# Texts, where a value can be named. The rest of the texts are left out (`left_out` says so).
TEXTS = {
    "spark.sql.session.timeZone": ("Asia/Tokyo", "UTC"),
    "spark.sql.columnNameOfCorruptRecord": ("broken",),
    "spark.sql.sources.default": ("json",),
    "spark.sql.optimizer.excludedRules": (
        "org.apache.spark.sql.catalyst.optimizer.ConstantFolding",
        "org.apache.spark.sql.catalyst.optimizer.PushDownPredicates",
    ),
    "spark.sql.adaptive.optimizer.excludedRules": (
        "org.apache.spark.sql.execution.adaptive.AQEPropagateEmptyRelation",
    ),
    "spark.sql.sources.useV1SourceList": ("",),
    "spark.sql.optimizer.nestedPredicatePushdown.supportedFileSources": ("",),
    "spark.sql.files.ignoredPathSegmentRegex": ("^[.]", "^[._b]"),
    "spark.sql.streaming.disabledV2MicroBatchReaders": (
        "org.apache.spark.sql.execution.streaming.sources.RateStreamProvider",
    ),
    "spark.sql.defaultColumn.allowedProviders": ("csv",),
    "spark.sql.timeTravelTimestampKey": ("asOf",),
    "spark.sql.redaction.options.regex": (".*",),
    "spark.sql.redaction.string.regex": (".*",),
    "spark.sql.parquet.compression.codec": ("gzip", "none"),
    "spark.sql.orc.compression.codec": ("none",),
    "spark.sql.execution.arrow.compression.codec": ("lz4",),
    "spark.sql.variant.forceShreddingSchemaForTest": ("a int",),
    "spark.sql.functionResolution.sessionOrder": ("first", "last"),
    "spark.sql.execution.pandas.structHandlingMode": ("row", "dict"),
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    ),
    "spark.sql.streaming.multipleWatermarkPolicy": ("max",),
    "spark.sql.streaming.stateStore.encodingFormat": ("avro",),
    "spark.sql.streaming.stateStore.compression.codec": ("zstd",),
    "spark.sql.streaming.internal.stateStore.partitions": ("3",),
    "spark.sql.orc.impl": ("hive",),
    "spark.sql.codegen.compiler": ("jdk",),
}


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


def examples(spark: SparkSession) -> Iterator[tuple[str, str]]:
    """(function, statement) of the registry of functions, as their authors wrote them (ExpressionInfo.getExamples)."""
    catalog = spark._jsparkSession.sessionState().catalog()
    registry = spark._jsparkSession.sessionState().functionRegistry()
    tables = spark._jsparkSession.sessionState().tableFunctionRegistry()
    del catalog
    for known in (registry, tables):
        names = known.listFunction()
        for index in range(names.size()):
            name = names.apply(index)
            info = known.lookupFunction(name)
            for part in str(info.get().getExamples()).split("\n      > ")[1:]:
                if statement := re.match(r"(?s)(.+?);\s*(\n|$)", part):
                    yield str(name.funcName()), statement[1].strip()
