"""What the official client is answered, and what becomes of it: an HTTP server that says what a test wants. Needs the
library (extra k8s); make ground KIND=k8s runs it, too."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_streamupdate.control.drivers.clusters.kubernetes import Kubernetes
from airflow_provider_streamupdate.control.drivers.clusters.kubernetes import api as module
from airflow_provider_streamupdate.control.drivers.clusters.kubernetes.api import Pods
from airflow_provider_streamupdate.control.drivers.clusters.kubernetes.pod import PodState
from airflow_provider_streamupdate.core import clock
from airflow_provider_streamupdate.core.errors import DriverError, EnvironmentProblem, StreamUpdateError
from airflow_provider_streamupdate.core.registry.deployment import Launch, PodPlace
from tests.core.builders import status

pytest.importorskip("kubernetes")
STAMP = "2026-01-01T00:00:0{}.000000000Z {}\n"


class Server(ThreadingHTTPServer):
    """answer: the status and the body for a path; asked: the paths so far"""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked: list[str] = []
        self.answer: Callable[[str], tuple[int, bytes]] = lambda path: (500, b"")
        self.promised = 0  # bytes more than are sent

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        code, body = self.server.answer(self.path)
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body) + self.server.promised))
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("KUBECONFIG", "/nonexistent")
    monkeypatch.setattr(module, "FOLLOW_SECONDS", 0.01)
    made = Server()
    threading.Thread(target=made.serve_forever, daemon=True).start()
    yield made
    made.shutdown()


def pods(server: Server, **files: str) -> Pods:
    return Pods(PodPlace(server=server.address, namespace="streams", files=files))


def launch(server: Server) -> Launch:
    command = ["spark-submit", "--master", f"k8s://{server.address}", "--deploy-mode", "cluster", "a.py"]
    submitted = Kubernetes().prepare(command, ("r", "a", "v1", "1"), {}).submitted
    return Launch(
        epoch=1, host="elsewhere", pid=4, log="", launched_at=clock.now(), cluster="kubernetes",
        submitted=submitted,
    )  # fmt: skip


def said(**told: Any) -> bytes:
    return json.dumps(told).encode()


def pod(phase: str = "Running") -> bytes:
    container = {"name": "spark-kubernetes-driver", "state": {}}
    return said(metadata={"name": "x", "uid": "1"}, status={"phase": phase, "containerStatuses": [container]})


X = PodState.of(json.loads(pod()))
GONE = said(kind="Status", reason="NotFound", details={"kind": "pods", "name": "x"})
NONE_OF_ITS: dict[str, tuple[int, bytes]] = {
    "a proxy's own 404": (404, b"404 page not found\n"),
    "a login page": (200, b"<html>login</html>"),
    "no right": (403, said(message="pods is forbidden")),
    "an error": (500, said(message="etcd is away")),
}


@pytest.mark.parametrize("case", NONE_OF_ITS)
def test_what_is_no_answer_kills_nobody(server: Server, case: str) -> None:
    server.answer = lambda path: NONE_OF_ITS[case]
    assert Kubernetes().alive_check()(launch(server), status()) is None
    assert Kubernetes().alive_check(many=True)(launch(server), None) is None
    with pytest.raises(StreamUpdateError):
        pods(server).get("x")


def test_the_api_server_s_own_404_is_believed_and_a_cut_answer_is_an_error(server: Server) -> None:
    server.answer = lambda path: (404, GONE)
    assert pods(server).get("x") is None
    server.answer, server.promised = lambda path: (200, b'{"items":['), 5000
    with pytest.raises(DriverError, match="does not answer"):
        pods(server).find({})


def test_one_look_asks_an_api_server_that_is_away_once(server: Server) -> None:
    server.answer = lambda path: NONE_OF_ITS["a proxy's own 404"]
    alive = Kubernetes().alive_check(many=True)
    for _ in range(20):
        assert alive(launch(server), status()) is None
    assert len(server.asked) == 1


def test_who_acts_asks_an_api_server_again_that_was_away_a_moment_ago(server: Server) -> None:
    command = ["spark-submit", "--master", f"k8s://{server.address}", "--deploy-mode", "cluster"]
    command += ["--conf", "spark.kubernetes.file.upload.path=/uploads", "a.py"]
    cluster = Kubernetes()
    for act in (
        lambda: cluster.check(command, {}, ("r", "a", "v1", "1")),
        lambda: cluster.end(launch(server), lambda: pytest.fail("nobody is to be asked")),
    ):
        server.answer = lambda path: NONE_OF_ITS["a login page"]
        assert cluster.alive_check(many=True)(launch(server), status()) is None
        server.answer = lambda path: (404, GONE)
        act()


def test_who_wants_no_more_of_a_log_waits_for_no_pod(server: Server) -> None:
    """It is Pending, and nothing is written."""
    server.answer = lambda path: (200, pod("Pending"))
    looks = count()
    assert list(pods(server).follow_log(X, 10, lambda: next(looks) >= 5)) == []
    assert len(server.asked) == 5


def test_from_now_on_shows_nothing_of_before(server: Server) -> None:
    """A stream that brought nothing is made anew, and does not begin a minute earlier."""
    phases = iter(["Running", "Running", "Succeeded"])

    def answer(path: str) -> tuple[int, bytes]:
        return (200, b"") if "/log" in path else (200, pod(next(phases)))

    server.answer = answer
    assert list(pods(server).follow_log(X, 0, lambda: False)) == []
    asked = [path for path in server.asked if "/log" in path]
    assert [re.search(r"sinceSeconds=(\d+)", path)[1] for path in asked] == ["1", "2", "2"]
    assert not any("tailLines" in path for path in asked)


def test_a_log_is_followed_over_broken_streams_to_its_end(server: Server) -> None:
    """Its pod waits at first; each connection begins earlier than the last one ended; two lines have one time; the last
    one has no end; and the container is named."""
    streams = iter(
        [
            STAMP.format(0, "one") + STAMP.format(1, "two"),
            STAMP.format(1, "two") + STAMP.format(1, "two too") + STAMP.format(2, "three"),
            STAMP.format(2, "three") + STAMP.format(3, "Fatal: why").rstrip(),
        ]
    )
    looks = count()

    def answer(path: str) -> tuple[int, bytes]:
        if "/log" in path:
            assert "container=spark-kubernetes-driver" in path
            return 200, next(streams).encode()
        number = next(looks)
        return 200, pod("Pending" if number < 3 else "Running" if number < 5 else "Failed")

    server.answer = answer
    assert list(pods(server).follow_log(X, 10, lambda: False)) == ["one", "two", "two too", "three", "Fatal: why"]


def test_a_container_that_is_not_there_yet_ends_no_follower(server: Server) -> None:
    asked = count()

    def answer(path: str) -> tuple[int, bytes]:
        if "/log" not in path:
            return (200, pod()) if next(asked) < 2 else (404, GONE)
        return 400, said(message="container is waiting to start")

    server.answer = answer
    assert list(pods(server).follow_log(X, 10, lambda: False)) == []


def test_a_token_that_is_not_here_is_told(server: Server, tmp_path: Path) -> None:
    with pytest.raises(EnvironmentProblem, match="token of the API server cannot be read here"):
        pods(server, oauthTokenFile=str(tmp_path / "none"))
