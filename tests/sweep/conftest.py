"""One Spark session, shared with tests/spark when both run in one process."""

from __future__ import annotations

import os
import sys

import pytest
from pyspark.sql import SparkSession

from tests.sweep.judge import SESSION

os.environ.setdefault("PYSPARK_PYTHON", sys.executable)


@pytest.fixture(scope="session")
def sweep_spark():
    builder = SparkSession.builder.master("local[1]").appName("sweep")
    if SparkSession.getActiveSession() is None:
        for key, value in SESSION.items():
            builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    yield spark
    spark.stop()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The settings' sweep begins the session: what notes which settings are read has to be on its class path."""
    items.sort(key=lambda item: "test_settings_sweep" not in str(item.path))
