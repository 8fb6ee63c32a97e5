"""What a query's results depend on beside the settings of its session: the machine that it runs on."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from pyspark.sql import SparkSession

from ....core.plan.plan import JVM_LOCALE, JVM_ZONE, PARALLELISM, PYTHON_ZONE
from ... import spark_internals
from ..expressions.expression import zone

_LOCAL_ZONE = Path("/etc/localtime")


def surroundings(spark: SparkSession) -> dict[str, str]:
    """Return what the machine says, by names that are no settings of Spark."""
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
