"""What a connection of type `kubernetes` (apache-airflow-providers-cncf-kubernetes) says about the drivers' cluster.

Only its settings are read; the provider itself is not needed for it.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs
import yaml
from airflow.exceptions import AirflowNotFoundException
from airflow.sdk import BaseHook
from airflow.sdk.log import mask_secret

from ..control.drivers.runtime import private_folder
from ..core.errors import EnvironmentProblem
from .templated_values import optional_text, truth

CONN_TYPE = "kubernetes"
KUBECONFIG = "KUBECONFIG"
NAMESPACE = "spark.kubernetes.namespace"
# Where the credentials come from; KubernetesHook takes one of them, too.
_SOURCES = ("in_cluster", "kube_config_path", "kube_config")


@attrs.frozen(kw_only=True)
class KubernetesSettings:
    """The settings from a Kubernetes connection."""

    conf: dict[str, str] = attrs.field(factory=dict)  # Spark configuration
    env_vars: dict[str, str] = attrs.field(factory=dict)  # environment of spark-submit, not of drivers


def kubernetes_settings(conn_id: str, env_vars: Mapping[str, str]) -> KubernetesSettings:
    """Return a connection's settings; EnvironmentProblem when it is not defined or cannot be used for Spark.

    env_vars: what drivers are started with by default
    """
    try:
        connection = BaseHook.get_connection(conn_id)
    except AirflowNotFoundException as error:
        raise EnvironmentProblem(
            f"Kubernetes connection {conn_id} is not defined; create it (Admin > Connections, type Kubernetes Cluster "
            "Connection), or leave the field empty in the streamupdate connection"
        ) from error
    if connection.conn_type != CONN_TYPE:
        raise EnvironmentProblem(
            f"connection {conn_id} is of type {connection.conn_type!r}; give one of type {CONN_TYPE}, or leave the "
            "field empty in the streamupdate connection"
        )
    return from_extra(conn_id, connection.extra_dejson, env_vars)


def from_extra(conn_id: str, extra: Mapping[str, Any], env_vars: Mapping[str, str]) -> KubernetesSettings:
    """Return the settings in a connection's extra."""
    where = f"Kubernetes connection {conn_id}"

    def field(name: str) -> Any:
        return extra.get(name, extra.get(f"extra__kubernetes__{name}"))  # as it was named before Airflow 2.3

    in_cluster = truth(field("in_cluster"), f"in_cluster of {where}")
    path, inline = optional_text(field("kube_config_path")), field("kube_config") or None
    if in_cluster + (path is not None) + (inline is not None) > 1:
        raise EnvironmentProblem(f"{where} gives more than one of {', '.join(_SOURCES)}; keep one")
    if truth(field("disable_verify_ssl"), f"disable_verify_ssl of {where}"):
        raise EnvironmentProblem(
            f"{where} does not verify the API server (disable_verify_ssl), which is not supported here: put the "
            "server's certificate authority into the kubeconfig"
        )
    if in_cluster and (kubeconfig := _kubeconfig_here(env_vars)):
        raise EnvironmentProblem(
            f"{where} says in_cluster, but there is a kubeconfig here ({kubeconfig}), and Spark would use it: remove "
            "it, or name it as kube_config_path"
        )
    if path is not None:
        path = os.path.abspath(os.path.expanduser(path))
        if not Path(path).is_file():
            raise EnvironmentProblem(f"{where}: there is no kubeconfig at {path} on this machine")
    named = {"namespace": NAMESPACE, "cluster_context": "spark.kubernetes.context"}
    conf = {setting: value for name, setting in named.items() if (value := optional_text(field(name)))}
    file = path if inline is None else str(_written(inline, where))
    return KubernetesSettings(conf=conf, env_vars={KUBECONFIG: file} if file else {})


def _kubeconfig_here(env_vars: Mapping[str, str]) -> str | None:
    """Return the kubeconfig that spark-submit would find by itself."""
    default = Path(os.path.expanduser("~/.kube/config"))
    return {**os.environ, **env_vars}.get(KUBECONFIG) or (str(default) if default.exists() else None)


def _written(inline: Any, where: str) -> Path:
    """Write the kubeconfig into a file of this user alone, which spark-submit reads during a submission."""
    text = json.dumps(inline) if isinstance(inline, Mapping) else str(inline)
    try:
        found = yaml.safe_load(text)
    except yaml.YAMLError:  # its message would quote the file
        found = None
    mask_secret(found)
    if not isinstance(found, dict):
        raise EnvironmentProblem(f"{where}: kube_config must be a kubeconfig in JSON or YAML")
    target = private_folder("kubeconfig") / f"{hashlib.sha256(text.encode()).hexdigest()[:16]}.json"
    handle, temporary = tempfile.mkstemp(dir=target.parent, suffix=".part")  # for this user only
    with os.fdopen(handle, "w") as file:
        file.write(text)
    os.replace(temporary, target)
    return target
