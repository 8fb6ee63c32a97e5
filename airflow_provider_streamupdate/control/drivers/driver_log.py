"""The end of a driver's log, for readers in another process, perhaps on another machine, and for error messages.

All logs are read through this module, so that no shown line contains a secret of the application.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import attrs

from ...core.errors import NotFoundError
from ...core.registry.application import Application
from ...core.registry.deployment import Launch
from ...core.registry.hiding import Hiding
from ...core.registry.output_log import own_log
from ...core.registry.registry import AppRegistry
from ...core.storage.ownership import owner_text
from .clusters import cluster_of
from .log_tail import around_error, follow, tail

LINES = 200
ERROR_LINES = 30  # in the text of an error
LOOKED_AT = 3000  # last lines among which an error is looked for
LINE_LENGTH = 2000  # characters shown of a line


@attrs.frozen(kw_only=True)
class DriverLog:
    """The end of a driver's log.

    lines: the last ones, oldest first
    note: why there are none, or whose log it is
    host, path: where the log is
    """

    deployment: str
    host: str | None
    path: str | None
    lines: tuple[str, ...] = ()
    note: str | None = None

    def __str__(self) -> str:
        """The text at the end of an error message."""
        note = f" ({self.note})" if self.note else ""
        return "\n".join((f"last lines of {self.path}{note}:", *self.lines)) if self.lines else f"({self.note})"


def driver_log(registry: AppRegistry, deployment: str, lines: int = LINES, around: bool = False) -> DriverLog:
    """Return the end of the log of a deployment's newest driver, without the values of secret parameters.

    NotFoundError for an unknown deployment.

    around: the lines around the last error instead of the last ones
    """
    spec = registry.spec(deployment)
    launch = registry.launch(deployment)
    if launch is None:
        return DriverLog(deployment=deployment, host=None, path=None, note="no driver was started")
    if (found := cluster_of(launch).last_log(launch, LOOKED_AT if around else lines)) is not None:
        place, text = found
        shown = _shown(text, Hiding.of([spec]), lines if around else None)
        return DriverLog(deployment=deployment, host=None, path=place, lines=shown)
    log = _log_here(launch, registry, deployment)
    if isinstance(log, str):
        return DriverLog(deployment=deployment, host=launch.host, path=launch.log, note=log)
    return DriverLog(
        deployment=deployment,
        host=launch.host,
        path=launch.log,
        lines=last_lines(log, spec.application, lines, around),
        note=_whose(registry, deployment, launch),
    )


def follow_log(
    registry: AppRegistry,
    deployment: str,
    lines: int,
    ended: Callable[[], bool],
    over: Callable[[], bool] = lambda: False,
) -> Iterator[str]:
    """Yield the last lines of the log of a deployment's newest driver, and each later one, until it has ended. Of one
    that is being submitted to a cluster, first what spark-submit writes.

    ended: whether it has, for a log that does not tell; over: whether nobody wants more. NotFoundError when there is no
    log to read here.
    """
    hiding, started = Hiding.of([registry.spec(deployment)]), registry.launch(deployment)
    if started is None:
        raise NotFoundError(f"no driver of deployment {deployment} was started")
    launch, cluster = started, cluster_of(started)

    def shown(log: Iterator[str]) -> Iterator[str]:
        return (text for line in log for text in _shown(line, hiding))

    found = cluster.follow_log(launch, lines, over)
    if found is None:
        log = _log_here(launch, registry, deployment)
        if isinstance(log, str):
            raise NotFoundError(log)

        def elsewhere() -> bool:
            """Return whether the cluster has started the driver, so that it has its log."""
            nonlocal found
            found = cluster.follow_log(launch, max(lines, LINES), over) if launch.submitted else None
            return found is not None

        try:
            yield from shown(follow(log, lines, lambda: over() or elsewhere() or ended()))
        except OSError as error:
            raise NotFoundError(f"{log} cannot be read any more: {error.strerror}") from error
    if found is not None:
        yield from shown(found)


def last_lines(log: Path, application: Application, lines: int = ERROR_LINES, around: bool = True) -> tuple[str, ...]:
    """Return the last lines of a log of the application's driver, or those `around` its last error, without the values
    of secret parameters."""
    hiding = Hiding.of_applications([application])
    return _shown(tail(log, LOOKED_AT), hiding, lines) if around else _shown(tail(log, lines), hiding)


def _shown(text: str, hiding: Hiding, around: int | None = None) -> tuple[str, ...]:
    """Return lines to be shown; around: so many, around the last error."""
    lines = hiding.text(text).splitlines()
    return tuple(line[:LINE_LENGTH] for line in (lines if around is None else around_error(lines, around)))


def _log_here(launch: Launch, registry: AppRegistry, deployment: str) -> Path | str:
    """Return the log, or, in words, why it cannot be read here.

    The same path on this machine may belong to another driver, unless it lies under a root that both machines share.
    """
    path = Path(launch.log)
    root = registry.folder.path_here
    shared = root is not None and path.is_relative_to(root)
    if not shared and launch.host != os.uname().nodename:
        return f"the log is on {launch.host} at {launch.log}"
    try:
        if not path.is_file():
            return f"there is no log at {launch.log}"
        log = own_log(launch, registry.deployment_folder(deployment))
        if log is not None and not os.access(log, os.R_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except OSError as error:  # another user's folder, a name too long, a link that becomes a file just now
        return f"{launch.log}, the log of {deployment}, cannot be read: {error.strerror}; {owner_text(path)}"
    return log or f"{launch.log}, which launch.json names, is not the log of a driver of {deployment}, and is not shown"


def _whose(registry: AppRegistry, deployment: str, launch: Launch) -> str | None:
    status = registry.status(deployment)
    known = status is not None and status.epoch >= launch.epoch  # else it is of an earlier driver
    return cluster_of(launch).log_of(launch, status.spark_app_id if status and known else None)
