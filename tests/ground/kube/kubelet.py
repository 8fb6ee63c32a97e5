"""A kubelet without containers: each pod of a namespace is a process of this machine, with an address of its own.

What Spark's image does (its entrypoint.sh, and what the pod's specification says) is done here: the driver runs
spark-submit in client mode with the properties of its config map, an executor its backend. Config maps are folders.
Grace periods, exit codes, reasons and the deletion by owner are as a kubelet's and a controller's.
"""

from __future__ import annotations

import contextlib
import http.client
import os
import signal
import subprocess
import threading
import time
import traceback
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import attrs

from .server import Server

POLL_SECONDS = 0.1
NODE = "node-1"
CONF = "/opt/spark/conf"  # where Spark mounts its properties (Constants.SPARK_CONF_DIR_INTERNAL)


@attrs.define
class Running:
    """A pod that runs. killed: since when it has its signal (monotonic); None: it has none"""

    pod: dict[str, Any]
    process: subprocess.Popen[bytes]
    address: str
    killed: float | None = None


@attrs.define
class Kubelet:
    """Of all pods of a namespace.

    spark_home: whose programs the pods run; java: of executors
    refused: by a part of the pod's name, a waiting reason that it never gets over (ImagePullBackOff ...)
    out_of_memory: names of pods whose next end is told as one
    lost: names of pods whose node does not answer: nothing is told of them or done to them, and they run on
    """

    server: Server
    folder: Path
    spark_home: Path
    environment: Mapping[str, str]
    namespace: str = "streams"
    refused: dict[str, str] = attrs.field(factory=dict)
    out_of_memory: set[str] = attrs.field(factory=set)
    lost: set[str] = attrs.field(factory=set)
    _running: dict[str, Running] = attrs.field(factory=dict)
    _addresses: Iterator[str] = attrs.field(init=False)
    _over: threading.Event = attrs.field(factory=threading.Event)
    _thread: threading.Thread = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._addresses = (f"127.0.{n // 250}.{n % 250 + 2}" for n in range(250, 60_000))

    def __enter__(self) -> Kubelet:
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        for running in self._running.values():
            with contextlib.suppress(ProcessLookupError):
                os.killpg(running.process.pid, signal.SIGKILL)
            running.process.wait()

    def running(self) -> list[str]:
        """The names of those that have not ended."""
        return [p["metadata"]["name"] for p in self.pods() if p["status"].get("phase") not in ("Succeeded", "Failed")]

    def remove_ended(self) -> None:
        """As somebody does sooner or later: a pod that has ended stays for its log."""
        for pod in self.pods():
            self._delete(pod, grace=0)

    def tell_unknown(self, name: str) -> None:
        """As the controller of nodes does when a node does not answer."""
        status = {"status": {"phase": "Unknown", "reason": "NodeLost"}}
        self.server.ask("PATCH", f"{self._path()}/{name}/status", status)

    def drain(self, name: str) -> None:
        """As a node's drain does: the pod gets its grace period."""
        self._delete(next(pod for pod in self.pods() if pod["metadata"]["name"] == name))

    def epoch_of(self, deployment: str) -> int:
        """That of its newest driver pod that has not ended."""
        name = self.driver_of(deployment)
        pod = next(pod for pod in self.pods() if pod["metadata"]["name"] == name)
        return int(pod["metadata"]["labels"]["streamupdate-epoch"])

    def driver_of(self, deployment: str) -> str:
        """The name of the deployment's newest driver pod that has not ended."""
        found = [
            p
            for p in self.pods()
            if p["metadata"]["labels"].get("streamupdate-deployment") == deployment
            and p["metadata"]["labels"].get("spark-role") == "driver"
            and p["status"].get("phase") == "Running"
        ]
        return str(max(found, key=lambda p: int(p["metadata"]["labels"]["streamupdate-epoch"]))["metadata"]["name"])

    def process_of(self, name: str) -> subprocess.Popen[bytes]:
        return next(r.process for r in self._running.values() if r.pod["metadata"]["name"] == name)

    def names(self) -> list[str]:
        """Of the pods that the server has."""
        return [pod["metadata"]["name"] for pod in self.pods()]

    def pods(self) -> list[dict[str, Any]]:
        return list(self.server.ask("GET", self._path())["items"])

    def _work(self) -> None:
        while not self._over.wait(POLL_SECONDS):
            try:
                self._look()
            except (urllib.error.URLError, ConnectionError, TimeoutError, http.client.HTTPException):
                pass  # the server is away: later
            except Exception:
                traceback.print_exc()
                raise

    def _look(self) -> None:
        pods = {pod["metadata"]["uid"]: pod for pod in self.pods()}
        for uid, pod in pods.items():
            running = self._running.get(uid)
            if pod["metadata"]["name"] in self.lost:
                continue
            if any(owner["uid"] not in pods for owner in pod["metadata"].get("ownerReferences") or ()):
                self._delete(pod)  # as the garbage collector does
            elif pod["metadata"].get("deletionTimestamp"):
                self._end(pod, running)
            elif running is None and pod["status"].get("phase") == "Pending":
                with contextlib.suppress(urllib.error.HTTPError):  # what it mounts is not there yet
                    self._start(pod)
            elif running is not None and (code := running.process.poll()) is not None:
                self._tell_ended(running, code)
        for uid in self._running.keys() - pods.keys():  # deleted by force
            if self._running[uid].pod["metadata"]["name"] in self.lost:
                continue
            self._kill(self._running[uid])
            del self._running[uid]

    def _bind(self, name: str) -> None:
        """As the scheduler does. A pod without a node is deleted at once, without a grace period."""
        node = {"kind": "Node", "name": NODE}
        target = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": node}
        self.server.ask("POST", f"{self._path()}/{name}/binding", target)

    def _start(self, pod: dict[str, Any]) -> None:
        name = pod["metadata"]["name"]
        if not pod["spec"].get("nodeName"):
            self._bind(name)
        container = pod["spec"]["containers"][0]
        if reason := next((why for part, why in self.refused.items() if part in name), None):
            state = {"waiting": {"reason": reason, "message": f"cannot start {name}"}}
            self._tell(pod, phase="Pending", containerStatuses=[self._container(container, state)])
            return
        address, folder = next(self._addresses), self.folder / pod["metadata"]["uid"]
        folder.mkdir(parents=True, exist_ok=True)
        mounts = self._mounted(pod, folder)
        env = {**self.environment, **self._variables(pod, container, address)}
        words = [_at(word, mounts) for word in container.get("args") or ()]
        command = self._driver(words, env, mounts) if words[:1] == ["driver"] else self._executor(env)
        log = open(folder / "log", "wb")  # noqa: SIM115 (the process writes it)
        process = subprocess.Popen(command, env=env, cwd=folder, stdout=log, stderr=log, start_new_session=True)
        log.close()
        self._running[pod["metadata"]["uid"]] = Running(pod, process, address)
        state = {"running": {"startedAt": _now()}}
        self._tell(pod, phase="Running", podIP=address, podIPs=[{"ip": address}], hostIP="127.0.0.1",
                   startTime=_now(), containerStatuses=[self._container(container, state, ready=True)])  # fmt: skip

    def _driver(self, words: list[str], env: dict[str, str], mounts: Mapping[str, str]) -> list[str]:
        """As entrypoint.sh does."""
        env["SPARK_CONF_DIR"] = mounts.get(CONF, str(self.folder))
        bind = env["SPARK_DRIVER_BIND_ADDRESS"]
        command = [str(self.spark_home / "bin" / "spark-submit"), "--conf", f"spark.driver.bindAddress={bind}"]
        command += ["--conf", f"spark.executorEnv.SPARK_DRIVER_POD_IP={bind}", "--deploy-mode", "client"]
        return [*command, *words[1:]]

    def _executor(self, env: dict[str, str]) -> list[str]:
        java = str(Path(env["JAVA_HOME"]) / "bin" / "java") if env.get("JAVA_HOME") else "java"
        given = sorted((k for k in env if k.startswith("SPARK_JAVA_OPT_")), key=lambda k: int(k.rpartition("_")[2]))
        memory = env["SPARK_EXECUTOR_MEMORY"]
        command = [java, *(env[k] for k in given), f"-Xms{memory}", f"-Xmx{memory}"]
        command += ["-cp", f"{self.spark_home}/jars/*"]
        command += ["org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend"]
        told = {"driver-url": "DRIVER_URL", "executor-id": "EXECUTOR_ID", "cores": "EXECUTOR_CORES",
                "app-id": "APPLICATION_ID", "hostname": "EXECUTOR_POD_IP", "podName": "EXECUTOR_POD_NAME",
                "resourceProfileId": "RESOURCE_PROFILE_ID"}  # fmt: skip
        for option, name in told.items():
            command += [f"--{option}", env[f"SPARK_{name}"]]
        return command

    def _mounted(self, pod: dict[str, Any], folder: Path) -> dict[str, str]:
        """Folders in place of the paths at which the pod has its volumes."""
        volumes = {volume["name"]: volume for volume in pod["spec"].get("volumes") or ()}
        places: dict[str, str] = {}
        for mount in pod["spec"]["containers"][0].get("volumeMounts") or ():
            volume = volumes[mount["name"]]
            place = folder / "volumes" / mount["name"]
            place.mkdir(parents=True, exist_ok=True)
            if source := volume.get("configMap"):
                data = self.server.ask("GET", f"/api/v1/namespaces/{self.namespace}/configmaps/{source['name']}")
                for name, text in (data.get("data") or {}).items():
                    (place / name).write_text(text)
            places[mount["mountPath"]] = str(place)
        return places

    def _variables(self, pod: dict[str, Any], container: dict[str, Any], address: str) -> dict[str, str]:
        found = {}
        for variable in container.get("env") or ():
            value = variable.get("value")
            if field := (variable.get("valueFrom") or {}).get("fieldRef"):
                value = {"status.podIP": address, "metadata.name": pod["metadata"]["name"]}[field["fieldPath"]]
            if secret := (variable.get("valueFrom") or {}).get("secretKeyRef"):
                value = self._secret(secret["name"], secret["key"])
            found[variable["name"]] = value or ""
        return found

    def _secret(self, name: str, key: str) -> str:
        import base64

        secret = self.server.ask("GET", f"/api/v1/namespaces/{self.namespace}/secrets/{name}")
        return base64.b64decode(secret["data"][key]).decode()

    def _end(self, pod: dict[str, Any], running: Running | None) -> None:
        """The grace period: the preStop hook and SIGTERM first, then SIGKILL, then the pod goes."""
        if running is None:
            self._delete(pod, grace=0)
            return
        grace = pod["metadata"].get("deletionGracePeriodSeconds", 30)
        if running.killed is None:
            running.killed = time.monotonic()
            threading.Thread(target=self._stop, args=(running,), daemon=True).start()
        elif time.monotonic() - running.killed > grace:
            self._kill(running)
        if running.process.poll() is not None:
            self._kill(running)  # what it has started: a container has one end
            self._delete(pod, grace=0)
            del self._running[pod["metadata"]["uid"]]

    def _stop(self, running: Running) -> None:
        hook = (running.pod["spec"]["containers"][0].get("lifecycle") or {}).get("preStop") or {}
        if command := (hook.get("exec") or {}).get("command"):
            subprocess.run(command, env={**self.environment, "POD_PROCESS": str(running.process.pid)}, check=False)
        with contextlib.suppress(ProcessLookupError):
            os.kill(running.process.pid, signal.SIGTERM)  # tini hands it to its child alone

    def _kill(self, running: Running) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(running.process.pid, signal.SIGKILL)
        running.process.wait()

    def _tell_ended(self, running: Running, code: int) -> None:
        self._kill(running)
        exit_code = 128 - code if code < 0 else code
        reason = "Completed" if exit_code == 0 else "Error"
        if running.pod["metadata"]["name"] in self.out_of_memory:
            reason = "OOMKilled"
        state = {"terminated": {"exitCode": exit_code, "reason": reason, "finishedAt": _now()}}
        container = running.pod["spec"]["containers"][0]
        self._tell(running.pod, phase="Failed" if exit_code else "Succeeded",
                   containerStatuses=[self._container(container, state)])  # fmt: skip
        del self._running[running.pod["metadata"]["uid"]]

    def _container(self, container: dict[str, Any], state: dict[str, Any], ready: bool = False) -> dict[str, Any]:
        return {"name": container["name"], "image": container["image"], "imageID": "", "ready": ready,
                "restartCount": 0, "started": ready, "state": state}  # fmt: skip

    def _tell(self, pod: dict[str, Any], **status: Any) -> None:
        name = pod["metadata"]["name"]
        with contextlib.suppress(urllib.error.HTTPError):  # it has gone
            self.server.ask("PATCH", f"{self._path()}/{name}/status", {"status": status})

    def _delete(self, pod: dict[str, Any], grace: int | None = None) -> None:
        body: dict[str, Any] = {"preconditions": {"uid": pod["metadata"]["uid"]}}
        if grace is not None:
            body["gracePeriodSeconds"] = grace
        with contextlib.suppress(urllib.error.HTTPError):
            self.server.ask("DELETE", f"{self._path()}/{pod['metadata']['name']}", body)

    def _path(self) -> str:
        return f"/api/v1/namespaces/{self.namespace}/pods"


def _at(word: str, mounts: Mapping[str, str]) -> str:
    for path, place in mounts.items():
        word = word.replace(path, place)
    return word


def _now() -> str:
    return datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
