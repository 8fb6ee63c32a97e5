"""One process is struck at each boundary of its way in turn, and started again each time it has ended."""

from __future__ import annotations

import signal
from collections.abc import Callable

from airflow_provider_streamupdate.core.boundaries import FAIL, KILL, WAIT

from .cases import STORAGE, SUPERVISOR, TASK, Case
from .ground import Ground
from .stuck import Stuck
from .worker import Worker

FAILURES = 4  # of the process that nobody killed: Airflow's retries
CHAIN_SECONDS = 1800.0


def strike_each(ground: Ground, worker: Worker, case: Case, over: Callable[[], bool]) -> int:
    """Start a process of the suite's own. It is killed at every boundary that it gets to, and at every one that a
    driver gets to, which waits there meanwhile; or the next storage call of whoever gets to one fails. Return how many
    boundaries were reached, once it is over.

    over: asked when the process has ended, or been killed
    """
    boundaries, storage = case.every(), case.victims == (STORAGE,)
    own = {boundary for boundary, process in boundaries.items() if process in (TASK, SUPERVISOR)}
    waiting = set[str]() if storage else set(boundaries) - own
    for boundary in boundaries:
        ground.arm(boundary, FAIL if storage else KILL if boundary in own else WAIT)
    allowed = FAILURES + len(boundaries) * storage
    failures = 0

    def ended() -> bool | None:
        nonlocal failures
        for boundary in [b for b in sorted(waiting) if ground.reached(b)]:
            waiting.discard(boundary)
            worker.kill()
            if not over():
                worker.start()
            ground.go(boundary)
        if not worker.ended():  # a supervisor does not end for a storage call that failed
            return (storage and over()) or None
        if over():
            return True
        failures += worker.code != -signal.SIGKILL
        if failures > allowed:
            raise Stuck(f"the process failed {failures} times that nobody killed it; see {worker.log}")
        worker.start()
        return None

    worker.start()
    ground.wait(ended, "the end of a process that is struck at each boundary", CHAIN_SECONDS)
    return count_struck(ground, case)


def count_struck(ground: Ground, case: Case) -> int:
    """Return how many boundaries of the way were reached. Stuck when one was left out, and the one before it."""
    boundaries = case.every()
    struck = [ground.reached(boundary) for boundary in boundaries]
    # A process that is started again may find done what lies before the next boundary, and not come to that one.
    excused = [True, *struck]
    missed = [b for b, now, before in zip(boundaries, struck, excused, strict=False) if not (now or before)]
    if missed:
        raise Stuck(f"nobody got to {', '.join(missed)}, nor to the boundary before")
    return sum(struck)
