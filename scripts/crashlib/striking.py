"""A case of an update: the update is struck at its boundary, run again until it has ended, and its results compared."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Mapping

import attrs

from airflow_provider_streamupdate.core.boundaries import WAIT
from airflow_provider_streamupdate.core.registry.update import PROMOTED

from .cases import EVERY, NEW, OLD, STORAGE, TASK, Case
from .chain import missed, strike_each
from .ground import Ground
from .result import Result
from .stuck import Stuck
from .supervisor import Supervisor
from .update import Update
from .worker import Worker

TRIES = 4  # of the update's process: Airflow's retries
UPDATE_SECONDS = 900.0  # one try may take
END_SECONDS = 60.0  # a supervisor may take to end


def run_update(ground: Ground, case: Case) -> Result:
    """Run the case. Where a storage call that fails ends the update, what is left is struck in another one."""
    left = case.every() if case.boundary == EVERY else {}
    result = _run_update(ground, case, left)
    while left and STORAGE in case.victims and result.outcome != PROMOTED and not result.bad:
        before, result = len(left), result.and_then(_run_update(ground, case, left))
        if len(left) == before:
            break
    if (never := missed(case, left)) and not result.bad:
        result = attrs.evolve(result, stuck=True, problems=(f"nobody got to {', '.join(never)}, nor to those before",))
    return result


def _run_update(ground: Ground, case: Case, boundaries: dict[str, str]) -> Result:
    """boundaries: to strike one after the other; those that were reached are removed"""
    began = time.monotonic()
    update = ground.update(case.strategy, case.fails)
    tries, faults, outcome, problems, lost, duplicated, stuck = 1, 1, None, list[str](), 0, 0, False
    try:
        if case.boundary == EVERY:
            faults = len(boundaries)
            strike_each(ground, update, case, boundaries, lambda: update.outcome() is not None)
            faults -= len(boundaries)
        else:
            victims = {TASK: update.kill, OLD: lambda: ground.kill(update.old), NEW: lambda: ground.kill(update.new)}
            strike(ground, case, update, victims)
        if case.alone:
            ground.settle()
        while not update_ended(ground, update):
            if (tries := tries + 1) > TRIES:
                raise Stuck(f"the update has not ended after {TRIES} tries: {ground.describe()}")
            update.start()
        ground.forget()
        outcome = update.outcome()
        deployment, version = update.runs()
        if ground.current() != deployment:
            raise Stuck(f"the update was {outcome}, and {ground.current()} is current instead of {deployment}")
        if unended := [r.number for r in ground.registry.rollbacks() if r.ended_at is None]:
            problems.append(f"rollbacks {unended} are said to be under way")
        other = update.look_at_other_sink()
        written = ground.settle()
        went_back = outcome != PROMOTED or case.alone
        for answer in (other, ground.oracle.check(written, went_back, version)):
            problems, lost, duplicated = (
                [*problems, *answer.problems],
                lost + answer.lost,
                duplicated + answer.duplicated,
            )
        problems += ground.place.problems()
    except Stuck as error:
        outcome, problems, stuck = update.outcome(), [*problems, str(error)], True
    finally:
        update.kill()
    return Result(
        case=case.name,
        outcome=outcome,
        lost=lost,
        duplicated=duplicated,
        stuck=stuck,
        problems=tuple(problems),
        tries=tries,
        faults=faults,
        seconds=round(time.monotonic() - began, 1),
        log=str(update.log),
    )


def strike(ground: Ground, case: Case, worker: Worker, victims: Mapping[str, Callable[[], object]]) -> None:
    """Start the process, wait until a driver gets to the boundary, where it waits, and kill whom the case says."""
    ground.arm(case.after or case.boundary, WAIT)
    worker.start()
    if case.after:
        await_boundary(ground, worker, case.after)
        ground.arm(case.boundary, WAIT)
        ground.go(case.after)
    await_boundary(ground, worker, case.boundary)
    for victim in case.victims:
        victims[victim]()
    ground.go(case.boundary)


def await_boundary(ground: Ground, worker: Worker, boundary: str) -> None:
    """Wait until somebody gets there, which is impossible once this process has ended before."""

    def reached() -> bool | None:
        ended = worker.ended()  # looked at first: it may get there and end
        if ground.reached(boundary):
            return True
        if ended:
            raise Stuck(f"the process ended without anybody reaching boundary {boundary}; see {worker.log}")
        return None

    ground.wait(reached, f"somebody to get to {boundary}", UPDATE_SECONDS)


def update_ended(ground: Ground, update: Update) -> bool:
    """Whether the update has ended; waits for the end of its process."""
    ground.wait(lambda: update.ended() or None, "the end of the update's process", UPDATE_SECONDS)
    return update.outcome() is not None


def await_looks(ground: Ground, supervisor: Supervisor, more: int) -> None:
    """Wait until a supervisor that nothing keeps from it has looked so often again."""
    before = supervisor.looks()
    ground.wait(lambda: supervisor.looks() >= before + more or None, "a supervisor's look", END_SECONDS)


def end_supervisor(supervisor: Supervisor) -> list[str]:
    """End a supervisor that has to live; what is wrong with it."""
    if supervisor.ended():
        return [f"the supervisor died; see {supervisor.log}"]
    try:
        code = supervisor.end(END_SECONDS)
    except subprocess.TimeoutExpired:
        return [f"the supervisor did not end in {END_SECONDS:g} s; see {supervisor.log}"]
    return [f"the supervisor ended with {code}; see {supervisor.log}"] if code else []
