"""A new user's first hour and week, run for real. First the commands of docs/getting-started.md, section "In your own
installation".

Builds the wheel, makes two environments from nothing, starts a real Airflow, submits an app of two queries, makes
mistakes on purpose, updates from the command line and by a DAG, rolls back by the page's button, kills the driver and
starts it again. An oracle in plain Python then looks at what the app wrote. The second part is a week with an app of
three queries: seven versions, mistakes, a rollback, kill -9 and more partitions. Exit code 0: all steps passed.

Run it with `make first-hour`. All it makes lies in a temporary folder, which is removed at the end.
"""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeVar

import click
from demolib.airflow_server import AirflowError, AirflowServer
from demolib.leftovers import end_leftovers
from firsthour import page, wheel
from firsthour.failure import Skipped, StepError
from firsthour.orders import Orders
from firsthour.page import Command, Step
from firsthour.shell import Shell
from firsthour.table import FAILED, SKIPPED, Table
from firsthour.week import Week

REPOSITORY = Path(__file__).resolve().parents[1]
APP, DAG, RUN = "orders", "stream_update", "first"
STANDALONE = "airflow standalone"
LOCKS = {"airflow-env": "airflow.txt", "spark-env": "spark.txt"}  # what the environments are held to
NO_CHROMIUM = 3
T = TypeVar("T")
LIMIT = 600.0  # seconds for one thing that is waited for


