"""What a driver's pod is called, and the labels by which it is found."""

from __future__ import annotations

import hashlib
import re
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


LENGTH = 63  # of a label's value, and of a pod's name that is a host name, too (RFC 1123)
DIGEST = 8  # characters of it in a name that was shortened
APP, DEPLOYMENT, EPOCH, ROOT = (f"streamupdate-{part}" for part in ("app", "deployment", "epoch", "root"))


def pod_name(root: str, app: str, deployment: str, epoch: str) -> str:
    """``su-<app>-<deployment>-<digest>-<epoch>-driver``. The digest is of root, app and deployment, so that two drivers
    never share a name (``a`` of ``b-c`` and ``a-b`` of ``c``, the same app under two roots), and names that a pod may
    not have, or that are too long, may be changed. The API server makes a pod of one name once, which refuses a second
    submit of the same epoch."""
    end = f"-{_digest(f'{root}|{app}|{deployment}')}-{epoch}-driver"
    allowed = re.sub(r"[^a-z0-9-]+", "-", f"su-{app}-{deployment}".lower())
    return allowed[: LENGTH - len(end)].rstrip("-") + end


def labels(root: str, app: str, deployment: str, epoch: str) -> dict[str, str]:
    """Of the driver's pod and of its executors'. The root's value is a digest: it may be an address with slashes."""
    return {ROOT: _digest(root), APP: label(app), DEPLOYMENT: label(deployment), EPOCH: epoch}


def label(text: str) -> str:
    """A label's value that stands for a text; one that a label may not have is changed and gets a digest."""
    allowed = re.sub(r"[^A-Za-z0-9_.-]+", "-", text)[:LENGTH].strip("_.-")
    if allowed == text:
        return text
    return f"{allowed[: LENGTH - DIGEST - 1].rstrip('_.-')}-{_digest(text)}".lstrip("-")


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:DIGEST]
