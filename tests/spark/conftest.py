"""One Spark session for all tests here; each test has its own folder, apps and checkpoints."""

from __future__ import annotations

import os
import sys

import pytest
from local_files import local_files
from pyspark.sql import SparkSession

os.environ.setdefault("PYSPARK_PYTHON", sys.executable)


@pytest.fixture(scope="session")
def spark_session():
    session = (
        SparkSession.builder.master("local[2]")
        .appName("tests")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "2")
        .config(map=local_files())
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
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
