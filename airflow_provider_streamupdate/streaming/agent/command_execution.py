"""What a driver does when it is told to."""

from __future__ import annotations

import contextlib

import attrs

from ...core.boundaries import boundary
from ...core.coordination import commands as words
from ...core.coordination.commands import Command
from ...core.coordination.successor import Successor
from ...core.errors import DriverError, FencedError, NotRunningError, RefusedError, StreamUpdateError, describe
from ...core.registry.deployment import CANCELLED, DRAINING, RESTORING, RUNNING, SUSPENDED
from ...core.registry.in_flight import ChangeRequest, kept_out
from ...core.snapshots.export import export
from .context import DriverContext, print_error
from .hand_over import hand_over


def execute(driver: DriverContext, command: Command) -> None:
    """Carry out a command and answer it."""
    driver.reporter.events.add("command", name=command.name, kind=command.kind)
    boundary("command-taken")
    box = driver.box  # of the epoch the command belongs to: after a take-back this driver has another
    try:
        final = _carry_out(driver, command)
    except FencedError:
        raise  # nothing may run here any more
    except Exception as error:
        print_error()
        if driver.successor is not None:
            raise FencedError(f"{driver.successor.deployment} may commit now: {describe(error)}") from error
        if driver.reporter.state == DRAINING:  # nothing was lost: go on where it stopped
            driver.engine.start()
            driver.report(state=RUNNING)
        box.answer(command.name, error=describe(error))
        if driver.reporter.state == RESTORING:  # it took back, and what its sinks hold lets no query go on
            raise
        return
    if final is not None:
        # The answer first: who asked sees it even if this process dies before its final status.
        driver.report(queries=driver.engine.progress())
        box.answer(command.name)
        boundary("answered")
        driver.final = final
        driver.signals.woken.set()
    else:
        box.answer(command.name)


def _carry_out(driver: DriverContext, command: Command) -> tuple[str, str | None] | None:
    if command.kind == words.SNAPSHOT:
        name = str(command.snapshot)
        if command.successor:
            hand_over(driver, Successor(driver.app, command.successor, driver.epoch.number + 1))
            boundary("successor-committed")
            with contextlib.suppress(StreamUpdateError):  # whoever finds it missing exports what is here
                export(
                    driver.app,
                    driver.spec.deployment,
                    name,
                    driver.engine.plan,
                    True,
                    driver.engine.progress(),
                )
            return CANCELLED, f"handed over to {command.successor}"
        if command.cancel:
            driver.report(state=DRAINING)
            driver.engine.drain()
        export(
            driver.app,
            driver.spec.deployment,
            name,
            driver.engine.plan,
            command.cancel,
            driver.engine.progress(),
        )
        driver.reporter.events.add("snapshot", name=name, cancel=command.cancel)
        return (CANCELLED, f"snapshot {name} taken with cancel") if command.cancel else None
    if command.kind == words.DRAIN:
        driver.report(state=DRAINING)
        driver.engine.drain()
        return CANCELLED, "drained"
    if command.kind == words.CANCEL:
        driver.engine.stop()
        return CANCELLED, "cancelled"
    if command.kind == words.SUSPEND:
        driver.report(state=DRAINING)
        driver.engine.drain()
        driver.report(state=SUSPENDED, reason="suspended")
        return None
    if command.kind == words.RESUME:
        driver.start()
        return None
    if command.kind == words.CHANGE:
        assert command.change is not None
        _change(driver, command.change)
        return None
    raise StreamUpdateError(
        f"this driver does not know the command {command.kind!r}: it runs another version of this package"
    )


def _change(driver: DriverContext, request: ChangeRequest) -> None:
    """Continue with other parameters in the same session. RefusedError before anything is stopped. When a query
    fails before it has committed a batch with them, the old ones are restored and the error is raised."""
    if driver.reporter.state != RUNNING:
        raise NotRunningError(f"app {driver.spec.app} is {driver.reporter.state}; it must be running to be changed")
    if driver.app.spec(driver.spec.deployment).application.params == request.params:
        return  # done by an earlier try
    changes = driver.app.changes(driver.spec.deployment)
    if any(change.request.id == kept_out(request.id) for change in changes):
        raise RefusedError(f"the update to {request.id} was rolled back while this driver was silent")
    driver.engine.rebuild(request)
    driver.report(state=DRAINING)
    driver.engine.drain()
    since = driver.engine.committed()
    driver.check_fence()
    # From here on it counts, for a driver that is started later, too. A creation whose answer is lost may have counted.
    with driver.patiently():
        change = driver.app.add_change(driver.spec.deployment, request, after=len(changes))
    driver.reporter.hiding = driver.reporter.hiding.also(request.params)
    try:
        driver.reporter.events.add("changed", id=request.id, by=request.asked_by, parameters=change.changed)
        driver.engine.replace()
        _go_on(driver)
        while not driver.engine.has_settled(since) and driver.signals.number is None:
            driver.signals.woken.wait(driver.pace.commands)
        boundary("change-settled")
    except Exception as error:
        driver.report(state=DRAINING)
        driver.engine.stop()
        undo = attrs.evolve(request, params=change.before, digest=change.digest_before)
        with driver.patiently():  # it is not to run with parameters that the record does not have
            driver.check_fence()
            driver.app.add_change(driver.spec.deployment, undo, undoes=describe(error))
        driver.engine.put_back()
        _go_on(driver)
        driver.reporter.events.add("change undone", id=request.id, reason=describe(error))
        raise DriverError(
            f"{driver.spec.app} failed with these parameters and continues with the old ones: {describe(error)}"
        ) from error


def _go_on(driver: DriverContext) -> None:
    with driver.patiently():
        driver.note_plan()
    driver.start()
