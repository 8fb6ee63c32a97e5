"""The sweep on the command line: ``python -m tests.sweep --seed 1 --functions in,like``, for example."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

from pyspark.sql import SparkSession

from tests.sweep.judge import SESSION, Judged, verdict
from tests.sweep.sweep import listed, report, sweep


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.sweep", description=__doc__)
    parser.add_argument("--seed", type=int, default=int(time.time()), help="of rows and of the changes drawn")
    parser.add_argument("--most", type=int, default=12, help="changes of one seed expression, at most")
    parser.add_argument("--functions", default="", help="only these, with commas between")
    parser.add_argument("--seeds", type=int, default=8, help="seed expressions of one function, at most")
    parser.add_argument("--ansi", default="true", choices=("true", "false"))
    parser.add_argument("--out", type=Path, help="all that was judged, as JSON")
    given = parser.parse_args()
    builder = SparkSession.builder.master("local[1]").appName("sweep")
    for key, value in SESSION.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    try:
        with tempfile.TemporaryDirectory(prefix="sweep-") as folder:
            only = [f for f in given.functions.split(",") if f]

            def progress(judged: list[Judged]) -> None:
                print(f"{time.strftime('%X')} {len(judged)} expressions", file=sys.stderr)
                if given.out:
                    given.out.write_text(json.dumps(listed(verdict(judged)), indent=1))

            done = sweep(spark, folder, given.seed, given.most, given.seeds, given.ansi, only, progress)
        print(report(done))
        if given.out:
            given.out.write_text(json.dumps(listed(done.verdict), indent=1))
        return 1 if done.verdict.wrong or done.verdict.unequal else 0
    finally:
        spark.stop()


if __name__ == "__main__":
    sys.exit(main())
