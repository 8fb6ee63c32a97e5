"""What every kind of cluster does for the drivers that run in it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import attrs

from ....core.registry.deployment import Launch
from ..process import Alive


@attrs.frozen
class Client:
    """What a cluster is reached by from here: spark-submit's path, and the environment it is run in."""

    spark_submit: str
    environment: Mapping[str, str]


@attrs.frozen
class Prepared:
    """command: what is run to start a driver; record: what the cluster needs to find it again (JSON)
    handed_over: what is run only submits the driver, which runs elsewhere"""

    command: list[str]
    record: dict[str, Any] = attrs.field(factory=dict)
    handed_over: bool = False


class Cluster(ABC):
    """name: in the registry; first_sign_seconds: how long a driver that cannot be looked at may take to its first
    heartbeat."""

    name: ClassVar[str]
    first_sign_seconds: ClassVar[float] = 120.0

    @abstractmethod
    def takes(self, command: Sequence[str]) -> bool:
        """Whether a spark-submit command starts its driver here."""

    @abstractmethod
    def prepare(self, command: list[str], driver: tuple[str, ...]) -> Prepared:
        """The command with what the driver is found by, which is known before anything is started, so that there is
        none that nobody finds. driver: what tells it from all others (root, app, deployment, epoch)"""

    @abstractmethod
    def look(self, many: bool = False) -> Alive:
        """A look at the drivers here. many: it will be asked of several; what can be asked at once is."""

    @abstractmethod
    def end(self, launch: Launch, client: Callable[[], Client]) -> bool:
        """End a driver, and return when it has ended. Whether that is known for certain: no process is signalled that
        may be another's. DriverError when the cluster could not be asked."""

    def log_of(self, launch: Launch, application: str | None) -> str | None:
        """Whose log it is that the launch has, when the driver's own is elsewhere; None when it is the driver's.
        application: Spark's id of it, where it is known"""
        return None
