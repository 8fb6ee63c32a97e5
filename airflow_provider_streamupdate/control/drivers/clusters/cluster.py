"""The interface of a cluster: start, find and end the drivers that run in it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import ClassVar

import attrs

from ....core.registry.deployment import Launch, Submitted
from .. import process


@attrs.frozen
class Client:
    """The client of a cluster: spark-submit's path, and the environment to run it in."""

    spark_submit: str
    environment: Mapping[str, str]


@attrs.frozen
class Prepared:
    """A prepared start of a driver."""

    command: list[str]
    submitted: Submitted | None = None  # the command only submits this driver, which runs elsewhere


@attrs.frozen(kw_only=True)
class RunningDriver:
    """A driver that a cluster runs.

    name: of what runs it, e.g. its pod
    label: what stands for its deployment there (`Cluster.label`)
    end: asks the cluster to end it; DriverError when it cannot be asked
    """

    name: str
    label: str
    epoch: int
    end: Callable[[], None]


class Cluster(ABC):
    """A kind of cluster.

    name: its name in the registry
    finds: it can list the drivers that run in it (`running_drivers`)
    first_sign_seconds: how long a driver whose process cannot be inspected may take until its first heartbeat
    """

    name: ClassVar[str]
    finds: ClassVar[bool] = False
    first_sign_seconds: ClassVar[float] = 120.0

    @abstractmethod
    def takes(self, command: Sequence[str]) -> bool:
        """Return whether a spark-submit command starts its driver in this cluster."""

    @abstractmethod
    def prepare(self, command: list[str], driver: tuple[str, ...], environment: Mapping[str, str]) -> Prepared:
        """Return the command, extended by a mark that identifies the driver in the cluster.

        The mark is known before anything is started, so that every driver can be found.

        driver: its identity (root, app, deployment, epoch)
        environment: that of the command
        """

    def check(
        self, command: Sequence[str], environment: Mapping[str, str], driver: tuple[str, ...] | None = None
    ) -> None:
        """Raise EnvironmentProblem for what would keep a driver from starting.

        driver: its identity, as for `prepare`; None: none is to be started now
        """
        return

    def label(self, deployment: str) -> str:
        """Return what stands for a deployment in `RunningDriver.label`."""
        return deployment

    def place(self, launch: Launch) -> str:
        """Return the place that is searched for a driver. Drivers of one app and place are found by one request."""
        return ""

    def running_drivers(self, launch: Launch) -> list[RunningDriver]:
        """Return all running drivers of the launch's app in the launch's place, also those without a record.

        DriverError when the cluster could not be reached.
        """
        return []

    def alive_check(self, many: bool = False) -> process.Alive:
        """Return a function that tells whether a driver lives. many: list all drivers now, for many calls.

        The default sees the processes of this machine. A driver that one of them has submitted shows by its heartbeat.
        """
        return process.alive_check(many)

    @abstractmethod
    def end(self, launch: Launch, client: Callable[[], Client]) -> bool:
        """End a driver, wait for its end, and return whether it has certainly ended.

        A process that may not be the driver's is never signalled. DriverError when the cluster could not be asked.
        """

    def why_not_running(self, launch: Launch) -> str | None:
        """Return the cluster's message on why a driver does not run yet, or ended; None without one."""
        return None

    def grace_seconds(self, launch: Launch) -> float | None:
        """Return the seconds that a driver has to end after the cluster's request; None: unknown, or no request."""
        return None

    def last_log(self, launch: Launch, lines: int) -> tuple[str, str] | None:
        """Return where the cluster has a driver's log, and its end; None: it is a file where the driver was started."""
        return None

    def follow_log(self, launch: Launch, lines: int, over: Callable[[], bool]) -> Iterator[str] | None:
        """Return the last lines of a driver's log and each later one, until it has ended, or nobody wants more
        (`over`); None as `last_log`, or while there is no driver yet."""
        return None

    def log_of(self, launch: Launch, application: str | None) -> str | None:
        """Return whose log the launch's log is, when the driver's own is elsewhere; None when it is the driver's.

        application: the driver's Spark application id, if known
        """
        return None