class FirstHour:
    """One run in the folder `work`."""

    def __init__(self, work: Path) -> None:
        self.work = work
        self.log = work / "commands.log"
        self.shell = Shell(work, self.log)
        self.table = Table()
        self.wheel: Path | None = None
        self.airflow: AirflowServer | None = None
        self.orders = Orders(work / "first-hour" / "in", work / "first-hour" / "out")
        # what is done beside the page's commands, before and after them
        self.before: dict[str, Callable[[], None]] = {
            "Update it from the command line": self.orders_of_version_1,
            "Update it from Airflow": self.orders_of_version_2,
            "Kill it, and start it again": partial(self.orders.write, 3),
            "Look at what it wrote, and end it": self.last_orders,
        }
        self.after: dict[str, Callable[[], None]] = {
            page.SCRIPT: self.script_ended,
            "Start an app": self.started,
            "Update it from the command line": self.settled,
            "Update it from Airflow": self.updated_by_airflow,
            "Roll it back by the page": self.rolled_back_by_the_page,
            "Look at what it wrote, and end it": self.nothing_lost_or_doubled,
        }

    def run(self) -> None:
        """StepError, AirflowError or TimeoutError at the first step that fails."""
        self.table.step("Build the wheel", self.build)
        for step in page.steps():
            self.table.step(step.title, partial(self.take, step))
        if self.airflow is not None:
            self.airflow.stop()
            self.airflow = None
        Week(self.shell, self.table).run()

    def run_week(self) -> None:
        """Run the second part alone, with the environments of this repository."""
        root = self.work / "streams"
        root.mkdir()
        self.shell.environment |= {
            "PATH": f"{REPOSITORY}/.venv/bin:{self.shell.environment['PATH']}",
            "STREAMUPDATE_ROOT": str(root),
            "STREAMUPDATE_SPARK_SUBMIT": str(REPOSITORY / ".venv-spark" / "bin" / "spark-submit"),
        }
        Week(self.shell, self.table).run()

    def build(self) -> None:
        self.wheel = wheel.build(self.shell, self.work)

    def take(self, step: Step) -> None:
        """The step as the page has it, with what the script does beside it."""
        if step.program is not None:
            (self.shell.cwd / str(step.file)).write_text(step.program, encoding="utf-8")
        self.before.get(step.title, _nothing)()
        for command in step.commands:
            self.command(command)
        self.after.get(step.title, _nothing)()

    def command(self, command: Command) -> None:
        click.echo(f"    $ {command.line}")
        if command.line.strip() == STANDALONE:
            self.start_airflow()
        elif command.line.startswith("streamupdate log clicks"):
            # three clicks counted by the first version, one by the second
            self.wait("the script to count on", lambda: "|home|    4|" in self.shell.run("streamupdate log clicks"))
        else:
            self.shell.run(self.here(command.line), command.code, command.words, LIMIT)

    def here(self, line: str) -> str:
        """The page's command with what is another here: where the wheel is, and uv with our locks in pip's place."""
        if line == ". .venv/bin/activate":  # a clone's
            return "true"
        line = line.replace("/tmp/clicks", f"{self.work}/clicks").replace(".venv-spark/", "spark-env/")
        if line.startswith("export WHEEL="):
            return f"export WHEEL='{self.wheel}'"
        if match := re.fullmatch(r"python3 -m venv (\S+)", line):
            return f"'{wheel.UV}' venv --quiet --python '{REPOSITORY}/.venv/bin/python' {match[1]}"
        if match := re.fullmatch(r"(\S+)/bin/pip install (.+)", line):
            lock = REPOSITORY / "requirements" / LOCKS[match[1]]
            return f"'{wheel.UV}' pip install --quiet --python {match[1]}/bin/python --constraint '{lock}' {match[2]}"
        return line

    def start_airflow(self) -> None:
        """With ports of its own, and logged in."""
        home = Path(self.shell.environment["AIRFLOW_HOME"])
        python = self.shell.cwd / "airflow-env" / "bin" / "python"
        self.airflow = AirflowServer(home, {"UP_PYTHON": str(python), "UP_TIMEOUT": f"{LIMIT:.0f}"})
        self.airflow.start()
        self.wait("Airflow to start", self.airflow.ready)
        self.wait(f"Airflow to read DAG {DAG}", lambda: self.server.has_dag(DAG))

    @property
    def server(self) -> AirflowServer:
        if self.airflow is None:
            raise StepError(f"the page does not start Airflow ({STANDALONE}) before it is needed")
        return self.airflow

    def script_ended(self) -> None:
        """The app that follows has its root by the connection."""
        for name in ("STREAMUPDATE_ROOT", "STREAMUPDATE_SPARK_SUBMIT"):
            del self.shell.environment[name]

    def started(self) -> None:
        self.orders.counted_by_version_1()
        self.settled()

    def orders_of_version_1(self) -> None:
        """A few with returned ones, which version 1 counts; and some that either may process."""
        self.orders.write(3, returned=True)
        self.orders.counted_by_version_1()
        self.settled()
        self.orders.write(3)

    def orders_of_version_2(self) -> None:
        self.orders.write(3, returned=True)
        self.settled()
        self.orders.write(2)

    def last_orders(self) -> None:
        self.orders.write(3, returned=True)
        self.settled()

    def updated_by_airflow(self) -> None:
        def ended() -> str | None:
            state = self.server.run_state(DAG, RUN)
            return state if state in ("success", "failed") else None

        try:
            state = self.wait(f"run {RUN} of DAG {DAG}", ended)
        except TimeoutError as error:
            raise StepError(f"{error}\n{self.task_logs()}") from error
        if state != "success":
            raise StepError(f"the run of DAG {DAG} ended {state}\n{self.task_logs()}")
        self.shell.run(f"streamupdate status {APP}", words="v3")
        self.orders.write(3, returned=True)
        self.wait("version 3 to process them", lambda: not self.orders.problems(taken_back=0))

    def task_logs(self) -> str:
        states = self.server.task_states(DAG, RUN)
        failed = [task for task, state in states.items() if state in ("failed", "running", "up_for_retry")]
        return "\n".join(f"--- {task}\n{self.server.task_log(DAG, RUN, task)}" for task in failed)

    def rolled_back_by_the_page(self) -> None:
        asked = subprocess.run([str(REPOSITORY / "scripts" / "ui_env.sh")], capture_output=True, text=True)
        if asked.returncode == NO_CHROMIUM:
            self.shell.run(f"streamupdate rollback {APP}")  # the steps that follow need it
            raise Skipped(f"rolled back from the command line: {asked.stderr.strip()}")
        if asked.returncode:
            raise StepError(f"the environment for the browser cannot be made\n{asked.stdout}{asked.stderr}")
        button = Path(wheel.__file__).with_name("roll_back_button.py")
        words = [self.server.url, self.server.token(), asked.stdout.split()[-1], APP, "v2"]
        self.shell.run(f"'{REPOSITORY}/.venv-ui/bin/python' '{button}' {' '.join(words)}", timeout=2 * LIMIT)
        self.settled()

    def settled(self) -> None:
        """All orders that have arrived are in the output, as they must be; StepError says what is wrong if they do not
        come to be so."""
        try:
            self.wait("the output to be right", lambda: not self.orders.problems())
        except TimeoutError as error:
            wrong = "\n".join(self.orders.problems()[:20])
            raise StepError(f"{error}:\n{wrong}\n{self.shell.run(f'streamupdate log {APP}')}") from error

    def nothing_lost_or_doubled(self) -> None:
        """Check the output after the app has ended, when nothing can change any more."""
        state = json.loads(self.shell.run(f"streamupdate status {APP} --json"))["state"]
        if state != "cancelled":
            raise StepError(f"{APP} is {state}; it should be cancelled")
        if wrong := self.orders.problems():
            raise StepError("\n".join(wrong))
        kept = [line for line in self.orders.lines() if line["version"] == 3]
        if not kept:
            raise StepError("version 3 wrote no line, so the rollback had nothing to undo")
        number = len(self.orders.all())
        click.echo(f"    {number} orders, {len(self.orders.totals())} sums: 0 lost, 0 doubled")

    def wait(self, what: str, look: Callable[[], T]) -> T:
        """Wait until the condition returns something true, and return that; TimeoutError after the limit."""
        deadline = time.monotonic() + LIMIT
        while not (found := look()):
            if time.monotonic() > deadline:
                raise TimeoutError(f"after {LIMIT:.0f} s still waiting for {what}")
            time.sleep(0.5)
        return found

    def clean_up(self, keep: bool) -> None:
        """End and remove everything."""
        if self.airflow is not None:
            self.airflow.stop()
        end_leftovers(self.work, click.echo)
        if not keep:
            shutil.rmtree(self.work)


