"""A case of a hot standby: the app's driver dies, and the one that takes over is struck."""

from __future__ import annotations

import time

from airflow_provider_streamupdate.core.boundaries import FAIL, WAIT
from airflow_provider_streamupdate.core.errors import LeaseHeldError
from airflow_provider_streamupdate.core.registry import hot_standby

from .cases import EVERY, Case
from .chain import missed
from .ground import APP, Ground
from .result import Result
from .striking import UPDATE_SECONDS, await_boundary, await_looks, end_supervisor
from .stuck import Stuck


def run_hot_standby(ground: Ground, case: Case) -> Result:
    began = time.monotonic()
    supervisor, version = ground.supervisor(), ground.version()
    problems, lost, duplicated, stuck, faults = list[str](), 0, 0, False, 1
    try:
        leader = ground.current()
        hot = stand_by(ground)
        supervisor.start()
        await_looks(ground, supervisor, 1)
        for boundary in case.every() if case.boundary == EVERY else [case.boundary]:
            ground.arm(boundary, FAIL if case.boundary == EVERY else WAIT)
        ground.kill(leader)
        if case.boundary == EVERY:
            await_boundary(ground, supervisor, list(case.every())[-1])
            left = [boundary for boundary in case.every() if not ground.reached(boundary)]
            faults = len(case.every()) - len(left)
            if never := missed(case, left):
                raise Stuck(f"nobody got to {', '.join(never)}, nor to those before")
        else:
            await_boundary(ground, supervisor, case.boundary)
            ground.kill(hot)
            ground.go(case.boundary)
        ground.forget()
        stand_down(ground)
        written = ground.settle()
        answer = ground.oracle.check(written, went_back=False, version=version)
        problems, lost, duplicated = list(answer.problems), answer.lost, answer.duplicated
        if case.boundary == EVERY and ground.current() != hot:
            problems.append(f"{ground.current()} is current, and not {hot}")
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


def stand_by(ground: Ground) -> str:
    """Give the app a hot standby; its deployment."""
    ground.call(f".stand_by({APP!r}, timeout={UPDATE_SECONDS})")
    wanted = hot_standby.read(ground.registry.folder)
    assert wanted is not None  # it was started
    return wanted.deployment


def stand_down(ground: Ground) -> None:
    """The app is to have no hot standby any more, once it runs again and nobody works on it."""

    def down() -> bool | None:
        if ground.client.status(APP).state != "running":
            return None
        try:
            ground.client.stand_down(APP)
        except LeaseHeldError:
            return None
        return True

    ground.wait(down, f"{APP} to run again", UPDATE_SECONDS)
