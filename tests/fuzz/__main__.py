"""python -m tests.fuzz N [SEED]: N pairs, the first of SEED, the next of SEED + 1 ..."""

from __future__ import annotations

import signal
import sys
import tempfile
import time
from pathlib import Path
from random import SystemRandom

from pyspark.sql import SparkSession

from .pair import NO_VERSION, RIGHT, Outcome, run_pair
from .tally import Tally, shown

PROGRESS = 10
# Every pair makes code that runs for a second: thorough compilation costs more than it brings.
JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def main(arguments: list[str]) -> int:
    wanted = int(arguments[0])
    seed = int(arguments[1]) if len(arguments) > 1 and arguments[1] else SystemRandom().randrange(10**6)
    print(f"{wanted} pairs from seed {seed}", flush=True)
    began = time.monotonic()
    tally = Tally()
    stopping: list[int] = []  # told to end, it finishes the pair at hand: nothing is left behind, the rest summed up
    signal.signal(signal.SIGTERM, lambda number, _: stopping.append(number))
    spark = session()
    try:
        with tempfile.TemporaryDirectory(prefix="streamupdate-fuzz-") as scratch:
            while tally.pairs < wanted and not stopping:
                outcome = run_pair(spark, seed, Path(scratch) / str(seed))
                tally.add(outcome)
                _show_progress(outcome, tally, time.monotonic() - began)
                seed += 1
    except BaseException:
        print(f"the fuzz itself ended at SEED={seed}", flush=True)
        raise
    finally:
        print("\n".join(tally.lines(time.monotonic() - began)), flush=True)
        spark.stop()
    return 0 if tally.passed and tally.pairs == wanted else 1


def _show_progress(outcome: Outcome, tally: Tally, seconds: float) -> None:
    if outcome.kind not in (RIGHT, NO_VERSION):
        print("\n".join(shown(outcome)), flush=True)
    if outcome.kind != NO_VERSION and tally.pairs % PROGRESS == 0:
        print(f"{tally.pairs} pairs, {len(tally.failures)} failures, {seconds:.0f} s", flush=True)


def session() -> SparkSession:
    """Like that of the tests (tests/spark/conftest.py)."""
    made = (
        SparkSession.builder.master("local[2]")
        .appName("fuzz")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.driver.extraJavaOptions", JAVA)
        .getOrCreate()
    )
    made.sparkContext.setLogLevel("OFF")
    return made


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
