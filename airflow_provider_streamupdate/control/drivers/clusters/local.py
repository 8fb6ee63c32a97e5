"""Drivers on this machine: with a local master, or in client mode with executors in any cluster."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ....core.registry.deployment import Launch
from .. import process
from .cluster import Client, Cluster, Prepared


class Local(Cluster):
    """A driver is the processes of its session.

    Takes every command: a driver that spark-submit submits to a cluster without its own `Cluster` class is found by its
    heartbeat alone.
    """

    name = "local"

    def takes(self, command: Sequence[str]) -> bool:
        return True

    def prepare(self, command: list[str], driver: tuple[str, ...], environment: Mapping[str, str]) -> Prepared:
        return Prepared(command)

    def end(self, launch: Launch, client: Callable[[], Client]) -> bool:
        return process.end(launch) and process.alive(launch) is False
