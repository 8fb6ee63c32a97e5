"""Where drivers run: one file per kind of cluster.

To add one, write its `Cluster` and name it in CLUSTERS. No other code compares cluster names, and only the cluster
itself reads what it stores in the registry (`Launch.record`).
"""

from __future__ import annotations

import threading
from collections.abc import Sequence

from ....core.errors import StreamUpdateError
from ....core.registry.deployment import Launch, Status
from ..process import Alive
from .cluster import Client, Cluster, RunningDriver
from .kubernetes import Kubernetes, KubernetesClientMode
from .local import Local
from .yarn import Yarn

__all__ = ["CLUSTERS", "Client", "Cluster", "Living", "RunningDriver", "alive", "cluster_for", "cluster_of"]

# The first cluster that takes a command gets it; Local takes all.
CLUSTERS: list[Cluster] = [Yarn(), Kubernetes(), KubernetesClientMode(), Local()]


def cluster_for(command: Sequence[str]) -> Cluster:
    """Return the cluster in which a spark-submit command starts its driver."""
    return next(cluster for cluster in CLUSTERS if cluster.takes(command))


def cluster_of(launch: Launch) -> Cluster:
    """Return the cluster a driver was started in. StreamUpdateError for one that this version does not know."""
    for cluster in CLUSTERS:
        if cluster.name == launch.cluster:
            return cluster
    raise StreamUpdateError(
        f"the driver that was started at {launch.launched_at} runs in a cluster of kind {launch.cluster!r}, which this "
        f"version of the package does not know (it knows {', '.join(c.name for c in CLUSTERS)}); use the version that "
        "started it"
    )


def alive(launch: Launch, status: Status | None = None) -> bool | None:
    """Return whether any process of a driver lives now (`Alive`)."""
    return cluster_of(launch).alive_check()(launch, status)


class Living:
    """`alive` for many launches, with one request per cluster, made for its first driver."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._looks: dict[str, Alive] = {}

    def __call__(self, launch: Launch, status: Status | None = None) -> bool | None:
        cluster = cluster_of(launch)
        with self._lock:
            if cluster.name not in self._looks:
                self._looks[cluster.name] = cluster.alive_check(many=True)
        return self._looks[cluster.name](launch, status)
