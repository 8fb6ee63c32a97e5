"""The log of a driver, written into the log of the task that starts it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ...core.errors import DriverError

if TYPE_CHECKING:
    from ...control.client import StreamUpdateClient

LOOK_SECONDS = 0.5  # between two checks whether the driver was started
RETRY_SECONDS = 5.0  # after an error, which may pass
MOST_LINES = 10_000  # of what a driver wrote before it was looked for
LAST_SECONDS = 3.0  # for what a driver wrote until the block failed


@contextmanager
def driver_lines(
    client: StreamUpdateClient, which: Callable[[], tuple[str, str] | None], log: Any, wanted: bool
) -> Iterator[None]:
    """While the block runs, copy the log of a deployment's driver to `log`, each line after the deployment's name.

    Of a driver that was started before, only new lines are copied. A log that cannot be read here is reported once; the
    block does not depend on it.

    which: returns the app and the deployment; None: not known yet
    """
    if not wanted:
        yield
        return
    over, ending = threading.Event(), threading.Event()
    before = _started(client, which)

    def copy_lines() -> None:
        done, problem = None, None  # the driver whose log was read to its end; the last problem reported
        while True:
            last = ending.is_set()  # read first: a driver that was started until then is still copied
            if (started := _started(client, which)) is None or started == done:
                if last:
                    return
                ending.wait(LOOK_SECONDS)
                continue
            app, deployment, _ = started
            lines = 0 if started == before or problem is not None else MOST_LINES
            try:
                for line in client.follow_log(app, deployment, lines, over.is_set):
                    if over.is_set():
                        return
                    log.info("[%s] %s", deployment, line)
            except Exception as error:
                if str(error) != problem:
                    log.warning("the log of the driver of %s is not shown here: %s", deployment, error)
                problem = str(error)
                if isinstance(error, DriverError) and not last:  # the cluster does not answer
                    ending.wait(RETRY_SECONDS)
                    continue
            done = started

    thread = threading.Thread(target=copy_lines, name="driver-lines", daemon=True)
    thread.start()
    try:
        yield
    except Exception:
        ending.set()
        thread.join(LAST_SECONDS)  # the last words of a driver that died
        raise
    finally:
        over.set()
        ending.set()


def _started(
    client: StreamUpdateClient, which: Callable[[], tuple[str, str] | None]
) -> tuple[str, str, tuple[object, ...]] | None:
    """Return the app, the deployment and what identifies its newest driver; None: there is none."""
    try:
        if (found := which()) is None:
            return None
        app, deployment = found
        launch = client.registry.app(app).launch(deployment)
    except Exception:
        return None
    return None if launch is None else (app, deployment, (launch.epoch, launch.launched_at))
