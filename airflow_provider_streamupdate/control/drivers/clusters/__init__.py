"""Where drivers run, a file a kind. To add one, write its `Cluster`, and name it in CLUSTERS: nobody outside knows one
by its name, and what a launch leaves in the registry for it (`Launch.record`) is its own.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence

from ....core.errors import StreamUpdateError
from ....core.registry.deployment import Launch, Status
from .cluster import Alive, Client, Cluster, Prepared
from .local import Local
from .yarn import Yarn

__all__ = ["CLUSTERS", "Alive", "Client", "Cluster", "Living", "Prepared", "alive", "cluster_for", "cluster_of"]

# The first that takes a command has it; Local takes all.
CLUSTERS: list[Cluster] = [Yarn(), Local()]


def cluster_for(command: Sequence[str]) -> Cluster:
    """Where a spark-submit command starts its driver."""
    return next(cluster for cluster in CLUSTERS if cluster.takes(command))


def cluster_of(launch: Launch) -> Cluster:
    """Where a driver was started. StreamUpdateError for a cluster that this version does not know."""
    for cluster in CLUSTERS:
        if cluster.name == launch.cluster:
            return cluster
    raise StreamUpdateError(
        f"the driver that was started at {launch.launched_at} runs in a cluster of the kind {launch.cluster!r}, which "
        f"this version does not know (it knows {', '.join(c.name for c in CLUSTERS)}); use the version that started it"
    )


def alive(launch: Launch, status: Status | None = None) -> bool | None:
    """Whether any process of a driver lives, looked at now (`Alive`)."""
    return cluster_of(launch).look()(launch, status)


class Living:
    """`alive` for many launches at the price of one look a cluster, when the first of its drivers is asked for."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._looks: dict[str, Alive] = {}

    def __call__(self, launch: Launch, status: Status | None = None) -> bool | None:
        cluster = cluster_of(launch)
        with self._lock:
            if cluster.name not in self._looks:
                self._looks[cluster.name] = cluster.look(many=True)
        return self._looks[cluster.name](launch, status)
