"""The connection to the JVM (py4j's): its answers, and its SIGTERM.

In a pod the JVM alone gets the signal from the image's entry point (tini -s, then spark-submit). It would end at once,
in the middle of a batch.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from typing import Any

from py4j.clientserver import ClientServer
from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import SparkSession

from .jvm import java_class, static

_DONE = threading.local()  # the connection of each thread for which it was done


def disable_nagle(spark: SparkSession) -> None:
    """Have the JVM send its answers to this thread at once.

    It writes an answer of more than 8 KB in several pieces, py4j does not tell TCP to send the last one before those
    before it are acknowledged (Nagle's algorithm), and Linux puts that off for 40 ms: *measured*, 44 ms for an answer
    of 9 to 70 KB, and 0.1 to 0.4 ms with this. A plan takes several of these. Where threads have no connections of
    their own (PYSPARK_PIN_THREAD=false) it stays as it is.
    """
    gateway = spark.sparkContext._gateway
    if not isinstance(gateway, ClientServer):
        return
    client = gateway._gateway_client
    done = getattr(_DONE, "connection", lambda: None)()
    if done is not None and done is client.get_thread_connection():
        return
    # Not by PythonClient.getPerThreadConnection: Spark makes a new client for foreachBatch, which knows none.
    held = java_class(spark._jvm, "py4j.GatewayServer").getDeclaredField("connections")
    held.setAccessible(True)
    connection = client.get_thread_connection()  # there is one since these calls
    own = connection.socket.getsockname()[1]
    for each in held.get(gateway.java_gateway_server).toArray():
        socket = each.getSocket()  # None: its thread has ended, and it is not taken off the list yet
        if socket is not None and socket.getPort() == own:
            socket.setTcpNoDelay(True)
            _DONE.connection = weakref.ref(connection)


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
