"""What an app's drivers need to run in the pods of tests/ground/kube."""

from __future__ import annotations

from pathlib import Path

from .server import Server


def conf_of_pods(server: Server, folder: Path) -> dict[str, str]:
    """The settings of docs/kubernetes.md, and what a pod has from its service account elsewhere. folder: for uploads"""
    mounted = "spark.kubernetes.authenticate.driver.mounted"
    (folder / "upload").mkdir(exist_ok=True)
    return {
        "spark.submit.deployMode": "cluster",
        "spark.kubernetes.namespace": "streams",
        "spark.kubernetes.container.image": "streams:test",
        "spark.kubernetes.file.upload.path": (folder / "upload").as_uri(),
        "spark.kubernetes.authenticate.driver.serviceAccountName": "stream-driver",
        f"{mounted}.oauthTokenFile": str(server.token_file("driver")),
        f"{mounted}.caCertFile": str(server.certificate),
        "spark.kubernetes.driver.master": server.address,
        "spark.kubernetes.executor.useDriverPodIP": "true",
        "spark.executor.instances": "1",
        "spark.executor.memory": "512m",
    }
