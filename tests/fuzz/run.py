"""The pair of a seed: one whose oracle is plain Python, then one that is drawn from the sweeps, and so on; every third
one goes through the real hand-over."""

from __future__ import annotations

import contextlib
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from .drawn.run import run_drawn
from .outcome import Outcome
from .pair import run_pair

SECONDS = 300  # of a pair: one that hangs is told, and the next one run


def run(spark: SparkSession, seed: int, folder: Path) -> Outcome:
    """Run it in `folder`, which is removed again."""
    folder.mkdir(parents=True)
    before = _settings(spark)
    try:
        with _deadline(seed):
            return (run_drawn if seed % 2 else run_pair)(spark, seed, folder, handed_over=seed % 3 == 0)
    finally:
        for query in spark.streams.active:
            query.stop()
        spark._jvm.org.apache.spark.sql.execution.streaming.state.StateStore.stop()
        _restore(spark, before)
        shutil.rmtree(folder, ignore_errors=True)


def _settings(spark: SparkSession) -> dict[str, str]:
    """What may be set while it runs, of what it was given."""
    return {key: value for key, value in spark.conf.getAll.items() if spark.conf.isModifiable(key)}


def _restore(spark: SparkSession, settings: dict[str, str]) -> None:
    """A pair leaves nothing to the next one: what a seed shows, it shows alone."""
    for key in _settings(spark).keys() - settings.keys():
        spark.conf.unset(key)
    for key, value in settings.items():
        spark.conf.set(key, value)


@contextlib.contextmanager
def _deadline(seed: int) -> Iterator[None]:
    def stop(number: int, frame: Any) -> None:
        raise TimeoutError(f"the pair of seed {seed} did not end in {SECONDS} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
