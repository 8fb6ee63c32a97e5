"""Kills an update, or a supervisor, at each of its steps, and the drivers, and makes storage calls fail there; then
runs it again as Airflow would, or leaves the drivers alone; and compares what came out with what must have.

One app runs on and on. A case is one update of it, with real drivers, from the version that runs to the next, or a
death of its driver under a supervisor, struck at one boundary (core/boundaries.py). After a case that ends badly the
next one begins on a root of its own.
"""

from __future__ import annotations

import json
import os
import queue
import re
import signal
import sys
import threading
import time
import traceback
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

import attrs
import click
from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "scripts")]

from crashlib.cases import EVERY, STAND_BY, SUPERVISE, WAYS, Case, cases, never_struck  # noqa: E402
from crashlib.ground import Ground  # noqa: E402
from crashlib.places import Place, pods  # noqa: E402
from crashlib.result import Result  # noqa: E402
from crashlib.standing_by import run_hot_standby  # noqa: E402
from crashlib.striking import run_update  # noqa: E402
from crashlib.supervising import run_supervise  # noqa: E402

import airflow_provider_streamupdate  # noqa: E402
from airflow_provider_streamupdate.core.registry.update import PROMOTED  # noqa: E402

CASES_ON_A_ROOT = 25  # the input and the root grow, and with them what each batch and each look costs


class Runner:
    """Runs cases one after the other, on the same root until a case ends badly or it had CASES_ON_A_ROOT."""

    def __init__(self, folder: Path, spark_submit: str, name: str, place: Place) -> None:
        self.folder, self.spark_submit, self.name, self.place = folder, spark_submit, name, place
        self.number = 0
        self.cases = 0  # on this root
        self.ground: Ground | None = None

    def run(self, case: Case) -> Result:
        try:
            if self.ground is None:
                self.ground, self.cases = Ground(self._new_root(), self.spark_submit, self.place), 0
                self.ground.start()
            run = {SUPERVISE: run_supervise, STAND_BY: run_hot_standby}.get(case.strategy, run_update)
            result = run(self.ground, case)
        except Exception as error:
            traceback.print_exc()
            result = Result(case=case.name, stuck=True, problems=(f"{type(error).__name__}: {error}",))
        self.cases += 1
        if result.bad or self.cases == CASES_ON_A_ROOT:
            self.end()
        return result

    def _new_root(self) -> Path:
        """One that is not there yet: of an earlier run in the same folder, too."""
        while True:
            self.number += 1
            if not (root := self.folder / f"{self.name}-{self.number}").exists():
                return root

    def end(self) -> None:
        if self.ground is not None:
            self.ground.end()
            self.ground = None


