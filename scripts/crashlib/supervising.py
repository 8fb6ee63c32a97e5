"""A case of a supervisor: the app's driver dies, and what starts it again is struck."""

from __future__ import annotations

import time

from .cases import EVERY, NEW, Case
from .chain import missed, strike_each
from .ground import Ground
from .result import Result
from .striking import await_looks, end_supervisor, strike
from .stuck import Stuck


def run_supervise(ground: Ground, case: Case) -> Result:
    began = time.monotonic()
    supervisor = ground.supervisor()
    problems, lost, duplicated, stuck, faults = list[str](), 0, 0, False, 1
    version = ground.version()
    try:
        ground.kill(ground.current())
        if case.boundary == EVERY:
            left = case.every()
            faults, last = len(left), list(left)[-1]
            strike_each(ground, supervisor, case, left, lambda: ground.reached(last))
            faults -= len(left)
            if never := missed(case, left):
                raise Stuck(f"nobody got to {', '.join(never)}, nor to those before")
            if supervisor.ended():
                supervisor.start()
                await_looks(ground, supervisor, 1)
        else:
            strike(ground, case, supervisor, {NEW: lambda: ground.kill(ground.current())})
        ground.forget()
        written = ground.settle()
        answer = ground.oracle.check(written, went_back=False, version=version)
        problems, lost, duplicated = list(answer.problems), answer.lost, answer.duplicated
        problems += ground.place.problems()
        problems += end_supervisor(supervisor)
    except Stuck as error:
        problems, stuck = [*problems, str(error)], True
    finally:
        supervisor.kill()
    return Result(
        case=case.name,
        lost=lost,
        duplicated=duplicated,
        stuck=stuck,
        faults=faults,
        problems=tuple(problems),
        seconds=round(time.monotonic() - began, 1),
        log=str(supervisor.log),
    )
