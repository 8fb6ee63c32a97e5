"""python -m tests.simulation [--schedules N] [--seed SEED [--shrink]] [--replay FILE] [--faults [TEXT]]

Run seeded schedules, replay one with its steps, make one smaller, or hunt the planted faults."""

from __future__ import annotations

import argparse
import gc
import multiprocessing
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from . import plan as plans
from .mutants import MUTANTS, planted
from .plan import Found, Plan, Strike
from .schedule import Outcome, Schedule
from .shrinking import shrink

PROGRESS_SECONDS = 20.0
MOST = 10_000  # schedules that a planted fault is hunted in
MEMORY = Path("/dev/shm")  # a plan's scratch files took a tenth of a schedule on a disk
if MEMORY.is_dir() and os.access(MEMORY, os.W_OK):
    tempfile.tempdir = str(MEMORY)


def run(plan: Plan, strikes: Sequence[Strike] | None = None, trace: bool = False) -> Outcome:
    out = sys.stdout
    say = partial(print, file=out) if trace else None
    with tempfile.TemporaryDirectory(prefix="streamupdate-simulation-") as versions:
        return Schedule(plan, Path(versions), strikes, say).run()


def collect_rarely() -> None:
    """A schedule's garbage is small: collecting it as often as Python does took a tenth of the time (measured)."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)


def several(seeds: Sequence[int]) -> list[Outcome]:
    return [run(plans.draw(seed)) for seed in seeds]


def hunt(name: str) -> tuple[str, int, str]:
    """How many schedules it takes to find a planted fault, and what found it; 0: it was not found."""
    with planted(name):
        for number in range(MOST):
            if problems := run(plans.draw(number)).problems:
                return name, number + 1, problems[0].partition("\n")[0][:150]
    return name, 0, ""


def hunt_all(options: argparse.Namespace) -> int:
    missed, names = 0, [name for name in MUTANTS if options.faults in name]
    with multiprocessing.get_context("fork").Pool(options.jobs, collect_rarely) as pool:
        for name, taken, problem in pool.imap_unordered(hunt, names):
            missed += not taken
            print(f"| {name} | {taken or f'not within {MOST}'} | {problem} |", flush=True)
    return 1 if missed else 0


def run_all(options: argparse.Namespace) -> int:
    began, done, bad, struck, outcomes = time.monotonic(), 0, 0, Counter[str](), Counter[str]()
    seeds = range(options.schedules)
    chunks = [seeds[at : at + 20] for at in range(0, len(seeds), 20)]
    said = began
    with multiprocessing.get_context("fork").Pool(options.jobs, collect_rarely) as pool:
        for outcome in (outcome for found in pool.imap_unordered(several, chunks) for outcome in found):
            done += 1
            struck += outcome.faults
            outcomes[f"{outcome.plan.strategy} {str(outcome.outcome)[:30]}"] += 1
            if outcome.problems:
                bad += 1
                found = Found(fault=outcome.problems[0][:600], plan=outcome.plan, strikes=tuple(outcome.strikes))
                print(f"seed {outcome.plan.seed}", found.text(), sep="\n", flush=True)
            if time.monotonic() - said > PROGRESS_SECONDS:
                said = time.monotonic()
                print(f"... {done} of {len(seeds)}, {bad} wrong", flush=True)
    print(f"{done} schedules in {time.monotonic() - began:.0f} s, {bad} wrong")
    print("faults:", ", ".join(f"{name} {count}" for name, count in struck.most_common()))
    print("outcomes:", ", ".join(f"{name} {count}" for name, count in outcomes.most_common()))
    return 1 if bad else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--schedules", type=int, default=500)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--shrink", action="store_true", help="leave out what a violation does not need")
    parser.add_argument("--replay", type=Path, nargs="+", help="schedules that were kept")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--faults", nargs="?", const="", metavar="TEXT", help="hunt planted faults (with this text)")
    parser.add_argument("--plant", default="", metavar="FAULT", help="replay with a planted fault")
    options = parser.parse_args()
    if os.environ.get("PYTHONHASHSEED") != "0":
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], {**os.environ, "PYTHONHASHSEED": "0"})
    if options.faults is not None:
        return hunt_all(options)
    if options.seed is None and not options.replay:
        return run_all(options)
    schedules: list[tuple[Plan, Sequence[Strike] | None]] = [
        (found.plan, found.strikes) for found in map(Found.read, options.replay or ())
    ]
    wrong = 0
    with planted(options.plant):
        for plan, strikes in schedules or [(plans.draw(options.seed), None)]:
            outcome = run(plan, strikes, trace=not options.shrink)
            if options.shrink and outcome.problems:
                print(shrink(outcome, run).text())
            else:
                print(plan, outcome.outcome, dict(outcome.faults), *outcome.problems, sep="\n")
            wrong += bool(outcome.problems)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
