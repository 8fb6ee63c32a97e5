"""The main job on real input: update a running streaming app from Airflow, keep its state, check every row.

First a plain script: submitted as it is, changed in a line, updated by the command line; it counts the 2013 New York
flights of each carrier. Then these flights arrive day by day in the input of version 1 of flight-windows. While they
do, the DAG stream_update runs in a real Airflow and takes the app to version 2. Then version 3 follows version 2,
muted, its rows are compared with version 2's for the same batches, and it takes over without a start. At the end every
row that the three versions wrote is compared with an oracle computed in plain Python. Exit code 0: all updates
succeeded and no row differs.

Run it with `make demo`. All it makes lies in .demo/, which is wiped at the start.
"""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import click
from demolib.airflow_server import AirflowError, AirflowServer
from demolib.comparison import Comparison, compare, sink_rows
from demolib.flights import write_days
from demolib.leftovers import end_leftovers
from demolib.oracle import WindowsOracle, expected_windows, found_windows, read_rows, written_by_v3
from demolib.replay import Replay
from demolib.script import ScriptAct
from demolib.source_log import files_of_snapshot, processed_files

from airflow_provider_streamupdate.control.client import StreamUpdateClient
from airflow_provider_streamupdate.control.drivers.launcher import SparkSubmit
from airflow_provider_streamupdate.control.update.options import UpdateOptions
from airflow_provider_streamupdate.core.checkpoint.checkpoint import Checkpoint
from airflow_provider_streamupdate.core.difference.report import DifferenceReport
from airflow_provider_streamupdate.core.errors import StreamUpdateError
from airflow_provider_streamupdate.core.registry.application import Application
from airflow_provider_streamupdate.core.registry.deployment import FINAL_STATES
from airflow_provider_streamupdate.core.serde import from_json

REPOSITORY = Path(__file__).resolve().parents[1]
APPS = REPOSITORY / "spark_apps" / "flight_windows"
APP, QUERY, DAG = "flight-windows", "windows", "stream_update"
WATERMARK = timedelta(hours=2)
MARKER = ".streamupdate-demo"  # says that a folder is the demo's own and may be wiped

LIMIT = 900.0  # seconds the demo may take, without ending what it started; --limit for a slower machine
UPDATE_AFTER = 120  # files that have arrived when the update begins
RESERVE = 110  # files kept back for versions 2 and 3, on however slow a machine
RESERVE_3 = 60  # of these for version 3
# seconds between two files: before the update, while version 1 waits for it, when only the reserve is left, while
# version 2 proves itself, and in the end
GAP_BEFORE, GAP_WAITING, GAP_RESERVE, GAP_VERIFYING, GAP_AFTER = 0.35, 1.2, 6.0, 0.5, 0.1
GAP_FOLLOWING = 3.0  # while version 3 follows version 2: three drivers share the machine


class DemoError(Exception):
    """The demo failed; the message says why."""


