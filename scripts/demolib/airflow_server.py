"""A real Airflow of this repository for the demo, and what the demo asks of it through its REST API."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

HOST = "127.0.0.1"
LOG_PORTS = (713, 714)  # airflow_up.sh puts the log servers so far above the API's port
REPOSITORY = Path(__file__).resolve().parents[2]


def without_airflow() -> dict[str, str]:
    """The environment without another Airflow's settings: its database and its DAG folders are not to be touched."""
    return {name: value for name, value in os.environ.items() if not name.startswith("AIRFLOW_")}


class AirflowError(Exception):
    """Airflow did not start, or did not do what it was asked to."""


class AirflowServer:
    """Started and ended by the scripts behind `make up` and `make down`, in a folder and on ports of its own."""

    def __init__(self, home: Path, settings: Mapping[str, str]) -> None:
        self.home = home
        self.log = home / "up.log"
        self.port = free_port()
        self._environment = {**without_airflow(), **settings, "AIRFLOW_HOME": str(home), "PORT": str(self.port)}
        self._starting: subprocess.Popen[bytes] | None = None
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        self._token: str | None = None

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}"

    def start(self) -> None:
        """Begin to start; `ready` says when it is up."""
        self.home.mkdir(parents=True, exist_ok=True)
        with open(self.log, "wb") as log:
            self._starting = subprocess.Popen(
                [str(REPOSITORY / "scripts" / "airflow_up.sh")],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=self._environment,
                start_new_session=True,
            )

    def ready(self) -> bool:
        """Whether it is up; AirflowError with its last words when it did not come up."""
        assert self._starting is not None, "start() comes first"
        code = self._starting.poll()
        if code:
            raise AirflowError(f"Airflow did not start; last lines of {self.log}:\n{tail(self.log, 40)}")
        return code == 0

    def stop(self) -> None:
        """End all its processes; streaming drivers are not among them."""
        if self._starting is not None and self._starting.poll() is None:
            os.killpg(self._starting.pid, signal.SIGTERM)
            self._starting.wait(timeout=60)
        subprocess.run(
            [str(REPOSITORY / "scripts" / "airflow_down.sh")],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            env=self._environment,
            timeout=120,
            check=True,
        )

    def has_dag(self, dag_id: str) -> bool:
        """Whether the DAG is known yet; AirflowError when a DAG file could not be imported."""
        if errors := self.request("GET", "importErrors")["import_errors"]:
            shown = "\n".join(f"{e['filename']}:\n{e['stack_trace']}" for e in errors)
            raise AirflowError(f"a DAG file could not be imported:\n{shown}")
        try:
            self.request("GET", f"dags/{dag_id}")
        except urllib.error.HTTPError as error:
            if error.code == 404:
                return False
            raise
        return True

    def trigger(self, dag_id: str, conf: Mapping[str, Any]) -> str:
        """Start a run of the DAG with `conf` as its Params; its run id."""
        self.request("PATCH", f"dags/{dag_id}", {"is_paused": False})
        run = self.request("POST", f"dags/{dag_id}/dagRuns", {"logical_date": None, "conf": dict(conf)})
        return str(run["dag_run_id"])

    def run_state(self, dag_id: str, run_id: str) -> str:
        """queued, running, success or failed."""
        return str(self.request("GET", f"dags/{dag_id}/dagRuns/{quote(run_id)}")["state"])

    def task_states(self, dag_id: str, run_id: str) -> dict[str, str]:
        """The state of each task that has one."""
        tasks = self.request("GET", f"dags/{dag_id}/dagRuns/{quote(run_id)}/taskInstances")["task_instances"]
        return {task["task_id"]: task["state"] for task in tasks if task["state"]}

    def task_log(self, dag_id: str, run_id: str, task_id: str, lines: int = 30) -> str:
        """The last lines of the task's last try."""
        folder = self.home / "logs" / f"dag_id={dag_id}" / f"run_id={run_id}" / f"task_id={task_id}"
        tries = sorted(folder.glob("attempt=*.log"), key=lambda file: file.stat().st_mtime)
        return readable(tail(tries[-1], lines)) if tries else f"(no log in {folder})"

    def request(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """A request to the REST API; the answer. urllib.error.HTTPError when it is refused."""
        return self._send(method, f"{self.url}/api/v2/{path}", body, {"Authorization": f"Bearer {self.token()}"})

    def page(self, path: str) -> dict[str, Any]:
        """What the page "Streaming apps" asks its API, with the session that a browser keeps in a cookie."""
        return self._send("GET", f"{self.url}/streamupdate/api/{path}", None, {"Cookie": f"_token={self.token()}"})

    def token(self) -> str:
        """Everybody is an administrator (SIMPLE_AUTH_MANAGER_ALL_ADMINS), yet a token is needed."""
        if self._token is None:
            self._token = str(self._send("GET", f"{self.url}/auth/token", None, {})["access_token"])
        return self._token

    def _send(
        self, method: str, url: str, body: Mapping[str, Any] | None, session: Mapping[str, str]
    ) -> dict[str, Any]:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(url, data, {"Content-Type": "application/json", **session}, method=method)
        with self._opener.open(request, timeout=60) as answer:
            result: dict[str, Any] = json.load(answer)
            return result


def free_port(first: int = 8080) -> int:
    """A port that is free together with those of the log servers."""
    for port in range(first, first + 700, 7):
        if all(_free(p) for p in (port, *(port + offset for offset in LOG_PORTS))):
            return port
    raise AirflowError(f"no free port was found from {first} on")


def _free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


def tail(file: Path, lines: int) -> str:
    """The last lines of a text file, which may not exist."""
    try:
        return "\n".join(file.read_text(errors="replace").splitlines()[-lines:])
    except OSError as error:
        return f"({error})"


def readable(log: str) -> str:
    """Airflow's task logs hold a JSON object a line; its time, level, text and error are enough to read."""
    shown = []
    for line in log.splitlines():
        try:
            entry = json.loads(line)
            parts = [str(entry.get("timestamp", ""))[:19], str(entry.get("level", "")), str(entry["event"])]
        except (ValueError, KeyError, AttributeError, TypeError):
            shown.append(line)
            continue
        for error in entry.get("error_detail") or []:
            parts.append(f"[{error.get('exc_type')}: {error.get('exc_value')}]")
        shown.append(" ".join(parts))
    return "\n".join(shown)
