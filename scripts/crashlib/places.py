"""Where the drivers of a ground run: processes of this machine, or pods of a Kubernetes whose pods are processes of
this machine (tests/ground/kube)."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import attrs
import psutil

from airflow_provider_streamupdate.control.drivers import process
from airflow_provider_streamupdate.control.drivers.launcher import spark_environment
from airflow_provider_streamupdate.control.waiting import wait_for
from airflow_provider_streamupdate.core.boundaries import VARIABLE
from airflow_provider_streamupdate.core.registry.deployment import Launch
from tests.ground.kube.kubelet import Kubelet
from tests.ground.kube.server import Server, api_server, conf_of_pods

MASTER, CONF = "CRASH_MASTER", "CRASH_CONF"  # what the suite's own processes submit with
END_SECONDS = 60.0


class Place:
    """This machine."""

    def environment(self, folder: Path) -> dict[str, str]:
        """What the suite's own processes get. folder: of a ground"""
        return {}

    def kill(self, launch: Launch) -> bool:
        """SIGKILL for every process of a driver; whether it can be found."""
        return process.end(launch, at_once=True)

    def problems(self) -> list[str]:
        """What is wrong when only the current deployment's driver is to run."""
        return []


@attrs.frozen
class Pods(Place):
    """A namespace."""

    server: Server
    kubelet: Kubelet

    def environment(self, folder: Path) -> dict[str, str]:
        conf = conf_of_pods(self.server, folder)
        conf |= {f"spark.kubernetes.driverEnv.{VARIABLE}": str(folder / "boundaries")}
        return {
            MASTER: f"k8s://{self.server.address}",
            CONF: json.dumps(conf),
            "KUBECONFIG": str(self.server.kubeconfig("submitter")),
        }

    def kill(self, launch: Launch) -> bool:
        """Its pod's processes, and the spark-submit that may be about to make it."""
        process.end(launch, at_once=True)
        try:
            assert launch.submitted is not None
            pid = self.kubelet.process_of(launch.submitted.name).pid
            processes = [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]
        except (StopIteration, psutil.Error):
            return True  # there is none
        for one in processes:
            with contextlib.suppress(psutil.Error):
                one.kill()
        return True

    def problems(self) -> list[str]:
        """Pods of drivers and executors that run beside the current driver's own."""
        found: list[str] = []

        def only_its_own() -> bool | None:
            running = [p for p in self.kubelet.pods() if p["status"].get("phase") not in ("Succeeded", "Failed")]
            labels = "streamupdate-deployment", "streamupdate-epoch"
            of = {tuple(p["metadata"]["labels"].get(label) for label in labels) for p in running}
            found[:] = [p["metadata"]["name"] for p in running] if len(of) > 1 else []
            return not found or None

        with contextlib.suppress(TimeoutError):
            wait_for(only_its_own, "the end of all other pods", END_SECONDS, 0.5)
        return [f"pods that should not run: {', '.join(found)}"] if found else []


@contextmanager
def pods(folder: Path, spark_submit: str) -> Iterator[Pods]:
    """A Kubernetes while the block runs."""
    binaries = Path(os.environ["STREAMUPDATE_GROUND"]).resolve() / "k8s" / "bin"
    shutil.rmtree(folder / "kube", ignore_errors=True)  # an earlier run's pods are of no concern
    (folder / "kube").mkdir(parents=True)
    with api_server(binaries, folder / "kube") as server:
        server.apply(Path(__file__).resolve().parents[2] / "docs" / "kubernetes" / "rbac.yaml")
        home = next(Path(spark_submit).resolve().parents[1].glob("lib/python3*/site-packages/pyspark"))
        environment = spark_environment(spark_submit, {})
        with Kubelet(server, folder / "pods", home, environment) as kubelet:
            yield Pods(server, kubelet)
