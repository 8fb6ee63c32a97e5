"""Pods as folders with processes: what Kubernetes does with a driver's pod, as far as `Kubernetes` asks for it. The
real one is in tests/ground/k8s.py."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from airflow_provider_streamupdate.control.drivers.clusters.kubernetes.pod import PodState

# Makes the pod once, as the API server does, has its process started in a session of its own, and ends.
SUBMIT = """#!{python}
import json, os, subprocess, sys, uuid
words, conf, place = sys.argv[1:], {{}}, 0
while words[place].startswith("-"):
    if words[place] == "--conf":
        key, _, value = words[place + 1].partition("=")
        conf[key] = value
    place += 2
prefix = "spark.kubernetes.driver.label."
pod = os.path.join({folder!r}, conf["spark.kubernetes.driver.pod.name"])
os.mkdir(pod)
labels = {{key[len(prefix):]: value for key, value in conf.items() if key.startswith(prefix)}}
with open(os.path.join(pod, "log"), "wb") as log:
    process = subprocess.Popen(words[place:], stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True)
made = {{"uid": str(uuid.uuid4()), "labels": labels, "pid": process.pid}}
with open(os.path.join(pod, "new"), "w") as file:
    json.dump(made, file)
os.rename(os.path.join(pod, "new"), os.path.join(pod, "pod.json"))
"""


def install(folder: Path) -> Path:
    """A spark-submit whose pods are below the folder."""
    folder.mkdir(parents=True)
    script = folder.parent / "k8s-bin" / "spark-submit"
    script.parent.mkdir()
    script.write_text(SUBMIT.format(python=sys.executable, folder=str(folder)))
    script.chmod(0o755)
    return script


class PodsOfFiles:
    """The pods below a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.deleted: list[str] = []

    def get(self, name: str) -> PodState | None:
        try:
            made = json.loads((self._folder / name / "pod.json").read_text())
        except FileNotFoundError:
            return None
        phase = "Running" if _lives(made["pid"]) else "Succeeded"
        meta = {"name": name, "uid": made["uid"], "labels": {"spark-role": "driver", **made["labels"]}}
        return PodState.of({"metadata": meta, "status": {"phase": phase}})

    def find(self, labels: Mapping[str, str]) -> list[PodState]:
        pods = [self.get(path.name) for path in self._folder.iterdir()]
        return [pod for pod in pods if pod is not None and labels.items() <= pod.labels.items()]

    def delete(self, pod: PodState, grace: int) -> None:
        if (found := self.get(pod.name)) is None or found.uid != pod.uid:
            return
        self.deleted.append(pod.name)
        pid = json.loads((self._folder / pod.name / "pod.json").read_text())["pid"]
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGTERM)
        while _lives(pid):
            time.sleep(0.02)
        shutil.rmtree(self._folder / pod.name)

    def log(self, pod: PodState, lines: int) -> str:
        return (self._folder / pod.name / "log").read_text()

    def follow_log(self, pod: PodState, lines: int, over: Callable[[], bool]) -> Iterator[str]:
        yield from self.log(pod, lines).splitlines()

    def lacks(self, pod: PodState) -> str | None:
        return None

    def put(self, name: str, labels: Mapping[str, str], pid: int) -> None:
        """Somebody else's."""
        (self._folder / name).mkdir()
        made = {"uid": str(uuid.uuid4()), "labels": dict(labels), "pid": pid}
        (self._folder / name / "pod.json").write_text(json.dumps(made))


def _lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
