"""The old driver's side of a hand-over."""

from __future__ import annotations

import contextlib
import sys

from ...core import clock
from ...core.boundaries import boundary
from ...core.coordination.successor import Successor
from ...core.errors import DriverError, FencedError, StorageError, StreamUpdateError
from ...core.registry.deployment import DRAINING, RESTORING, RUNNING, Current
from .context import DriverContext

GONE_SECONDS = 60.0  # it looks whether its epoch is over with each heartbeat, and stops its queries at once


def hand_over(driver: DriverContext, successor: Successor) -> None:
    """Let `successor` continue from here, and wait until it has committed: until then this driver can take back.

    The point of no return is one exclusive creation: the claim of the next epoch for the successor.
    """
    successor.check_ready()
    driver.report(state=DRAINING)
    driver.engine.drain()
    driver.successor = successor  # before the claim, which would fence this driver in the moment after it
    try:
        claimed = driver.app.claim(Current(deployment=successor.deployment, epoch=successor.epoch))
    except StorageError:
        driver.successor = None
        raise
    if not claimed:
        raise FencedError(
            f"another driver claimed epoch {successor.epoch} of {driver.spec.app} while this one was draining"
        )
    driver.reporter.events.add("handed over", to=successor.deployment, to_epoch=successor.epoch)
    boundary("handed-over")
    deadline = clock.monotonic() + driver.pace.takeover
    while driver.signals.number is None:
        death = None
        with contextlib.suppress(StorageError):  # the next look may get through
            if successor.committed():
                return
            death = successor.death()
        if death is None and clock.monotonic() > deadline:
            death = f"it has not committed a batch in {driver.pace.takeover:g} s"
        if death and _take_back(driver, successor):
            raise DriverError(
                f"deployment {successor.deployment} took over and failed: {death}; {driver.spec.deployment} "
                f"continues where it was drained, in epoch {driver.epoch.number}"
            )
        driver.signals.woken.wait(driver.pace.commands)


def _wait_gone(driver: DriverContext, successor: Successor) -> None:
    """Wait until a successor that lives has noticed that its epoch is over, and has ended: a batch of it could come to
    the sink after this driver has looked there. One that does not end, or gives no sign of life, is kept from beginning
    another batch."""
    deadline = clock.monotonic() + GONE_SECONDS
    while driver.signals.number is None:
        with contextlib.suppress(StorageError):
            status = successor.status()
            if successor.is_gone(status) or (status is not None and status.final):
                return
            if successor.death() is not None or driver.signals.evicted or clock.monotonic() > deadline:
                _fence(successor)
                return
        driver.signals.woken.wait(driver.pace.commands)
    raise driver.signals.exit()


def _fence(successor: Successor) -> None:
    try:
        successor.fence()
    except StorageError:
        raise
    except StreamUpdateError as error:  # of a newer release, for example: the app is not to stay down for it
        print(f"WARNING: {successor.deployment} may run and could not be fenced: {error}", file=sys.stderr)


def _take_back(driver: DriverContext, successor: Successor) -> bool:
    """Take the epoch back; False when the storage failed, so that it can be tried again."""
    epoch = successor.epoch + 1
    try:
        claimed = driver.app.claim(Current(deployment=driver.spec.deployment, epoch=epoch, promoted=True))
    except StorageError:
        return False
    if not claimed:
        raise FencedError(f"another driver claimed epoch {epoch} of {driver.spec.app} before this one could take back")
    boundary("taken-back")
    driver.epoch.number, driver.box, driver.successor = epoch, driver.box.of_epoch(epoch), None
    with contextlib.suppress(StorageError):  # no other driver is started for this epoch
        driver.epoch.claim()
    driver.report(state=RESTORING, epoch=epoch)  # no longer draining: its queries are not to start before
    _wait_gone(driver, successor)
    driver.check_fence()
    while True:
        try:
            driver.skip_used_batch_ids()
            break
        except StorageError:  # it has the epoch, and no query may go on without
            if driver.signals.number is not None:
                raise driver.signals.exit() from None
            driver.signals.woken.wait(driver.pace.commands)
    driver.engine.start()
    driver.report(state=RUNNING, reason=f"taken back from {successor.deployment}")
    return True
