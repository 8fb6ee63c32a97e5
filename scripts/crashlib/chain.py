"""One process is struck at each boundary of its way in turn, and started again each time it has ended."""

from __future__ import annotations

import itertools
import signal
from collections.abc import Callable, Collection

from airflow_provider_streamupdate.core.boundaries import FAIL, KILL, WAIT

from .cases import STORAGE, SUPERVISOR, TASK, Case
from .ground import Ground
from .stuck import Stuck
from .worker import Worker

FAILURES = 4  # of the process that nobody killed: Airflow's retries
CHAIN_SECONDS = 1800.0


def strike_each(
    ground: Ground, worker: Worker, case: Case, boundaries: dict[str, str], over: Callable[[], bool]
) -> None:
    """Start a process of the suite's own. It is killed at every boundary that it gets to, and at every one that a
    driver gets to, which waits there meanwhile; or the next storage call of whoever gets to one fails. Ends
    once it is over.

    boundaries: each with who gets to it; those that were reached are removed
    over: asked when the process has ended, or been killed
    """
    storage = case.victims == (STORAGE,)
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
    for boundary in [boundary for boundary in boundaries if ground.reached(boundary)]:
        del boundaries[boundary]


def missed(case: Case, left: Collection[str]) -> list[str]:
    """Return what is left of a way whose boundary before is left, too: a process that is started again may find done
    what lies before the next one, and not come to that one."""
    way = itertools.pairwise(case.every())
    return [boundary for before, boundary in way if before in left and boundary in left]
