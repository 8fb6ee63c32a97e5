"""A driver whose queries run."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor

from ...core import clock
from ...core.errors import DriverError, StorageError
from ...core.registry.deployment import DRAINING, RUNNING, QueryStatus
from ...core.storage.patience import Patience
from .command_execution import execute
from .context import DriverContext

TOLD_TO_END = "the cluster ended its driver (its pod was deleted or evicted, or its node is drained)"


def serve(driver: DriverContext) -> None:
    """Watch the queries and carry out commands, one at a time, beside the heartbeat."""
    driver.serving = True
    with ThreadPoolExecutor(1) as worker:
        task: Future[None] | None = None
        next_progress, next_look, patience = 0.0, 0.0, Patience(driver.settings.patience)
        busy_at, told = clock.monotonic(), False
        while driver.final is None:
            if task is not None and task.done():
                task.result()
                task = None
            if driver.signals.evicted and task is None:
                leave(driver)
                break
            if driver.signals.number is not None:
                driver.final = driver.end_by_signal()
                break
            now, command = clock.monotonic(), None
            if task is not None:
                busy_at = now
            idle = not driver.folder.cheap_calls and now - busy_at >= driver.pace.idle_after
            driver.reporter.every = driver.pace.idle_heartbeat if idle else driver.pace.heartbeat
            try:
                if now >= next_progress:
                    driver.check_fence()
                    queries = driver.engine.progress()
                    driver.recorder.note(queries)
                    driver.reporter.report(queries=queries)
                    if not told and (firsts := _first_commits(queries)):
                        driver.reporter.events.add("first batch", queries=firsts)
                        told = True
                    next_progress = clock.monotonic() + driver.reporter.every
                    patience.reached()
                if task is None and now >= next_look:
                    command = next(iter(driver.box.pending(refuse=True)), None)
                    next_look = clock.monotonic() + (driver.pace.idle_commands if idle else 0.0)
                    patience.reached()
            except StorageError:  # a query that can do without it goes on
                if patience.over():
                    raise
            if command is not None:
                busy_at, next_look = now, 0.0
                task = worker.submit(execute, driver, command)
            elif task is None and driver.reporter.state == RUNNING and driver.engine.ended():
                return
            driver.signals.woken.wait(driver.pace.commands)


def _first_commits(queries: Mapping[str, QueryStatus]) -> dict[str, str] | None:
    """Return by name when each query committed its first batch (ISO); None until all have."""
    found = {name: query.first_commit_at for name, query in queries.items()}
    known = {name: at for name, at in found.items() if at is not None}
    return known if known and len(known) == len(found) else None


def leave(driver: DriverContext) -> None:
    """End the queries after the batches in flight, and raise DriverError. A batch that takes longer than the pod's
    grace period is cut, as by any crash; one of a driver that is fenced, too."""
    driver.check_fence()
    if driver.final is not None:
        return
    if driver.reporter.state == RUNNING:
        driver.report(state=DRAINING)
        driver.engine.drain()
    raise DriverError(TOLD_TO_END)
