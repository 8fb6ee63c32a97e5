"""The fuzz's Spark session."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping

from pyspark.sql import SparkSession

from tests.spark.local_files import local_files

# Every pair makes code that runs for a second: thorough compilation costs more than it brings.
JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def session() -> SparkSession:
    """Like that of the tests (tests/spark/conftest.py)."""
    made = (
        SparkSession.builder.master("local[2]")
        .appName("fuzz")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.driver.extraJavaOptions", JAVA)
        .config(map=local_files())
        .getOrCreate()
    )
    made.sparkContext.setLogLevel("OFF")
    return made


@contextlib.contextmanager
def setting(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """The session under these, and as it was before at the end."""
    before = {key: spark.conf.get(key, None) for key in settings}
    try:
        for key, value in settings.items():
            spark.conf.set(key, value)
        yield
    finally:
        for key, was in before.items():
            if was is None:
                spark.conf.unset(key)
            else:
                spark.conf.set(key, was)
