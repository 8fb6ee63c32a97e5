"""python -m tests.fuzz N [SEED] [RESULTS]: N pairs, the first of SEED, the next of SEED + 1 ...

RESULTS is a file with a line for each pair. A run that was cut goes on with it: what is there counts and is not run
again, and without SEED it goes on with its seeds.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from random import SystemRandom

from pyspark.sql import SparkSession

from .outcome import NO_VERSION, RIGHT
from .run import run
from .session import session
from .tally import Record, Tally, append_record, read_records, shown

PROGRESS = 10


def main(arguments: list[str]) -> int:
    wanted, given, file = int(arguments[0]), *(*arguments[1:], "", "")[:2]
    results = Path(file) if file else None
    tally = Tally(read_records(results) if results else [])
    seed = int(given) if given else min((r.seed for r in tally.records), default=SystemRandom().randrange(10**6))
    print(f"{wanted} pairs from seed {seed}, {len(tally.pairs)} there", flush=True)
    code, began = _code(), time.monotonic()
    stopping: list[int] = []  # told to end, it finishes the pair at hand: nothing is left behind, the rest summed up
    signal.signal(signal.SIGTERM, lambda number, _: stopping.append(number))
    spark = session()
    try:
        with tempfile.TemporaryDirectory(prefix="streamupdate-fuzz-") as scratch:
            while len(tally.pairs) < wanted and not stopping:
                if not any(r.seed == seed for r in tally.records):
                    _run(spark, seed, Path(scratch) / str(seed), code, tally, results)
                    _show_progress(tally, time.monotonic() - began)
                seed += 1
    except BaseException:
        print(f"the fuzz itself ended at SEED={seed}", flush=True)
        raise
    finally:
        print("\n".join(tally.lines()), flush=True)
        spark.stop()
    return 0 if tally.passed and len(tally.pairs) >= wanted else 1


def _run(spark: SparkSession, seed: int, folder: Path, code: str, tally: Tally, results: Path | None) -> None:
    began = time.monotonic()
    outcome = run(spark, seed, folder)
    record = Record.of(outcome, code, time.monotonic() - began)
    tally.records.append(record)
    if results:
        append_record(results, record)
    if outcome.kind not in (RIGHT, NO_VERSION):
        print("\n".join(shown(outcome)), flush=True)


def _show_progress(tally: Tally, seconds: float) -> None:
    if tally.records[-1].kind != NO_VERSION and len(tally.pairs) % PROGRESS == 0:
        print(f"{len(tally.pairs)} pairs, {len(tally.failures)} failures, {seconds:.0f} s", flush=True)


def _code() -> str:
    """The commit, with a mark when there are changes to it; unknown outside a clone."""
    made = subprocess.run(
        ["git", "describe", "--always", "--dirty", "--exclude=*"], capture_output=True, text=True, check=False
    )
    return made.stdout.strip() or "unknown"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
