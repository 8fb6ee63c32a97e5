"""Flink beside ours: a standalone session cluster out of the PyPI distribution, and one job of it that is updated."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
import uuid
from pathlib import Path
from typing import Any

from feed import COMMIT_SECONDS, FILE_ROWS, Feed

from airflow_provider_streamupdate.control.waiting import wait_for

HOST = "127.0.0.1"
JOB_FILE = Path(__file__).parent / "apps" / "KeyedCounts.java"
UP_SECONDS = 120.0
CLI, CANONICAL, NATIVE = "flink-cli", "flink-canonical", "flink-native"


def find_flink(environment: Path) -> Path:
    """The distribution in an environment that `scripts/setup.sh flink` built."""
    found = sorted(environment.glob("lib/python3*/site-packages/pyflink/lib/flink-dist-*.jar"))
    if not found:
        raise SystemExit(f"there is no Flink in {environment}; run: scripts/setup.sh flink")
    if shutil.which("javac") is None:
        raise SystemExit("javac is missing; install a JDK (Debian: openjdk-17-jdk-headless)")
    return found[0].parents[1]


class FlinkCluster:
    """JobManager and TaskManager with RocksDB state, listening on the loopback address, in processes of their own."""

    def __init__(self, home: Path, folder: Path, cores: int = 2) -> None:
        self.home, self.folder = home, folder
        self.port = _free_port()
        self.jar = self._compile()
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        self._environment = {**os.environ, "FLINK_CONF_DIR": str(self._configure(cores)), "FLINK_LOG_DIR": str(folder)}
        self._processes: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> FlinkCluster:
        for script in ("jobmanager.sh", "taskmanager.sh"):
            with open(self.folder / f"{script}.log", "wb") as log:
                self._processes.append(
                    subprocess.Popen(
                        ["bash", str(self.home / "bin" / script), "start-foreground"],
                        stdout=log,
                        stderr=log,
                        env=self._environment,
                        start_new_session=True,
                    )
                )
        try:
            wait_for(self._up, "Flink", UP_SECONDS, 0.5)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for process in reversed(self._processes):
            process.terminate()
        for process in self._processes:
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def cli(self, *arguments: str) -> str:
        """What bin/flink says; CalledProcessError when it fails."""
        command = ["bash", str(self.home / "bin" / "flink"), *arguments]
        return subprocess.run(
            command, env=self._environment, check=True, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        ).stdout

    def request(self, method: str, path: str, body: Any = None) -> dict[str, Any]:
        data = None if body is None else json.dumps(body).encode()
        return self._send(method, path, data, "application/json")

    def upload(self) -> str:
        """Bring the job's jar to the cluster; its id there."""
        boundary = uuid.uuid4().hex
        head = (
            f'--{boundary}\r\nContent-Disposition: form-data; name="jarfile"; filename="{self.jar.name}"\r\n'
            "Content-Type: application/x-java-archive\r\n\r\n"
        )
        data = head.encode() + self.jar.read_bytes() + f"\r\n--{boundary}--\r\n".encode()
        answer = self._send("POST", "jars/upload", data, f"multipart/form-data; boundary={boundary}")
        return Path(answer["filename"]).name

    def _send(self, method: str, path: str, data: bytes | None, kind: str) -> dict[str, Any]:
        url = f"http://{HOST}:{self.port}/{path}"
        request = urllib.request.Request(url, data, {"Content-Type": kind}, method=method)
        try:
            with self._opener.open(request, timeout=COMMIT_SECONDS) as answer:
                found: dict[str, Any] = json.load(answer)
        except urllib.error.HTTPError as error:
            raise RuntimeError(f"{method} {path}: {error} {error.read().decode()[:2000]}") from error
        return found

    def _up(self) -> bool | None:
        if ended := [p.args for p in self._processes if p.poll() is not None]:
            raise RuntimeError(f"{ended} ended; see {self.folder}")
        try:
            return self.request("GET", "overview")["slots-total"] > 0 or None
        except OSError:
            return None

    def _configure(self, cores: int) -> Path:
        conf = self.folder / "conf"
        conf.mkdir()
        for file in (self.home / "conf").glob("log4j*.properties"):
            shutil.copy(file, conf)
        shipped = (self.home / "conf" / "config.yaml").read_text()
        opens = re.search(r"^ +all: (--add.*)$", shipped, re.MULTILINE)  # what Java 17 needs
        settings = {
            "env.java.opts.all": opens[1] if opens else "",
            "jobmanager.rpc.address": HOST,
            "jobmanager.rpc.port": _free_port(),
            "jobmanager.bind-host": HOST,
            "jobmanager.memory.process.size": "1600m",
            "taskmanager.host": HOST,
            "taskmanager.bind-host": HOST,
            "taskmanager.numberOfTaskSlots": cores,
            "taskmanager.memory.process.size": "2g",
            "parallelism.default": cores,
            "rest.address": HOST,
            "rest.bind-address": HOST,
            "rest.port": self.port,
            "state.backend.type": "rocksdb",
            "execution.checkpointing.incremental": "true",
            "execution.checkpointing.interval": "10s",
            "execution.checkpointing.dir": (self.folder / "checkpoints").as_uri(),
            "io.tmp.dirs": self.folder / "tmp",
        }
        (self.folder / "tmp").mkdir()
        (conf / "config.yaml").write_text("".join(f"{key}: {value}\n" for key, value in settings.items()))
        return conf

    def _compile(self) -> Path:
        classes = self.folder / "classes"
        classpath = ":".join(str(jar) for jar in (self.home / "lib").glob("*.jar"))
        subprocess.run(
            ["javac", "-nowarn", "-cp", classpath, "-d", str(classes), str(JOB_FILE)],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        jar = shutil.make_archive(str(self.folder / "counts"), "zip", classes)
        return Path(jar).rename(self.folder / "counts.jar")


class FlinkJob:
    """The job: its updates by way of a savepoint, each as another version of it. What an update pauses is the time from
    the old job's last output record to the new one's first, whatever was committed by then."""

    def __init__(self, cluster: FlinkCluster, folder: Path, feed: Feed) -> None:
        self.cluster, self.feed = cluster, feed
        self.moments, self.savepoints = folder / "moments", folder / "savepoints"
        self.moments.mkdir()
        self.version = 0
        self.jar = cluster.upload()
        self.job = self._run(None)
        self.wait_more(feed.keys)

    def update(self, row: str) -> float:
        # One subtask may still restore its part, while others put out what they count.
        wait_for(self._all_run, "all subtasks to run", COMMIT_SECONDS, 0.1)
        self.version += 1
        if row == CLI:
            self._update_by_cli()
        else:
            self.job = self._run(self._stop(row.removeprefix("flink-").upper()))
        wait_for(lambda: bool(self._times(self.version)) or None, "an output", COMMIT_SECONDS, 0.1)
        self.wait_more(10 * FILE_ROWS)
        return min(self._times(self.version)) - max(self._times(self.version - 1))

    def wait_more(self, rows: int) -> None:
        """Until this version has counted so many rows more."""
        wanted = self._outputs() + rows
        wait_for(lambda: self._outputs() >= wanted or None, f"{rows} rows to be counted", COMMIT_SECONDS, 0.1)

    def _all_run(self) -> bool | None:
        vertices = self.cluster.request("GET", f"jobs/{self.job}")["vertices"]
        return all(not n for v in vertices for state, n in v["tasks"].items() if state != "RUNNING") or None

    def savepoint(self, kind: str) -> tuple[float, int]:
        """Seconds and bytes of one that the job goes on after. kind: CANONICAL or NATIVE."""
        started = time.monotonic()
        body = {"target-directory": str(self.savepoints), "cancel-job": False, "formatType": kind}
        location = self._saved(self.cluster.request("POST", f"jobs/{self.job}/savepoints", body)["request-id"])
        seconds = time.monotonic() - started
        return seconds, sum(p.stat().st_size for p in location.rglob("*") if p.is_file())

    def _update_by_cli(self) -> None:
        said = self.cluster.cli("stop", "--savepointPath", str(self.savepoints), self.job)
        path = re.search(r"Savepoint completed\. Path: (\S+)", said)
        assert path is not None, said
        run = ["run", "-d", "-s", path[1], "-c", "KeyedCounts", str(self.cluster.jar), *self._arguments()]
        job = re.search(r"JobID ([0-9a-f]{32})", said := self.cluster.cli(*run))
        assert job is not None, said
        self.job = job[1]

    def _stop(self, kind: str) -> Path:
        body = {"targetDirectory": str(self.savepoints), "drain": False, "formatType": kind}
        return self._saved(self.cluster.request("POST", f"jobs/{self.job}/stop", body)["request-id"])

    def _saved(self, request: str) -> Path:
        def poll() -> dict[str, Any] | None:
            answer = self.cluster.request("GET", f"jobs/{self.job}/savepoints/{request}")
            return answer["operation"] if answer["status"]["id"] == "COMPLETED" else None

        operation = wait_for(poll, "a savepoint", COMMIT_SECONDS, 0.02)
        if "location" not in operation:
            raise RuntimeError(f"no savepoint: {json.dumps(operation)[:4000]}")
        return Path(str(operation["location"]).removeprefix("file:"))

    def _run(self, savepoint: Path | None) -> str:
        body: dict[str, Any] = {"entryClass": "KeyedCounts", "programArgsList": self._arguments()}
        if savepoint is not None:
            body["savepointPath"] = str(savepoint)
        return str(self.cluster.request("POST", f"jars/{self.jar}/run", body)["jobid"])

    def _arguments(self) -> list[str]:
        return [str(self.feed.folder), str(self.moments), str(self.version)]

    def _outputs(self) -> int:
        """Outputs of this version so far, of all subtasks."""
        return sum(int(lines[-1].split()[1]) for lines in self._lines(self.version))

    def _times(self, version: int) -> list[float]:
        """First and last output of each subtask."""
        return [float(line.split()[0]) for lines in self._lines(version) for line in (lines[0], lines[-1])]

    def _lines(self, version: int) -> list[list[str]]:
        """Whole lines of each subtask that has any."""
        found = (file.read_text().split("\n")[:-1] for file in self.moments.glob(f"{version}-*"))
        return [lines for lines in found if lines]


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])
