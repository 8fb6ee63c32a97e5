"""The settings on which a query's results depend: those of its session, and of the machine that it runs on."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import attrs
from pyspark.sql import SparkSession

from ....core.compatibility.rules.settings.setting import harmless
from ....core.compatibility.rules.settings.settings_table import MEASURED
from ....core.plan.plan import JVM_LOCALE, JVM_ZONE, PARALLELISM, PYTHON_ZONE, TIME_ZONE
from ....core.plan.state_stores import PARTITIONS, PROVIDER, store_settings
from ....core.secret_names import redacted_in_plan
from ... import spark_internals
from ..expressions.expression import zone

_LOCAL_ZONE = Path("/etc/localtime")


@attrs.frozen(kw_only=True)
class QuerySettings:
    """The settings of a query."""

    results: dict[str, str]  # those that change results, and the machine's
    others: dict[str, str]  # what else the query's own session was given (an app may make several sessions)
    hadoop: dict[str, str]
    stores: dict[str, str]  # the state stores and their partitions
    first: dict[str, str]  # those of the query's next batch


def query_settings(spark: SparkSession, recorded: dict[str, str]) -> QuerySettings:
    """Return the settings of a query in this session. recorded: those in its offset log"""
    results = spark_internals.effective_settings(spark, MEASURED)
    results[TIME_ZONE] = zone(results[TIME_ZONE])
    results |= _surroundings(spark)
    others = {k: v for k, v in spark_internals.other_settings(spark).items() if k not in results}
    hadoop = {k: v for k, v in spark_internals.hadoop_settings(spark).items() if not harmless(k)}
    given = spark_internals.given_settings(spark, (PROVIDER, PARTITIONS))
    return QuerySettings(
        results=results,
        others=redacted_in_plan(others),
        hadoop=redacted_in_plan(hadoop),
        stores={
            key: given.get(key) or recorded.get(key) or spark_internals.session_setting(spark, key)
            for key in (PROVIDER, PARTITIONS)
        },
        first=_first(spark, recorded, given),
    )


def _first(spark: SparkSession, recorded: dict[str, str], given: dict[str, str]) -> dict[str, str]:
    if not recorded:
        return spark_internals.first_settings(spark)
    if store_settings(recorded) == recorded:  # of a plan that no run has followed yet: no log has so little
        return {**spark_internals.first_settings_with(spark, recorded), **given}
    return {**recorded, **given}


def _surroundings(spark: SparkSession) -> dict[str, str]:
    """Return the machine's settings, under names that Spark does not use."""
    given = spark_internals.environment_of_workers(spark, "TZ")
    return {
        PYTHON_ZONE: zone(given if given is not None else python_zone()),
        JVM_LOCALE: spark_internals.jvm_locale(spark),
        JVM_ZONE: ", ".join(map(zone, spark_internals.jvm_zone(spark))),
        PARALLELISM: spark_internals.parallelism(spark),
    }


def python_zone() -> str:
    """The zone by which Python tells the time of day, whatever the session's is: a timestamp comes to a function
    without a zone, in local time (TimestampType.fromInternal)."""
    if (told := os.environ.get("TZ")) is not None:
        return told.removeprefix(":") or "UTC"
    if not _LOCAL_ZONE.exists():
        return "UTC"
    _, found, name = str(_LOCAL_ZONE.resolve()).partition("/zoneinfo/")
    return name if found else f"#{hashlib.sha256(_LOCAL_ZONE.read_bytes()).hexdigest()[:8]}"
