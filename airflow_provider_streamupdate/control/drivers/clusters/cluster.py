"""The interface of a cluster: start, find and end the drivers that run in it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import attrs

from ....core.registry.deployment import Launch
from ..process import Alive


@attrs.frozen
class Client:
    """How a cluster is reached from here: spark-submit's path, and the environment to run it in."""

    spark_submit: str
    environment: Mapping[str, str]


@attrs.frozen
class Prepared:
    """A prepared start of a driver.

    command: the command to run
    record: what the cluster needs to find the driver again (JSON)
    handed_over: the command only submits the driver, which runs elsewhere
    """

    command: list[str]
    record: dict[str, Any] = attrs.field(factory=dict)
    handed_over: bool = False


class Cluster(ABC):
    """A kind of cluster.

    name: its name in the registry
    first_sign_seconds: how long a driver whose process cannot be inspected may take until its first heartbeat
    """

    name: ClassVar[str]
    first_sign_seconds: ClassVar[float] = 120.0

    @abstractmethod
    def takes(self, command: Sequence[str]) -> bool:
        """Return whether a spark-submit command starts its driver in this cluster."""

    @abstractmethod
    def prepare(self, command: list[str], driver: tuple[str, ...]) -> Prepared:
        """Return the command, extended by a mark that identifies the driver in the cluster.

        The mark is known before anything is started, so that every driver can be found.

        driver: its identity (root, app, deployment, epoch)
        """

    @abstractmethod
    def look(self, many: bool = False) -> Alive:
        """Return a look at the drivers of this cluster. many: it will be used for several drivers."""

    @abstractmethod
    def end(self, launch: Launch, client: Callable[[], Client]) -> bool:
        """End a driver, wait for its end, and return whether it has certainly ended.

        A process that may not be the driver's is never signalled. DriverError when the cluster could not be asked.
        """

    def log_of(self, launch: Launch, application: str | None) -> str | None:
        """Return whose log the launch's log is, when the driver's own is elsewhere; None when it is the driver's.

        application: the driver's Spark application id, if known
        """
        return None
