"""python -m tests.fuzz N [SEED]: N pairs, the first of SEED, the next of SEED + 1 ..."""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from random import SystemRandom

from pyspark.sql import SparkSession

from .pair import NO_VERSION, run_pair
from .tally import Tally, shown

PROGRESS = 10


def main(arguments: list[str]) -> int:
    wanted = int(arguments[0])
    seed = int(arguments[1]) if len(arguments) > 1 and arguments[1] else SystemRandom().randrange(10**6)
    print(f"{wanted} pairs from seed {seed}", flush=True)
    began = time.monotonic()
    tally = Tally()
    spark = session()
    with tempfile.TemporaryDirectory(prefix="streamupdate-fuzz-") as scratch:
        while tally.pairs < wanted:
            outcome = run_pair(spark, seed, Path(scratch) / str(seed))
            failures = len(tally.failures)
            tally.add(outcome)
            for failure in tally.failures[failures:]:
                print("\n".join(shown(failure)), flush=True)
            if outcome.kind != NO_VERSION and tally.pairs % PROGRESS == 0:
                print(
                    f"{tally.pairs} pairs, {len(tally.failures)} failures, {time.monotonic() - began:.0f} s", flush=True
                )
            seed += 1
        spark.stop()
    print("\n".join(tally.lines(time.monotonic() - began)))
    return 0 if tally.passed else 1


def session() -> SparkSession:
    """Like that of the tests (tests/spark/conftest.py)."""
    made = (
        SparkSession.builder.master("local[2]")
        .appName("fuzz")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .getOrCreate()
    )
    made.sparkContext.setLogLevel("OFF")
    return made


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
