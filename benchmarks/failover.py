"""A driver that is killed (SIGKILL, all of its processes): seconds to the next commit.

    hot-standby   the app has a hot standby (`streamupdate standby on`), which takes over
    supervise     a supervisor starts the driver again from its own checkpoint, as any restart of Spark does

    cost          nothing is killed: batches and processor time of the driver alone, then with a hot standby beside it,
                  which does what a new version does that follows

With --kills the app of the crash suite is killed so many times, at random moments, each time with a new hot standby;
what its idempotent sink holds is compared with what the input must give, and who wrote when with whose epoch it was.

Every kill is appended to --results as a line of JSON; --report shows all of them.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
import psutil
from feed import COMMIT_SECONDS, CommitLog, Feed
from spark_rows import APP, BATCHES_BETWEEN, FILES_A_BATCH, Managed
from spark_rows import QUERY as QUERY_OF_COUNTS

from airflow_provider_streamupdate.control.drivers import process
from airflow_provider_streamupdate.control.supervision.decision import Backoff
from airflow_provider_streamupdate.control.waiting import wait_for
from airflow_provider_streamupdate.core import clock
from airflow_provider_streamupdate.core.registry import hot_standby

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "scripts"))

from crashlib.ground import QUERY, Ground  # noqa: E402
from crashlib.places import Place  # noqa: E402
from crashlib.standing_by import stand_by  # noqa: E402

HOT, SUPERVISED, KILLS, COST = "hot-standby", "supervise", "kills", "cost"
GOAL_SECONDS = 3.0
COST_SECONDS, BATCHES_OF_COST = 60.0, 40  # over how long the cost is measured, and how many batches of that count
CHECKED_EVERY = 10  # kills
KEPT_KILLS = 25  # on a root: it grows, and with it what each look costs


class Killed(Managed):
    """The keyed counts, whose driver is killed."""

    def current(self) -> str:
        found = self.client.registry.app(APP).current_id()
        assert found is not None  # it was submitted
        return found

    def settle(self) -> None:
        commits = self.commits(self.current())
        commits.wait(-(-self.feed.first_files // FILES_A_BATCH) + 2)
        commits.wait(commits.newest() + BATCHES_BETWEEN)

    def kill(self, row: str) -> float:
        """Seconds from the kill to the next commit."""
        if row == HOT:
            self.client.stand_by(APP, timeout=COMMIT_SECONDS)
            return self._killed()
        end = threading.Event()
        watching = threading.Thread(
            target=lambda: self.client.supervise((APP,), Backoff(), 1.0, COMMIT_SECONDS, end=end), daemon=True
        )
        watching.start()
        try:
            return self._killed()
        finally:
            end.set()
            watching.join()

    def cost(self) -> dict[str, float]:
        """Seconds of a batch and busy cores over `COST_SECONDS`: of the driver `alone`, and of it and its `standby`
        while it is `followed`."""
        leader = self.current()
        alone = self._busy(leader)
        self.client.stand_by(APP, timeout=COMMIT_SECONDS)
        wanted = hot_standby.read(self.client.registry.app(APP).folder)
        assert wanted is not None  # it was started
        with ThreadPoolExecutor(1) as beside:
            standby = beside.submit(self._busy, wanted.deployment)
            followed = self._busy(leader)
        told = {"alone": alone, "followed": followed, "standby": standby.result()}
        self.client.stand_down(APP)
        return {f"{who} {what}": round(value, 3) for who, found in told.items() for what, value in found.items()}

    def _busy(self, deployment: str) -> dict[str, float]:
        launch = self.client.registry.app(APP).launch(deployment)
        assert launch is not None and launch.pid is not None
        driver = psutil.Process(launch.pid)
        began, used = time.monotonic(), _cpu_seconds(driver)
        time.sleep(COST_SECONDS)  # it is what is measured
        cores = (_cpu_seconds(driver) - used) / (time.monotonic() - began)
        status = self.client.registry.app(APP).status(deployment)
        assert status is not None
        batches = [f.seconds for f in status.queries[QUERY_OF_COUNTS].figures[-BATCHES_OF_COST:]]
        return {"batch": statistics.median(batches), "cores": cores}

    def _killed(self) -> float:
        leader, registry = self.current(), self.client.registry.app(APP)
        before = self.commits(leader)
        before.wait(before.newest() + BATCHES_BETWEEN)
        launch = registry.launch(leader)
        assert launch is not None
        killed = time.time()
        assert process.end(launch, at_once=True)
        last = before.newest()
        return next_commit(lambda: self.commits(self.current()), last) - killed


def _cpu_seconds(driver: psutil.Process) -> float:
    """Of its processes that live, and of those that have ended since they were started by them."""
    found = 0.0
    for each in (driver, *driver.children(recursive=True)):
        with contextlib.suppress(psutil.Error):
            found += sum(each.cpu_times())
    return found


def next_commit(log: Any, last: int) -> float:
    """When the batch after `last` committed, seconds since the epoch."""

    def found() -> float | None:
        later = [at for batch, at in log().times().items() if batch > last]
        return min(later, default=None)

    return float(wait_for(found, "the next commit", COMMIT_SECONDS, 0.05))


def killed_again_and_again(kills: int, folder: Path, spark_submit: str) -> Iterator[dict[str, Any]]:
    """A record a kill; the last one on a root has what the oracle found."""
    for first in range(0, kills, KEPT_KILLS):
        ground = Ground(folder / f"root-{first}", spark_submit, Place())
        try:
            ground.start()
            for number in range(min(KEPT_KILLS, kills - first)):
                leader, hot = ground.current(), stand_by(ground)
                time.sleep(random.random())  # wherever in a batch it is then
                log = CommitLog(Path(ground.registry.checkpoint(leader, QUERY).base))
                killed = time.time()
                ground.kill(leader)
                mine = CommitLog(Path(ground.registry.checkpoint(hot, QUERY).base))
                seconds = next_commit(lambda mine=mine: mine, log.newest()) - killed
                record = {"row": KILLS, "keys": 3, "seconds": round(seconds, 3)}
                if number % CHECKED_EVERY == CHECKED_EVERY - 1 or first + number == kills - 1:
                    answer = ground.oracle.check(ground.settle(), version=ground.version())
                    record |= {"lost": answer.lost, "doubled": answer.duplicated, "problems": list(answer.problems)}
                yield record
        finally:
            ground.end()


@contextmanager
def running(keys: int, spark_submit: str, master: str) -> Iterator[Killed]:
    with tempfile.TemporaryDirectory(prefix="streamupdate-failover-", ignore_cleanup_errors=True) as scratch:
        folder = Path(scratch)
        with Feed(folder / "in", keys) as feed:
            app = Killed(folder, feed, spark_submit, master)
            try:
                app.settle()
                yield app
            finally:
                app.end()


@click.command(help=__doc__)
@click.option("--keys", default="10000,5000000", show_default=True, help="Sizes of the state, by commas.")
@click.option("--only", default=f"{HOT},{SUPERVISED},{COST}", show_default=True, help="Rows, by commas.")
@click.option("--repeats", default=5, show_default=True, help="Kills a row and size; 0: none.")
@click.option("--kills", default=0, show_default=True, help="Kills of the crash suite's app, with its oracle.")
@click.option("--master", default="local[2]", show_default=True)
@click.option("--spark-submit", default=str(ROOT / ".venv-spark" / "bin" / "spark-submit"), show_default=True)
@click.option("--results", type=click.Path(path_type=Path), default=Path("failover.jsonl"), show_default=True)
def main(keys: str, only: str, repeats: int, kills: int, master: str, spark_submit: str, results: Path) -> None:
    rows = only.split(",")
    if unknown := set(rows) - {HOT, SUPERVISED, COST}:
        raise click.BadParameter(f"there is no row {', '.join(sorted(unknown))}; rows: {HOT}, {SUPERVISED}, {COST}")

    def note(record: dict[str, Any], load: float) -> None:
        with open(results, "a") as file:
            file.write(json.dumps({"at": clock.now(), **record, "load": round(load, 2)}) + "\n")
        print(f"{record['row']}, {record['keys']:,} keys: {record['seconds']:.2f} s", file=sys.stderr)

    for size in map(int, keys.split(",")) if repeats else ():
        with running(size, spark_submit, master) as app:
            for _ in range(repeats):
                for row in rows:
                    load = os.getloadavg()[0]
                    if row == COST:
                        costs = app.cost()
                        note({"row": row, "keys": size, "seconds": costs["followed batch"], **costs}, load)
                        continue
                    note({"row": row, "keys": size, "seconds": round(app.kill(row), 3)}, load)
    with tempfile.TemporaryDirectory(prefix="streamupdate-kills-", ignore_cleanup_errors=True) as scratch:
        for record in killed_again_and_again(kills, Path(scratch), spark_submit):
            note(record, os.getloadavg()[0])
    if not results.exists():
        raise click.ClickException(f"{results} does not exist; measure first")
    report([json.loads(line) for line in results.read_text().splitlines()])


def report(records: list[dict[str, Any]]) -> None:
    print("| killed | keys | kills | seconds to the next commit, median (range) | goal 3 s |\n|---|---|---|---|---|")
    costs = [r for r in records if r["row"] == COST]
    for row, keys in sorted({(r["row"], r["keys"]) for r in records if r["row"] != COST}):
        seconds = [r["seconds"] for r in records if (r["row"], r["keys"]) == (row, keys)]
        middle = statistics.median(seconds)
        met = sum(s <= GOAL_SECONDS for s in seconds)
        shown = f"{middle:.2f} ({min(seconds):.2f} to {max(seconds):.2f})"
        print(f"| {row} | {keys:,} | {len(seconds)} | {shown} | {met} of {len(seconds)} |")
    if costs:
        names = [f"{who} {what}" for what in ("batch", "cores") for who in ("alone", "followed", "standby")]
        print("\n| keys | " + " | ".join(names) + " |\n" + "|---" * (1 + len(names)) + "|")
        for keys in sorted({r["keys"] for r in costs}):
            rows = [r for r in costs if r["keys"] == keys]
            print(f"| {keys:,} | " + " | ".join(f"{statistics.median(r[n] for r in rows):.2f}" for n in names) + " |")
    checked = [r for r in records if "lost" in r]
    if checked:
        lost, doubled = sum(r["lost"] for r in checked), sum(r["doubled"] for r in checked)
        problems = [p for r in checked for p in r["problems"]]
        print(f"\nAgainst the oracle: lost {lost}, doubled {doubled}, problems {problems or 'none'}.")
    loads = [r["load"] for r in records]
    print(f"\nLoad of the machine before a kill: {statistics.median(loads):.1f} ({min(loads)} to {max(loads)}).")


if __name__ == "__main__":
    main()
