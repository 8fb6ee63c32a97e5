"""SIGTERM to a driver's JVM. In a pod nobody else gets it: the image's entry point (tini -s, then spark-submit) hands
it to the JVM alone, which would end at once, in the middle of a batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import SparkSession

from .jvm import static

# What Spark adds to the properties of a driver in a pod (Config.KUBERNETES_DRIVER_SUBMIT_CHECK)
_IN_POD = "spark.kubernetes.submitInDriver"


class _Handler:
    """A sun.misc.SignalHandler (module jdk.unsupported, which every JDK 17 and 21 has)."""

    class Java:
        implements = ("sun.misc.SignalHandler",)

    def __init__(self, then: Callable[[], None]) -> None:
        self._then = then

    def handle(self, _signal: Any) -> None:
        self._then()


def on_termination(spark: SparkSession, then: Callable[[], None]) -> None:
    """Have SIGTERM call `then` in a thread of its own and end nothing by itself, when in a pod. Elsewhere change
    nothing: the signal reaches this process, too."""
    if spark.conf.get(_IN_POD, "false") != "true":
        return
    ensure_callback_server_started(spark.sparkContext._gateway)
    number = spark._jvm.sun.misc.Signal("TERM")
    static(spark._jvm, "sun.misc.Signal#handle")(number, _Handler(then))
