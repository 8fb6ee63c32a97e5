"""A case of a supervisor: the app's driver dies, and what starts it again is struck."""

from __future__ import annotations

import time

from airflow_provider_streamupdate.control.update.strategies.restart import Restart
from airflow_provider_streamupdate.core.boundaries import WAIT

from .cases import EVERY, NEW, SUPERVISOR, UPDATE, USER, Case
from .chain import strike_each
from .ground import Ground
from .result import Result
from .striking import LOOKS, UPDATE_SECONDS, await_boundary, await_looks, end_supervisor, strike, update_ended
from .stuck import Stuck
from .supervisor import Supervisor
from .update import Update


def run_supervise(ground: Ground, case: Case) -> Result:
    began = time.monotonic()
    first, others = ground.supervisor(), [ground.supervisor()] if case.pair else []
    problems, lost, duplicated, stuck, outcome, faults = list[str](), 0, 0, False, None, 1
    version = ground.version()
    try:
        ground.kill(ground.current())
        if case.victims[0] in (USER, UPDATE):
            outcome, version = _meanwhile(ground, case, first)
        elif case.boundary == EVERY:
            faults = _strike_each(ground, case, first)
        else:
            _strike(ground, case, [first, *others])
        ground.forget()
        written = ground.settle()
        answer = ground.oracle.check(written, went_back=False, version=version)
        problems, lost, duplicated = list(answer.problems), answer.lost, answer.duplicated
        problems += ground.place.problems()
        for alive in (s for s in (first, *others) if not (case.pair and s.ended())):
            problems += end_supervisor(alive)
    except Stuck as error:
        problems, stuck = [*problems, str(error)], True
    finally:
        for supervisor in (first, *others):
            supervisor.kill()
    return Result(
        case=case.name,
        outcome=outcome,
        lost=lost,
        duplicated=duplicated,
        stuck=stuck,
        faults=faults,
        problems=tuple(problems),
        seconds=round(time.monotonic() - began, 1),
        log=str(first.log),
    )


def _strike(ground: Ground, case: Case, supervisors: list[Supervisor]) -> None:
    first = supervisors[0]
    victims = {SUPERVISOR: first.kill, NEW: lambda: ground.kill(ground.current())}
    strike(ground, case, supervisors, victims)
    if SUPERVISOR in case.victims and not case.pair:
        ground.wait(lambda: first.ended() or None, "the supervisor's end", UPDATE_SECONDS)
        first.start()


def _strike_each(ground: Ground, case: Case, supervisor: Supervisor) -> int:
    boundaries = case.every()
    last = list(boundaries)[-1]
    faults = strike_each(ground, supervisor, boundaries, lambda: ground.reached(last))
    supervisor.start()
    await_looks(ground, supervisor, 1)
    return faults


def _meanwhile(ground: Ground, case: Case, supervisor: Supervisor) -> tuple[str | None, str]:
    """While the supervisor waits, somebody else starts the app, and is refused where the supervisor has locked it. The
    update's outcome, and the version that has to run."""
    locked = case.boundary == "start-counted"
    version = ground.version()
    ground.arm(case.boundary, WAIT)
    supervisor.start()
    await_boundary(ground, [supervisor], case.boundary)
    other = ground.update(Restart.name, fails=False) if case.victims == (UPDATE,) else ground.restarting()
    other.start()
    ground.wait(lambda: other.ended() or None, "the end of what is done meanwhile", UPDATE_SECONDS)
    if (other.code == 0) is locked:
        raise Stuck(f"what was done meanwhile ended with {other.code}; see {other.log}")
    ground.go(case.boundary)
    await_looks(ground, supervisor, LOOKS)
    if isinstance(other, Update):
        if locked:
            ground.settle()
            other.start()
            update_ended(ground, other)
        version = other.runs()[1]
    if not locked and "was not started" not in supervisor.log.read_text():
        raise Stuck(f"the supervisor started the app, too; see {supervisor.log}")
    return (other.outcome() if isinstance(other, Update) else None), version