@click.command(context_settings={"show_default": True})
@click.option("--list", "only_list", is_flag=True, help="Print the cases and run none.")
@click.option("--only", metavar="REGEX", help="Run the cases whose name (way:boundary:victims) matches.")
@click.option("--strategy", type=click.Choice([*WAYS, SUPERVISE, STAND_BY]), help="Of this strategy only.")
@click.option("--limit", type=int, help="Run at most so many.")
@click.option("--seconds", type=float, help="Begin no case after so many seconds.")
@click.option("--jobs", type=click.IntRange(min=1), default=1, help="Roots side by side; each takes two cores.")
@click.option("--results", type=click.Path(path_type=Path), help="File of results (JSON lines) to continue from.")
@click.option("--folder", type=click.Path(path_type=Path), help="Folder for roots and logs (else .crash, emptied).")
@click.option("--pods", "in_pods", is_flag=True, help="Run the drivers in pods (make crash PODS=1).")
@click.option("--spark-submit", default=str(ROOT / ".venv-spark" / "bin" / "spark-submit"), help="Its path.")
def main(
    only_list: bool,
    only: str | None,
    strategy: str | None,
    limit: int | None,
    seconds: float | None,
    jobs: int,
    results: Path | None,
    folder: Path | None,
    in_pods: bool,
    spark_submit: str,
) -> None:
    """Strike updates and supervisors at each of their boundaries; see docs/crash-safety.md."""
    assert ROOT in Path(airflow_provider_streamupdate.__file__).parents, "another copy of the package is imported"
    assert not never_struck(), f"boundaries without a case: {never_struck()}"
    chosen = [
        case for case in cases() if (only is None or re.search(only, case.name)) and strategy in (None, case.strategy)
    ]
    if only_list:
        for case in chosen:
            click.echo(case.name)
        return
    done = read_results(results)
    waiting: queue.Queue[Case] = queue.Queue()
    for case in [c for c in chosen if c.name not in done or done[c.name].bad][:limit]:
        waiting.put(case)
    folder = folder or ROOT / ".crash" / time.strftime("%Y%m%d-%H%M%S")
    deadline = None if seconds is None else time.monotonic() + seconds
    total, lock, over = waiting.qsize(), threading.Lock(), threading.Event()
    found: list[Result] = []
    runners: list[Runner] = []

    def work(name: str) -> None:
        runner = Runner(folder, spark_submit, name, place)
        runners.append(runner)
        try:
            while deadline is None or time.monotonic() < deadline:
                try:
                    case = waiting.get_nowait()
                except queue.Empty:
                    return
                result = runner.run(case)
                if over.is_set():  # what was interrupted says nothing
                    return
                with lock:
                    found.append(result)
                    show(result, len(found), total)
                    if results:
                        with open(results, "a") as file:
                            file.write(json.dumps(attrs.asdict(result)) + "\n")
        finally:
            runner.end()

    signal.signal(signal.SIGTERM, signal.default_int_handler)  # in the background there is no Ctrl-C
    kubernetes = ExitStack()
    place = kubernetes.enter_context(pods(folder, spark_submit)) if in_pods else Place()
    os.environ.update(place.environment(folder) if in_pods else {})  # this process looks at the drivers, too
    threads = [threading.Thread(target=work, args=(f"root-{n}",)) for n in range(1, jobs + 1)]
    for thread in threads:
        thread.start()
    try:
        for thread in threads:
            thread.join()
    except KeyboardInterrupt:
        click.echo("interrupted: ending the drivers", err=True)
        over.set()
        for runner in runners:
            runner.end()
        os._exit(130)
    finally:
        kubernetes.close()
    names = {case.name for case in chosen}
    summary = [r for name, r in {**done, **{r.case: r for r in found}}.items() if name in names]
    print_table(summary)
    lost, duplicated = sum(r.lost for r in summary), sum(r.duplicated for r in summary)
    cases_and_faults = f"cases {len(summary)}, faults {sum(r.faults for r in summary)}"
    click.echo(f"{cases_and_faults}, lost {lost}, duplicated {duplicated}, stuck {sum(r.stuck for r in summary)}")
    sys.exit(1 if any(r.bad for r in summary) or not summary else 0)


def read_results(file: Path | None) -> dict[str, Result]:
    """The last result of each case."""
    if file is None or not file.exists():
        return {}
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    return {line["case"]: Result(**{**line, "problems": tuple(line["problems"])}) for line in lines}


def show(result: Result, number: int, total: int) -> None:
    tries = f", {result.tries} tries" if result.tries > 1 else ""
    word = "BAD" if result.bad else "ok"
    click.echo(f"[{number}/{total}] {word:3} {result.case}: {result.outcome}{tries}, {result.seconds:.0f} s")
    for problem in result.problems[:8]:
        click.echo(f"      {problem}")
    if result.bad:
        click.echo(f"      see {result.log}")


def print_table(results: list[Result]) -> None:
    table = Table("strategy", "struck", "cases", "faults", "promoted", "gone back", "lost", "duplicated", "stuck")
    groups: dict[tuple[str, str], list[Result]] = {}
    for result in results:
        way, boundary, victims = result.case.split(":")
        victims = f"{victims}, {EVERY} boundary" if boundary == EVERY else victims
        groups.setdefault((way, victims), []).append(result)
    for (way, victims), group in sorted(groups.items()):
        outcomes = Counter(r.outcome == PROMOTED for r in group if r.outcome)
        counts = (len(group), sum(r.faults for r in group), outcomes[True], outcomes[False], sum(r.lost for r in group))
        table.add_row(
            way, victims, *map(str, counts), str(sum(r.duplicated for r in group)), str(sum(r.stuck for r in group))
        )
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