def _nothing() -> None:
    return None


@click.command(help=__doc__)
@click.option("--keep", is_flag=True, help="Keep the folder, with the log of all commands.")
@click.option("--week", is_flag=True, help="Only the second part, with this repository's environments.")
def main(keep: bool, week: bool) -> None:
    signal.signal(signal.SIGTERM, lambda number, _frame: sys.exit(128 + number))  # as Ctrl-C: everything is ended
    hour = FirstHour(Path(tempfile.mkdtemp(prefix="first-hour-")).resolve())
    passed = False
    try:
        hour.run_week() if week else hour.run()
        passed = True
    except (StepError, AirflowError, TimeoutError, OSError) as error:
        click.echo(f"\nfirst-hour: error: {error}", err=True)
    finally:
        hour.table.step("Stop and remove everything", partial(hour.clean_up, keep))
        click.echo(f"\n{hour.table}\n")
        if keep:
            click.echo(f"kept: {hour.work} (commands.log has what each command said)")
    outcomes = {row.outcome for row in hour.table.rows}
    if not passed or FAILED in outcomes:
        click.echo("first-hour: FAILED")
        sys.exit(1)
    if SKIPPED in outcomes:
        click.echo("first-hour: not all steps were taken")
        sys.exit(1)
    click.echo("first-hour: all steps passed")


if __name__ == "__main__":
    main()
