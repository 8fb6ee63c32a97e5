"""Work of the JVM beside what goes on in Python."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import TypeVar

from pyspark import InheritableThread
from pyspark.sql import SparkSession

from .jvm import activate

_Result = TypeVar("_Result")


@contextlib.contextmanager
def beside(spark: SparkSession, work: Callable[[], _Result]) -> Iterator[Future[_Result]]:
    """Work in a thread of its own, with the session as its active one. The block does not end before the work; an error
    of the block's own comes first.

    The work should wait for the JVM most of the time: Python runs one thread at a time.
    """
    done: Future[_Result] = Future()

    def run() -> None:
        try:
            activate(spark)
            done.set_result(work())
        except BaseException as error:
            done.set_exception(error)

    thread = InheritableThread(target=run, name="streamupdate-beside", daemon=True)
    thread.start()
    try:
        yield done
    finally:
        thread.join()