class Demo:
    """One run of the demo in the folder `work`."""

    def __init__(self, work: Path, limit: float = LIMIT) -> None:
        self.work = work
        self.limit = limit
        self.started = time.monotonic()
        self.home = work / "airflow"
        self.root = self.home / "streamupdate"  # where `make up` with this AIRFLOW_HOME looks, too
        self.input, self.output = work / "input", work / "output"
        self.spark_submit = REPOSITORY / ".venv-spark" / "bin" / "spark-submit"
        self.client = StreamUpdateClient(
            str(self.root), SparkSubmit(spark_submit=str(self.spark_submit), master="local[2]")
        )
        self.script = ScriptAct(work / "script", self.spark_submit, self.say, self.wait)
        self.airflow = AirflowServer(
            self.home, {"AIRFLOW__SCHEDULER__SCHEDULER_IDLE_SLEEP_TIME": "0.1", "UP_TIMEOUT": f"{limit:.0f}"}
        )
        self.params = {
            "input": str(self.input),
            "output": str(self.output),
            "watermark": f"{int(WATERMARK.total_seconds())} seconds",
            "max_files": "8",
            "interval": "1 second",
        }

    def say(self, text: str) -> None:
        click.echo(f"[{time.monotonic() - self.started:5.0f} s] {text}")

    def run(self) -> Comparison:
        """Run the whole demo; DemoError, StreamUpdateError or TimeoutError when something goes wrong."""
        self.prepare()
        files = write_days(self.work / "flights")
        counts = self.script.run(files)
        self.say(f"the script's counts are right: {counts.total()} flights of {len(counts)} carriers")
        self.say(f"starting Airflow on port {self.airflow.port} and version 1 of {APP}")
        self.airflow.start()
        with self.replaying(files) as replay:
            self.submit_v1()
            replay.start()
            self.say(f"the flights of {len(files)} days begin to arrive")
            self.wait(lambda: self.arrived(replay, UPDATE_AFTER), f"{UPDATE_AFTER} days to arrive")
            replay.gap = GAP_WAITING
            self.wait(self.airflow.ready, "Airflow to start")
            self.wait(lambda: self.airflow.has_dag(DAG), f"Airflow to read DAG {DAG}")
            self.wait(self.v1_has_state, "version 1 to commit batches")
            self.update(replay)
            self.follow(replay)
            replay.gap = GAP_AFTER
            self.wait(lambda: self.arrived(replay, len(files)), "the last day to arrive")
        return self.check([file.name for file in files])

    def prepare(self) -> None:
        """Make an empty folder; DemoError when that is not possible."""
        if not self.spark_submit.exists():
            raise DemoError(f"{self.spark_submit} is missing; run: make setup")
        if self.work.exists() and any(self.work.iterdir()):
            if not (self.work / MARKER).exists():
                raise DemoError(f"{self.work} is not empty, and no earlier demo made it; give another folder")
            self.clean_up()  # an earlier demo may have been killed
            shutil.rmtree(self.work)
        self.work.mkdir(parents=True, exist_ok=True)
        (self.work / MARKER).touch()

    @contextmanager
    def replaying(self, files: list[Path]) -> Iterator[Replay]:
        replay = Replay(files, self.input, GAP_BEFORE)
        try:
            yield replay
        finally:
            replay.stop()

    def submit_v1(self) -> None:
        application = Application(file=str(APPS / "v1.py"), params=self.params, master="local[2]")
        self.client.submit(application, deployment="v1", timeout=self.left(), progress=self.say, app=APP)

    def arrived(self, replay: Replay, count: int) -> bool:
        if replay.error is not None:
            raise DemoError(f"the replay ended after {replay.arrived} files: {replay.error}")
        return replay.arrived >= count

    def v1_has_state(self) -> bool:
        status = self.alive().status
        return status is not None and status.queries[QUERY].batch >= 3

    def alive(self) -> Any:
        """The app's status; DemoError when its driver ended."""
        status = self.client.status(APP)
        if status.state in FINAL_STATES:
            raise DemoError(f"{APP} is {status.state}")
        return status

    def update(self, replay: Replay) -> None:
        """Run the update DAG; DemoError with the failing tasks' logs when the run fails."""
        conf = {
            "app": APP,
            "application": str(APPS / "v2.py"),
            "deployment_id": "v2",
            "parameters": self.params,
            "drain_timeout": "PT2M",
        }
        run_id = self.airflow.trigger(DAG, conf)
        self.say(f"triggered DAG {DAG} after {replay.arrived} days: {self.airflow.url}/dags/{DAG}/runs/{run_id}")
        shown: dict[str, str] = {}

        def over() -> str | None:
            for task, state in self.airflow.task_states(DAG, run_id).items():
                if state in ("running", "success", "failed", "up_for_retry") and shown.get(task) != state:
                    shown[task] = state
                    self.say(f"  {task}: {state} ({replay.arrived} days arrived)")
            left = len(replay.files) - replay.arrived
            if left <= RESERVE_3:
                replay.gap = GAP_RESERVE
            elif "update.submit_from_snapshot" in shown:
                replay.gap = GAP_VERIFYING
            elif left <= RESERVE:
                replay.gap = GAP_RESERVE
            state = self.airflow.run_state(DAG, run_id)
            return state if state in ("success", "failed") else None

        try:
            state = self.wait(over, "the update to end", every=0.5)
        except TimeoutError as error:
            raise DemoError(f"{error}\n{self.task_logs(run_id, ('running', 'failed', 'up_for_retry'))}") from error
        if state != "success":
            raise DemoError(f"the update run ended {state}\n{self.task_logs(run_id, ('failed',))}")

    def follow(self, replay: Replay) -> None:
        """Update to version 3 by strategy follow; DemoError when other rows differ than it expects."""
        replay.gap = GAP_FOLLOWING
        options = UpdateOptions(
            application=Application(file=str(APPS / "v3.py"), params=self.params, master="local[2]"),
            deployment="v3",
            strategy="follow",
            diff=(f"{QUERY}=stage,start,origin",),
            submit_timeout=self.left(),
            verify_for=5.0,
        )
        self.say(f"updating to version 3 by strategy follow, after {replay.arrived} days")

        def told(line: str) -> None:
            self.say(f"  {line} ({replay.arrived} days arrived)")
            if len(replay.files) - replay.arrived <= RESERVE_3 // 2:
                replay.gap = GAP_RESERVE

        self.client.update(options, told)
        [rows] = self.compared_rows().rows
        if rows.differ or not rows.expected:
            raise DemoError(f"version 3 was to differ in rows with few flights, and in nothing else: {rows}")

    def compared_rows(self) -> DifferenceReport:
        folder, path = self.client.registry.app(APP).folder, "differences/v3.json"
        return from_json(folder.read(path) or b"", DifferenceReport, path)

    def task_logs(self, run_id: str, states: tuple[str, ...]) -> str:
        tasks = [task for task, state in self.airflow.task_states(DAG, run_id).items() if state in states]
        return "\n".join(f"--- log of task {task}\n{self.airflow.task_log(DAG, run_id, task)}" for task in tasks)

    def check(self, names: list[str]) -> Comparison:
        """Wait until all input is processed, end the app, compare what it wrote."""
        before = self.cut_over(names)
        expected = expected_windows(
            read_rows(self.input, names[: len(before)]), read_rows(self.input, names[len(before) :]), WATERMARK
        )
        self.say("waiting until every flight is processed")
        self.wait(lambda: self.watermark_reached(expected.watermark), "the last flights to be processed", 0.5)
        self.say(f"draining {APP}")
        self.client.cancel(APP, drain=True, timeout=self.left())
        self.check_processed(names)
        rows = list(sink_rows(self.output / "windows"))
        result = compare(written_by_v3(expected.rows, self.last_watermark_of_v2()), found_windows(rows))
        self.report(len(before), len(names), expected, result)
        if not expected.carried:
            raise DemoError("no window was open at the cut-over, so nothing shows that state was kept")
        return result

    def cut_over(self, names: list[str]) -> list[str]:
        """The files that version 1 processed, by the snapshot that version 2 started from."""
        spec = next(s for s in self.client.deployments(APP) if s.deployment == "v2")
        if spec.from_snapshot is None:
            raise DemoError("version 2 did not start from a snapshot")
        snapshot = self.client.snapshot(APP, spec.from_snapshot)
        before = files_of_snapshot(snapshot.queries[QUERY], lambda name: (self.root / APP / name).read_bytes())
        if not 0 < len(before) < len(names) or before != names[: len(before)]:
            raise DemoError(f"version 1 did not process the first files in their order: {before[-3:]}")
        return before

    def last_watermark_of_v2(self) -> datetime:
        """With which version 2's last batch wrote windows."""
        batch = self.client.snapshot(APP, "before-v3").queries[QUERY].batch
        entry = Checkpoint(self.client.registry.app(APP).checkpoint("v2", QUERY)).offsets(batch)
        return datetime.fromtimestamp(entry.watermark_ms / 1000, timezone.utc)

    def watermark_reached(self, watermark: datetime) -> bool:
        status = self.alive().status
        reached = status.queries[QUERY].watermark if status else None
        return reached is not None and datetime.fromisoformat(reached) >= watermark

    def check_processed(self, names: list[str]) -> None:
        """Every file was processed once, in order: no flight was late, none is left."""
        folder = self.client.registry.app(APP).checkpoint("v3", QUERY)
        paths = [f"sources/0/{path}" for path in folder.files("sources/0")]
        batch = Checkpoint(folder).committed_batch()
        assert batch is not None
        processed = processed_files(paths, lambda path: folder.read(path) or b"", batch)
        if processed != names:
            raise DemoError(
                f"not all files were processed, or not in order: {len(processed)} of {len(names)} were processed"
            )

    def report(self, before: int, files: int, expected: WindowsOracle, result: Comparison) -> None:
        stages = {s: sum(n for row, n in expected.rows.items() if row.stage == s) for s in ("daily", "hourly")}
        pauses = {new: self.pause(new) for new in ("v2", "v3")}
        click.echo("")
        click.echo(f"rows compared   {result.expected} ({stages['daily']} daily, {stages['hourly']} hourly windows)")
        click.echo(f"differences     {result.differences}")
        for line in result.examples():
            click.echo(f"                {line}")
        flights = sum(day.read_bytes().count(b"\n") for day in self.input.glob("*.json"))
        click.echo(f"flights         {flights} in {files} files: {before} files to v1, {files - before} to v2")
        click.echo(f"state kept      {expected.carried} windows hold flights counted by v1 and by v2")
        for spec in self.client.deployments(APP):
            origin = f"from snapshot {spec.from_snapshot}" if spec.from_snapshot else "fresh"
            state = self.client.deployment_state(APP, spec.deployment)
            click.echo(f"deployment      {spec.deployment}: {origin}, submitted {spec.submitted_at}, now {state}")
        for snapshot in self.client.snapshots(APP):
            click.echo(
                f"snapshot        {snapshot.name}: of {snapshot.deployment} after batch "
                f"{snapshot.queries[QUERY].batch}, {snapshot.size} bytes"
            )
        [rows] = self.compared_rows().rows
        click.echo(
            f"v3 beside v2    {rows.equal} rows of batches {rows.batches} are equal, {rows.expected} differ as v3 "
            f"expects (flights < 5), {rows.differ} otherwise"
        )
        click.echo(f"pause           {pauses['v2']} (v1's last commit to v2's first), {pauses['v3']} (v2's to v3's)")
        click.echo(f"open the UI     make up    (with this run in it: AIRFLOW_HOME={self.home} make up)")
        click.echo("")

    def pause(self, new: str) -> str:
        record = self.client.registry.app(APP).update(new)
        return "unknown" if record is None or record.pause_seconds is None else f"{record.pause_seconds:.1f} s"

    def left(self) -> float:
        """Return the seconds the demo has left; at least one, so that a condition that already holds is seen."""
        return max(1.0, self.limit - (time.monotonic() - self.started))

    def wait(self, condition: Callable[[], Any], what: str, every: float = 0.25) -> Any:
        """Wait until the condition returns something true, and return that; TimeoutError when the demo's time is up."""
        while not (result := condition()):
            if self.left() <= 1.0:
                raise TimeoutError(f"after {self.limit:.0f} s the demo still waits for {what}; --limit gives more time")
            time.sleep(every)
        return result

    def driver_logs(self) -> str:
        """The last lines of each deployment's driver log."""
        if APP not in self.client.apps():
            return ""
        return "\n".join(
            f"--- driver log of {spec.deployment}: {self.client.driver_log(APP, spec.deployment, 30)}"
            for spec in self.client.deployments(APP)
        )

    def clean_up(self) -> None:
        """End everything that was started, and report it when something had to be killed."""
        self.airflow.stop()
        self.script.end()
        if self.root.exists() and APP in self.client.apps():
            for spec in self.client.deployments(APP):
                self.client.stop_deployment(APP, spec.deployment)
        end_leftovers(self.work, self.say)


@click.command(help=__doc__)
@click.option(
    "--work",
    type=click.Path(file_okay=False, path_type=Path),
    default=REPOSITORY / ".demo",
    help="Folder for everything the demo creates; wiped at the start.",
)
@click.option("--limit", type=float, default=LIMIT, show_default=True, help="Seconds the demo may take.")
def main(work: Path, limit: float) -> None:
    # as Ctrl-C, so that everything is ended
    signal.signal(signal.SIGTERM, lambda number, _frame: sys.exit(128 + number))
    demo = Demo(work.resolve(), limit)
    result = None
    try:
        result = demo.run()
    except (DemoError, AirflowError, StreamUpdateError, TimeoutError, subprocess.SubprocessError) as error:
        click.echo(f"\ndemo: error: {error}\n{demo.driver_logs()}", err=True)
    finally:
        demo.say("ending Airflow and the drivers")
        demo.clean_up()
    if result is None or result.differences:
        demo.say("FAILED")
        sys.exit(1)
    demo.say("done: every row is correct after the update")


if __name__ == "__main__":
    main()
