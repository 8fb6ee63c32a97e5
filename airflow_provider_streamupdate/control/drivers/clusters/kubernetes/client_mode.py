"""Drivers of this machine with executors in pods (master ``k8s://...``, deploy mode client)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .....core.errors import EnvironmentProblem
from ...launcher import DEPLOY_MODE, in_cluster, is_kubernetes
from ..cluster import Prepared
from ..local import Local
from . import names
from .settings import defaults, settings, with_settings


class KubernetesClientMode(Local):
    """As on this machine; the executors' pods have the labels that tell whose they are. They end by themselves when
    their driver is gone."""

    name = "kubernetes-client"

    def takes(self, command: Sequence[str]) -> bool:
        return not in_cluster(command) and is_kubernetes(command)

    def check(
        self, command: Sequence[str], environment: Mapping[str, str], driver: tuple[str, ...] | None = None
    ) -> None:
        if defaults(command, environment).get(DEPLOY_MODE) == "cluster" and DEPLOY_MODE not in settings(command):
            raise EnvironmentProblem(
                f"spark-defaults.conf sets {DEPLOY_MODE}=cluster, but how a driver is found is decided by the "
                f"command: give it with the master (--conf {DEPLOY_MODE}=cluster, or the connection's deploy mode)"
            )

    def prepare(self, command: list[str], driver: tuple[str, ...], environment: Mapping[str, str]) -> Prepared:
        labels = names.labels(*driver)
        own = {f"spark.kubernetes.executor.label.{key}": value for key, value in labels.items()}
        return Prepared(with_settings(command, own))
