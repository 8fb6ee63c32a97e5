"""One Spark session for all tests here; each test has its own folder, apps and checkpoints."""

from __future__ import annotations

import os
import sys

import pytest
from java_names import remember_java_names
from local_files import delete_in_java, local_files, scratch_files
from pyspark.sql import SparkSession

from airflow_provider_streamupdate.streaming.spark_internals.queries import dry_runs

os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
remember_java_names()

# How plans are run, not what they are nor what they give: small plans are interpreted faster than compiled.
RUN_AT_ONCE = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
    "spark.driver.memory": "2g",
    "spark.driver.extraJavaOptions": "-Xmn600m",
}


@pytest.fixture(scope="session")
def spark_session():
    session = (
        SparkSession.builder.master("local[2]")
        .appName("tests")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "2")
        .config(map={**RUN_AT_ONCE, **local_files()})
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    delete_in_java(session)
    dry_runs._SCRATCH.update(scratch_files())  # they choose a file system of their own
    yield session
    session.stop()


@pytest.fixture
def spark(spark_session):
    """The session with its streaming configuration as new afterwards, and no query left behind."""
    before = dict(spark_session.conf.getAll)
    yield spark_session
    for query in spark_session.streams.active:
        query.stop()
    for key, value in spark_session.conf.getAll.items():
        if key in before and before[key] != value:
            spark_session.conf.set(key, before[key])
        elif key not in before:
            spark_session.conf.unset(key)
