"""A real Airflow with three users and a real app, and Chromium. Runs in .venv-ui (scripts/ui.sh)."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

REPOSITORY = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY / "scripts"))

from demolib.airflow_server import AirflowServer  # noqa: E402

APP = "page-views"
USERS = {"viewer": "viewer", "editor": "user"}
APPS = REPOSITORY / "tests" / "ui" / "apps"
DAGS = REPOSITORY / "dags", REPOSITORY / "tests" / "ui" / "dags"
BUNDLE = "airflow.dag_processing.bundles.local.LocalDagBundle"
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
WAIT = 180_000  # ms, for what a busy machine may take its time for
expect.set_options(timeout=60_000)


class Site:
    """The Airflow and what is asked of it outside the browser."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.root = folder / "root"
        self.root.mkdir()
        passwords = folder / "passwords.json"
        passwords.write_text(json.dumps({user: user for user in USERS}))
        spark_submit = str(REPOSITORY / ".venv-spark" / "bin" / "spark-submit")
        patience = {"submit_timeout": 600, "drain_timeout": 600}
        extra = {"root": str(self.root), "spark_submit": spark_submit, "defaults": json.dumps(patience)}
        self.server = AirflowServer(
            folder / "airflow",
            {
                "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "False",
                "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": ",".join(f"{u}:{role}" for u, role in USERS.items()),
                "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(passwords),
                "AIRFLOW__SCHEDULER__SCHEDULER_IDLE_SLEEP_TIME": "0.1",
                "AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST": json.dumps(
                    [
                        {"name": folder.parent.name, "classpath": BUNDLE, "kwargs": {"path": str(folder)}}
                        for folder in DAGS
                    ]
                ),
                "UP_TIMEOUT": "600",
                "AIRFLOW_CONN_STREAMUPDATE_DEFAULT": json.dumps({"conn_type": "streamupdate", "extra": extra}),
            },
        )
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    @property
    def url(self) -> str:
        return self.server.url

    def streamupdate(self, *args: str) -> None:
        """Run the command line; its output is in the folder."""
        python = str(REPOSITORY / ".venv" / "bin" / "python")
        code = "from airflow_provider_streamupdate.cli import main; main()"
        root = ["--root", str(self.root), "--spark-submit", str(REPOSITORY / ".venv-spark" / "bin" / "spark-submit")]
        pyspark = str(REPOSITORY / ".venv-spark" / "bin" / "python")
        environment = {**os.environ, "PYSPARK_PYTHON": pyspark, "PYSPARK_DRIVER_PYTHON": pyspark}
        with open(self.folder / "streamupdate.log", "ab") as log:
            subprocess.run(
                [python, "-c", code, *args, *root], check=True, stdout=log, stderr=log, timeout=700, env=environment
            )

    def token(self, user: str) -> str:
        body = json.dumps({"username": user, "password": user}).encode()
        request = urllib.request.Request(f"{self.url}/auth/token", body, {"Content-Type": "application/json"})
        with self._opener.open(request, timeout=60) as answer:
            return str(json.load(answer)["access_token"])

    def pause(self, dag_id: str) -> None:
        """Once the DAG processor has read its file."""
        deadline = time.monotonic() + 300
        while True:
            try:
                self.api("editor", "PATCH", f"dags/{dag_id}", {"is_paused": True})
                return
            except urllib.error.HTTPError as error:
                if error.code != 404 or time.monotonic() > deadline:
                    raise
            time.sleep(1)

    def api(self, user: str, method: str, path: str, body: Any = None) -> Any:
        request = urllib.request.Request(
            f"{self.url}/api/v2/{path}",
            None if body is None else json.dumps(body).encode(),
            {"Content-Type": "application/json", "Authorization": f"Bearer {self.token(user)}"},
            method=method,
        )
        with self._opener.open(request, timeout=60) as answer:
            return json.load(answer)


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    made = Site(tmp_path_factory.mktemp("ui"))
    made.server.start()
    try:
        made.streamupdate(
            *("submit", str(APPS / "v1.py"), "--deployment", "v1", "--set", "rate=300", "--set", "api_token=a-secret"),
            *("--master", "local[1]", "--conf", "spark.ui.enabled=true", "--timeout", "600"),
        )
        deadline = time.monotonic() + 600
        while not made.server.ready():
            assert time.monotonic() < deadline, "Airflow did not come up"
            time.sleep(0.5)
        yield made
    finally:
        made.server.stop()
        made.streamupdate("cancel", APP)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    assert CHROMIUM, "scripts/ui.sh looks for Chromium first"
    with sync_playwright() as playwright:
        # --no-sandbox: in a container, as root, Chromium's own sandbox cannot be set up
        launched = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield launched
        launched.close()


_failed = pytest.StashKey[bool]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed:
        item.stash[_failed] = True
    return report


@pytest.fixture
def open_page(
    site: Site, browser: Browser, request: pytest.FixtureRequest, tmp_path: Path
) -> Iterator[Callable[..., Page]]:
    """Opens a browser's page for a user (None: not logged in), light or dark. What its scripts threw fails the test;
    what it looked like when a test failed is kept."""
    problems: list[str] = []
    contexts: list[BrowserContext] = []

    def opened(user: str | None, path: str = "", theme: str = "light", size: tuple[int, int] = (1440, 900)) -> Page:
        context = browser.new_context(viewport={"width": size[0], "height": size[1]})
        contexts.append(context)
        context.set_default_timeout(60_000)
        context.add_init_script(f"localStorage.setItem('theme', '{theme}')")
        if user:
            context.add_cookies([{"name": "_token", "value": site.token(user), "url": site.url}])
        page = context.new_page()
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.goto(f"{site.url}/{path}")
        return page

    yield opened
    for n, context in enumerate(contexts):
        if request.node.stash.get(_failed, False):
            for page in context.pages:
                page.screenshot(path=tmp_path / f"failed-{n}.png")
                print(f"{page.url}: {tmp_path}/failed-{n}.png")
        context.close()
    assert not problems


@pytest.fixture
def screenshot(tmp_path: Path) -> Callable[..., None]:
    """Takes one, into the folder SCREENSHOTS names."""
    folder = Path(os.environ.get("SCREENSHOTS") or tmp_path)
    folder.mkdir(parents=True, exist_ok=True)

    def take(page: Page, name: str, height: float = 900) -> None:
        size = page.viewport_size
        assert size
        clip = {"x": 0, "y": 0, "width": size["width"], "height": min(height, size["height"])}
        page.screenshot(path=folder / f"{name}.png", clip=clip)

    return take
