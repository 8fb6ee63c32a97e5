"""Answers of the JVM come without delay."""

from __future__ import annotations

import threading
import time

from pyspark.java_gateway import ensure_callback_server_started

from airflow_provider_streamupdate.streaming.spark_internals import disable_nagle


def test_a_long_answer_comes_as_soon_as_it_is_made(spark):
    ensure_callback_server_started(spark.sparkContext._gateway)  # as for foreachBatch
    long = spark._jvm.java.lang.StringBuilder("x" * 20_000)
    found = []

    def work() -> None:  # a thread has a connection of its own
        disable_nagle(spark)
        found.append(min(_seconds(long.toString) for _ in range(5)))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found[0] < 0.02  # held back, each took 0.04


def _seconds(work):
    before = time.perf_counter()
    work()
    return time.perf_counter() - before
