"""The pause of an update: from the old version's last committed batch to the new one's first, by strategy and number of
keys in the state. One ordinary batch interval (0.5 s) is part of every Spark row.

    naive         spark-submit of the same script on the same checkpoint, after SIGTERM (no update at all: no check,
                  no snapshot, no new plan)
    naive-beside  spark-submit of the same script, on an empty checkpoint, beside the running version: no update, but
                  what a new driver beside an old one takes to its first commit
    same-session  the query is stopped and started in its driver (what no new version can have: the floor)
    restart, standby, follow   `streamupdate update` with that strategy
    flink-cli, flink-canonical, flink-native   keyed counts of the same files in Flink: stop with savepoint and run from
                  it, on its command line (canonical) and over REST; the driver's part (the cluster) stays up. From the
                  last output record to the first, whether or not it is committed.
    airflow       standby through DAG stream_update of a real Airflow with default settings; standby-airflow-up: the
                  command line's code beside it

Spark's times are those of the commit log's files. The rows of a kind are taken in turns, so that the machine's moods
meet all. A second table has the time from the command (or the DAG's trigger) until the new version is live, which is
its first commit; a third one until it was promoted; for naive both are from spark-submit to its first commit. Every
update is appended to --results as a line of JSON; --report shows all of them.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
from airflow_rows import AIRFLOW, BESIDE_AIRFLOW, Scheduled
from feed import FILE_ROWS, FIRST_FILE, Feed
from flink_rows import CANONICAL, CLI, NATIVE, FlinkCluster, FlinkJob, find_flink
from pause_report import Report
from spark_rows import NAIVE, NAIVE_BESIDE, SAME_SESSION, Managed, Plain

from airflow_provider_streamupdate.control.update.strategies.follow import Follow
from airflow_provider_streamupdate.control.update.strategies.restart import Restart
from airflow_provider_streamupdate.control.update.strategies.standby import Standby
from airflow_provider_streamupdate.core import clock

ROOT = Path(__file__).resolve().parents[1]
FIRST_BYTES = 500_000_000  # of payload, in each file that brings all keys
# A file with payload: 1 MB a second of new state. With ten times as much, 5 GB of state filled a disk of 46 GB in four
# minutes (measured): RocksDB compacts it again and again, and Spark and the snapshots keep what was before.
PAYLOAD_ROWS = 20
KINDS: dict[type[Plain | Managed | FlinkJob], tuple[str, ...]] = {
    Plain: (NAIVE, SAME_SESSION),
    Managed: (NAIVE_BESIDE, Restart.name, Standby.name, Follow.name),
    Scheduled: (BESIDE_AIRFLOW, AIRFLOW),
    FlinkJob: (CLI, CANONICAL, NATIVE),
}
ROWS = [row for rows in KINDS.values() for row in rows]


def measure(
    keys: int,
    rows: list[str],
    repeats: int,
    spark_submit: str,
    master: str,
    results: Path,
    payload: int = 0,
    payload_rows: int = PAYLOAD_ROWS,
) -> None:
    """Append the wanted rows' updates to the results."""
    for kind, its_rows in KINDS.items():
        wanted = [row for row in its_rows if row in rows]
        if not wanted:
            continue
        with running(kind, keys, spark_submit, master, payload, payload_rows) as app:
            for _ in range(repeats):
                for row in wanted:
                    load = os.getloadavg()[0]
                    record = {"at": clock.now(), "row": row, "keys": keys, "seconds": round(app.update(row), 3)}
                    record["load"] = round(load, 2)
                    if payload:
                        record |= {"payload": payload, "payload_rows": payload_rows}
                    if not isinstance(app, FlinkJob) and app.whole is not None:
                        record["whole"] = round(app.whole, 3)
                    if isinstance(app, Managed) and app.live is not None:
                        record["live"] = round(app.live, 3)
                    if isinstance(app, Managed) and row not in (NAIVE_BESIDE, Restart.name):
                        record["parts"] = app.parts()
                    with open(results, "a") as file:
                        file.write(json.dumps(record) + "\n")
                    print(f"{keys:,} keys, {row}: {record['seconds']:.2f} s", file=sys.stderr)


@contextmanager
def running(
    kind: type[Plain | Managed | FlinkJob],
    keys: int,
    spark_submit: str,
    master: str,
    payload: int = 0,
    payload_rows: int = PAYLOAD_ROWS,
) -> Iterator[Plain | Managed | FlinkJob]:
    """The app or job, with all keys counted, in a folder that is removed afterwards."""
    with tempfile.TemporaryDirectory(prefix="streamupdate-pause-", ignore_cleanup_errors=True) as scratch:
        folder = Path(scratch)
        sizes = (FIRST_BYTES // payload, payload_rows) if payload else (FIRST_FILE, FILE_ROWS)
        with Feed(folder / "in", keys, *sizes) as feed:
            if issubclass(kind, FlinkJob):
                with FlinkCluster(find_flink(ROOT / ".venv-flink"), folder) as cluster:
                    yield kind(cluster, folder, feed)
                return
            more: dict[str, Any] = {"payload": payload} if payload else {}
            app = kind(folder, feed, spark_submit, master, **more)
            try:
                app.settle()
                yield app
            finally:
                app.end()


@click.command(help=__doc__)
@click.option("--keys", default="10000,1000000,5000000", show_default=True, help="Sizes of the state, by commas.")
@click.option("--only", default=",".join(ROWS), show_default=True, help="Rows, by commas.")
@click.option("--repeats", default=5, show_default=True, help="Updates a row and size; 0: only report.")
@click.option(
    "--payload",
    default=0,
    show_default=True,
    help="Bytes of state for each key beside its count; of the rows of this package only.",
)
@click.option(
    "--payload-rows",
    default=PAYLOAD_ROWS,
    show_default=True,
    help="Rows of each file with payload, of which five come a second: how fast large state changes.",
)
@click.option("--master", default="local[2]", show_default=True)
@click.option("--spark-submit", default=str(ROOT / ".venv-spark" / "bin" / "spark-submit"), show_default=True)
@click.option("--results", type=click.Path(path_type=Path), default=Path("pause.jsonl"), show_default=True)
@click.option("--report", type=click.Path(path_type=Path), help="Where the plot goes (SVG); the tables are printed.")
def main(
    keys: str,
    only: str,
    repeats: int,
    payload: int,
    payload_rows: int,
    master: str,
    spark_submit: str,
    results: Path,
    report: Path | None,
) -> None:
    rows = only.split(",")
    big = [row for row in KINDS[Managed] if row != NAIVE_BESIDE]
    if payload and (other := [row for row in rows if row not in big]):
        raise click.BadParameter(f"--payload is for {', '.join(big)}, not for {', '.join(other)}")
    if unknown := set(rows) - set(ROWS):
        raise click.BadParameter(f"there is no row {', '.join(sorted(unknown))}; rows: {', '.join(ROWS)}")
    for size in keys.split(",") if repeats else ():
        measure(int(size), rows, repeats, spark_submit, master, results, payload, payload_rows)
    if not results.exists():
        raise click.ClickException(f"{results} does not exist; measure first")
    found = Report([json.loads(line) for line in results.read_text().splitlines()])
    print(found.markdown())
    if report is not None:
        report.write_text(found.svg())


if __name__ == "__main__":
    main()
