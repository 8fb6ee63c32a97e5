"""python -m tests.simulation [--schedules N] [--seed SEED] [--first N] [--jobs N]

Run seeded schedules, or replay one with its steps (--seed)."""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

PROGRESS_SECONDS = 20.0


def one(seed: int, trace: bool = False):  # type: ignore[no-untyped-def]
    from .schedule import Schedule

    out = sys.stdout
    schedule = Schedule(seed, VERSIONS, (lambda line: print(line, file=out)) if trace else None)
    outcome = schedule.run()
    outcome.seed = seed
    return outcome


VERSIONS = Path(tempfile.mkdtemp(prefix="streamupdate-simulation-"))


def several(seeds: list[int]) -> Iterator[object]:
    return [one(seed) for seed in seeds]  # type: ignore[return-value]


def hunt(name: str) -> tuple[str, int, str]:
    """How many schedules it takes to find a planted fault, and what found it; 0: it was not found."""
    from .mutants import planted

    with planted(name):
        for number in range(MOST):
            if problems := one(number).problems:
                return name, number + 1, problems[0].partition("\n")[0][:150]
    return name, 0, ""


def faults(jobs: int, only: str) -> int:
    from .mutants import MUTANTS

    missed = 0
    names = [name for name in MUTANTS if only in name]
    with multiprocessing.get_context("fork").Pool(jobs) as pool:
        for name, taken, problem in pool.imap_unordered(hunt, names):
            missed += not taken
            print(f"| {name} | {taken or f'not within {MOST}'} | {problem} |", flush=True)
    return 1 if missed else 0


MOST = 10_000


def main() -> int:
    global MOST
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--schedules", type=int, default=500)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument(
        "--faults", nargs="?", const="", metavar="TEXT", help="hunt the planted faults (with this text)"
    )
    parser.add_argument("--most", type=int, default=MOST)
    options = parser.parse_args()
    if os.environ.get("PYTHONHASHSEED") != "0":
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], {**os.environ, "PYTHONHASHSEED": "0"})
    MOST = options.most
    if options.faults is not None:
        return faults(options.jobs, options.faults)
    if options.seed is not None:
        outcome = one(options.seed, trace=True)
        print(outcome.what, outcome.outcome, dict(outcome.faults), *outcome.problems, sep="\n")
        return 1 if outcome.problems else 0
    began, bad, struck, outcomes, done = time.monotonic(), [], Counter(), Counter(), 0  # type: ignore[var-annotated]
    seeds = range(options.first, options.first + options.schedules)
    chunks = [list(seeds[at : at + 20]) for at in range(0, len(seeds), 20)]
    said = began
    with multiprocessing.get_context("fork").Pool(options.jobs) as pool:
        for found in pool.imap_unordered(several, chunks):
            for outcome in found:
                done += 1
                struck += outcome.faults
                outcomes[str(outcome.outcome)[:40]] += 1
                if outcome.problems:
                    bad.append(outcome)
                    print(f"seed {outcome.seed}: {outcome.what}: {outcome.problems[0][:600]}", flush=True)
            if time.monotonic() - said > PROGRESS_SECONDS:
                said = time.monotonic()
                print(f"... {done} of {len(seeds)}, {len(bad)} wrong", flush=True)
    print(f"{done} schedules in {time.monotonic() - began:.0f} s, {len(bad)} wrong")
    print("faults:", ", ".join(f"{name} {count}" for name, count in struck.most_common()))
    print("outcomes:", ", ".join(f"{name} {count}" for name, count in outcomes.most_common()))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
