"""Run the command line as a user would; `site` adds a stand-in for Spark, so that drivers really start and end."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest
from click.testing import CliRunner, Result

from airflow_provider_streamupdate.cli import main
from airflow_provider_streamupdate.control.client import StreamUpdateClient
from airflow_provider_streamupdate.control.drivers import process
from airflow_provider_streamupdate.core import clock
from airflow_provider_streamupdate.core.coordination import lease
from airflow_provider_streamupdate.core.registry.deployment import Current, Launch
from airflow_provider_streamupdate.core.registry.registry import AppRegistry
from airflow_provider_streamupdate.core.registry.update import UpdateRecord
from tests.simulation.in_process import world  # noqa: F401
from tests.simulation.world import World
from tests.standin import java_home, spark_submit

Run = Callable[..., Result]


@pytest.fixture(autouse=True)
def no_fsync(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test pulls the plug, and waiting for the disk would be most of their time."""
    monkeypatch.setattr(os, "fsync", lambda _: None)


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty one."""
    monkeypatch.setenv("STREAMUPDATE_ROOT", str(tmp_path / "root"))
    monkeypatch.setenv("STREAMUPDATE_VERIFY_FOR", "0")  # 10 s each would be most of their time
    monkeypatch.delenv("STREAMUPDATE_SPARK_SUBMIT", raising=False)
    (tmp_path / "root").mkdir()
    return tmp_path / "root"


@pytest.fixture
def run(root: Path) -> Run:
    """Run a command; what it raised beyond SystemExit fails the test, so that no traceback reaches a user."""

    def invoke(*args: str | Path, color: bool = False) -> Result:
        # with colours, which would be stripped here together with what a file sends to the terminal
        result = CliRunner().invoke(main, [str(a) for a in args], color=color)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    return invoke


def document(result: Result) -> Any:
    """The one JSON document on standard output."""
    return json.loads(result.stdout)


def table(result: Result) -> list[list[str]]:
    """The words of each line."""
    return [line.split() for line in result.stdout.splitlines() if line.strip()]


@attrs.frozen
class Site:
    """An installation whose drivers are run by the stand-in."""

    folder: Path
    run: Run
    world: World | None = None  # None: drivers are real processes

    def application(self, version: str = "v1", named: bool = False, **constants: Any) -> Path:
        """An application file for the stand-in (see there). named: it names its app literally, as applications do"""
        path = self.folder / f"{version}.py"
        content = {"APP": "alarm", "VERSION": version, **constants}
        literal = "StreamingApp = dict\napp = StreamingApp(name='alarm')\n" if named else ""
        path.write_text("".join(f"{name} = {value!r}\n" for name, value in content.items()) + literal)
        return path

    def ok(self, *args: str | Path, code: int = 0) -> Result:
        """Run a command that succeeds, or ends with this exit code."""
        result = self.run(*args)
        assert result.exit_code == code, result.output
        return result

    def refused(self, *args: str | Path, code: int = 1) -> str:
        """Run a command that fails, and return what it says, in one line."""
        return " ".join(self.ok(*args, code=code).stderr.split())

    def error(self, *args: str | Path, code: int = 1) -> dict[str, str]:
        """Run a command that fails, and return its error as JSON has it."""
        found: dict[str, str] = document(self.ok(*args, "--json", code=code))["error"]
        return found

    def submit(self, version: str = "v1", *options: str, code: int = 0, **constants: Any) -> Result:
        """Submit a version as the deployment of its name."""
        return self.ok("submit", self.application(version, **constants), "--deployment", version, *options, code=code)

    def update(self, version: str, *options: str, code: int = 0, **constants: Any) -> Result:
        """Update to a version, as the deployment of its name."""
        return self.ok("update", self.application(version, **constants), "--deployment", version, *options, code=code)

    @property
    def client(self) -> StreamUpdateClient:
        return StreamUpdateClient(os.environ["STREAMUPDATE_ROOT"])

    @property
    def app(self) -> AppRegistry:
        return self.client.registry.app("alarm")

    @property
    def current(self) -> Current:
        found = self.app.current()
        assert found is not None
        return found

    def commits(self, deployment: str) -> list[int]:
        """The batches that it has committed."""
        return sorted(int(name) for name in self.app.checkpoint(deployment, "events").names("commits"))

    def record(self, update: str) -> UpdateRecord:
        found = self.app.update(update)
        assert found is not None
        return found

    def lease_is_free(self) -> bool:
        held = lease.read(self.app.folder)
        return held is not None and not lease.held(self.app.folder, held)

    def first_batch(self, app: str = "alarm") -> int | None:
        """The first batch of its driver, once it is healthy: submit waits for a driver that runs, not for a batch."""
        status = self.client.wait_healthy(app).status
        assert status is not None
        return status.queries["events"].first_batch

    def launch(self, deployment: str) -> Launch:
        launch = self.app.launch(deployment)
        assert launch is not None
        return launch

    def signal(self, deployment: str, number: int) -> None:
        """Send a signal to its driver."""
        driver = self.launch(deployment).process
        assert driver is not None
        os.kill(driver.pid, number)

    def crash(self, deployment: str) -> None:
        """Kill its driver, so that it has no last word."""
        assert process.end(self.launch(deployment), at_once=True)

    def alive(self) -> list[str]:
        """The deployments whose driver's processes live."""
        client = self.client
        return [
            s.deployment for s in client.deployments("alarm") if not client.drivers("alarm").has_ended(s.deployment)
        ]


@pytest.fixture
def spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """spark-submit and Java, as far as they are looked at."""
    made = spark_submit(tmp_path / "spark")
    monkeypatch.setenv("STREAMUPDATE_SPARK_SUBMIT", str(made))
    monkeypatch.setenv("JAVA_HOME", str(java_home(tmp_path / "java")))
    return made


@pytest.fixture
def site(tmp_path: Path, run: Run, spark: Path, drivers_world: World | None) -> Iterator[Site]:
    made = Site(tmp_path, run, drivers_world)
    yield made
    client = made.client
    for app in client.apps():
        for spec in client.deployments(app):
            client.drivers(app).kill(spec.deployment)


@pytest.fixture
def running(site: Site) -> Site:
    """App alarm runs as deployment v1, and has committed batches."""
    site.submit()
    site.client.wait_healthy("alarm")
    return site


def next_steps(run: Run, app: str) -> dict[str, str]:
    """What each who looks at an app says is next, in one line."""
    needs = {
        "status --json": document(run("status", app, "--json")), "list --json": document(run("list", "--json"))[0],
        "the page": StreamUpdateClient(os.environ["STREAMUPDATE_ROOT"]).app_document(app),
    }  # fmt: skip
    found = {"status": run("status", app).stdout, "list": run("list").stderr, "doctor": run("doctor").stdout}
    found |= {name: f"{shown['needs'][0]['reason']}: {shown['needs'][0]['help']}" for name, shown in needs.items()}
    return {name: " ".join(text.split()) for name, text in found.items()}


def until(true: Callable[[], object], what: str, seconds: float = 60.0) -> None:
    deadline = clock.monotonic() + seconds
    while not true():
        assert clock.monotonic() < deadline, what
        clock.sleep(0.02)
