"""One process is killed at each boundary of its way in turn, and started again each time."""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping

from airflow_provider_streamupdate.core.boundaries import KILL, WAIT

from .cases import SUPERVISOR, TASK
from .ground import Ground
from .stuck import Stuck
from .worker import Worker

FAILURES = 4  # of the process that nobody killed: Airflow's retries
CHAIN_SECONDS = 1800.0


def strike_each(ground: Ground, worker: Worker, boundaries: Mapping[str, str], over: Callable[[], bool]) -> int:
    """Start a process of the suite's own; it is killed at every boundary that it gets to, and at every one that a
    driver gets to, which waits there meanwhile. How often, once it is over.

    boundaries: each with who gets to it
    over: asked when the process has ended, or been killed
    """
    own = {boundary for boundary, process in boundaries.items() if process in (TASK, SUPERVISOR)}
    waiting = set(boundaries) - own
    for boundary in boundaries:
        ground.arm(boundary, KILL if boundary in own else WAIT)
    failures = 0

    def ended() -> bool | None:
        nonlocal failures
        for boundary in [b for b in sorted(waiting) if ground.reached(b)]:
            waiting.discard(boundary)
            worker.kill()
            if not over():
                worker.start()
            ground.go(boundary)
        if not worker.ended():
            return None
        if over():
            return True
        failures += worker.code != -signal.SIGKILL
        if failures > FAILURES:
            raise Stuck(f"the process failed {failures} times that nobody killed it; see {worker.log}")
        worker.start()
        return None

    worker.start()
    ground.wait(ended, "the end of a process that is killed at each boundary", CHAIN_SECONDS)
    struck = [ground.reached(boundary) for boundary in boundaries]
    # A process that was killed may find done what lies before the next boundary, and not come to that one.
    excused = [True, *struck]
    missed = [b for b, now, before in zip(boundaries, struck, excused, strict=False) if not (now or before)]
    if missed:
        raise Stuck(f"nobody got to {', '.join(missed)}, nor to the boundary before; see {worker.log}")
    return sum(struck)
