"""The page's API: the real application in front of a real Airflow's users, connections and database."""

from __future__ import annotations

import datetime
import json
import re
import runpy
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import quote

import attrs
import pytest
from airflow_site import REPOSITORY, Site

from airflow_provider_streamupdate.control import metrics, overview
from airflow_provider_streamupdate.control.client import StreamUpdateClient
from airflow_provider_streamupdate.control.update.strategies import STRATEGIES
from airflow_provider_streamupdate.control.waiting import wait_for
from airflow_provider_streamupdate.core import clock
from airflow_provider_streamupdate.core.coordination.commands import CommandBox
from airflow_provider_streamupdate.core.errors import WaitTimeoutError
from airflow_provider_streamupdate.core.registry.application import Application
from airflow_provider_streamupdate.core.registry.deployment import Current, Launch
from airflow_provider_streamupdate.core.registry.registry import Registry
from airflow_provider_streamupdate.core.registry.update import (
    DEFAULT_STRATEGY,
    STRATEGY_SUMMARIES,
    Outcome,
    UpdateRecord,
)
from airflow_provider_streamupdate.plugins import root_requests
from airflow_provider_streamupdate.plugins.root_requests import AT_ONCE, RootRequests
from tests.core.builders import app_with_snapshots, deploy, set_status, spec, status

pytestmark = pytest.mark.processes  # the page's server has threads of its own, which no world drives

ROLES = {"nobody": None, "viewer": "viewer", "editor": "user", "admin": "admin"}
JSON = {"Content-Type": "application/json"}


@attrs.frozen
class Page:
    """The API as a user sees it."""

    client: Any
    tokens: dict[str, str]

    def ask(self, method: str, path: str, user: str | None = "viewer", **more: Any) -> Any:
        headers = {"Authorization": f"Bearer {self.tokens[user]}"} if user else {}
        return self.client.request(method, path, headers={**headers, **more.pop("headers", {})}, **more)

    def get(self, path: str, user: str | None = "viewer") -> Any:
        answer = self.ask("GET", path, user)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def codes(self, path: str) -> list[int]:
        """What those get who are not logged in, and each role."""
        return [self.ask("GET", path, user).status_code for user in (None, *ROLES)]


@pytest.fixture(scope="module")
def page(airflow_db: str) -> Iterator[Page]:
    from airflow.api_fastapi.app import init_auth_manager, purge_cached_app
    from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser
    from fastapi.testclient import TestClient

    from airflow_provider_streamupdate.plugins.streaming_apps import LazyApplication

    manager = init_auth_manager()
    users = {name: SimpleAuthManagerUser(username=name, role=role) for name, role in ROLES.items()}
    tokens = {name: manager.generate_jwt(user) for name, user in users.items()}
    yield Page(TestClient(LazyApplication(), raise_server_exceptions=False), tokens)
    purge_cached_app()


@pytest.fixture
def app(site: Site) -> Any:
    return app_with_snapshots(site.root, ("s1", "s2"))


APP = "/api/apps/streamupdate_default/flights"
SNAPSHOTS, HISTORY, UPDATE = f"{APP}/snapshots", f"{APP}/history", f"{APP}/updates/v2"
LOG = f"{APP}/deployments/v1/log"
READS = ("/", "/api/me", "/api/apps", APP, "/api/context?dag_id=stream_update", HISTORY, "/metrics")
ACTIONS = (
    ("POST", SNAPSHOTS, {"name": "s3"}, 202),
    ("POST", f"{SNAPSHOTS}/s1/verify", {}, 202),
    ("DELETE", f"{SNAPSHOTS}/s1", {}, 200),
)


@pytest.mark.parametrize("path", READS)
def test_who_may_read(page: Page, app: Any, path: str) -> None:
    assert page.codes(path) == [401, 403, 200, 200, 200]


def test_an_editor_deletes_an_app_that_ended_by_its_name(page: Page, app: Any) -> None:
    for user, code in ((None, 401), ("nobody", 403), ("viewer", 403)):
        assert page.ask("DELETE", APP, user, json={"name": "flights"}).status_code == code
    running = page.ask("DELETE", APP, "editor", json={"name": "flights"})
    assert running.status_code == 409 and "only a cancelled one is deleted" in running.text
    set_status(app, "v1", status("cancelled"))
    wrong = page.ask("DELETE", APP, "editor", json={"name": "flight"})
    assert wrong.status_code == 422 and "nothing was deleted" in wrong.text
    kept = page.ask("DELETE", APP, "editor", json={"name": "flights", "keep_snapshots": True})
    assert kept.status_code == 200 and kept.json()["snapshots"] == ["s1", "s2"], kept.text
    assert page.ask("GET", APP, "viewer").status_code == 404
    assert page.ask("DELETE", APP, "editor", json={"name": "flights"}).status_code == 200
    assert not Path(app.folder.path()).exists()


@pytest.mark.parametrize(("method", "path", "body", "done"), ACTIONS)
def test_who_may_act(page: Page, app: Any, method: str, path: str, body: dict[str, str], done: int) -> None:
    more: dict[str, Any] = {"json": body} if body else {"headers": JSON}
    for user, code in ((None, 401), ("nobody", 403), ("viewer", 403)):
        refused = page.ask(method, path, user, **more)
        assert refused.status_code == code and "error" in refused.json()
    assert {s["name"]: s["verified"] for s in page.get(APP)["snapshots"]} == {"s1": None, "s2": None}
    assert not list(Path(app.folder.path("deployments/v1")).rglob("commands/*"))
    allowed = page.ask(method, path, "editor", json=body, headers=JSON)
    assert allowed.status_code == done, allowed.text


def test_all_apps_are_metrics_in_the_format_that_is_asked_for(page: Page, app: Any) -> None:
    open_metrics = "application/openmetrics-text"
    for accept, begins in ((f"{open_metrics};version=1.0.0", open_metrics), ("*/*", "text/plain")):
        answer = page.ask("GET", "/metrics", "viewer", headers={"Accept": accept})
        assert answer.headers["content-type"].startswith(begins), accept
        assert 'streamupdate_snapshots{app="flights"} 2.0' in answer.text
        assert answer.headers["cache-control"] == "no-store"


def test_what_an_update_changed_and_who_may_read_its_code(page: Page, site: Site, app: Any) -> None:
    secret = "hunter2-hunter2"
    site.connect(storage_options=json.dumps({"secret": secret}))
    for name in ("v1", "v2"):
        app.deployment_folder(name).write("application/v1.py", f"# {name} <b>\nuse('{secret}')\n".encode())
    application = Application(file="application/v1.py", params={"input": "/out", "api_token": "t0k3n-t0k3n"})
    app.create_deployment(spec("v2", application=application))
    app.set_update(UpdateRecord(app="flights", old="v1", new="v2", started_at=clock.now(), asked_by="me@here"))
    assert page.codes(UPDATE) == [401, 403, 200, 200, 200] and page.codes(f"{UPDATE}/code") == [401, 403, 403, 200, 200]
    found, code = page.get(UPDATE), page.get(f"{UPDATE}/code", "editor")
    assert found["update"]["asked_by"] == "me@here" and found["update"]["left"]
    assert {(c["part"], c["key"], c["after"]) for c in found["settings"]} == {
        ("parameters", "api_token", "(hidden)"),
        ("parameters", "input", "/out"),
    }
    [file] = code["files"]
    assert file["lines"] == ["@@ -1,2 +1,2 @@", "-# v1 <b>", "+# v2 <b>", " use('***')"]
    unknown = page.ask("GET", UPDATE.replace("v2", "v9"), "editor")
    assert (unknown.status_code, unknown.json()["error"]["type"]) == (404, "NotFoundError")


def test_the_list_says_whose_update_waits_for_a_person(page: Page, app: Any) -> None:
    from airflow.models.taskinstance import TaskInstance
    from airflow.utils.session import create_session

    app.set_update(_update())
    assert [need["kind"] for need in page.get("/api/apps")["apps"][0]["needs"]] == ["update-interrupted"]
    with _run("stream_update", "asks", {"app": "flights", "deployment": "v2"}, state="running"):
        now = datetime.datetime.now(datetime.timezone.utc)
        for state in ("awaiting_input", "deferred", "success"):  # the first: of Airflow 3.3 on
            with create_session() as session:
                task = session.query(TaskInstance).filter_by(run_id="asks", task_id="update.check")
                task.update({"state": state, "operator": "ApprovalOperator", "start_date": now})
            [listed] = page.get("/api/apps")["apps"]
            waits = state != "success"
            assert [n["kind"] for n in listed["needs"]] == ["update-interrupted", *(["update-waits"] if waits else [])]
            assert ("approval" in listed) is waits
            if waits:
                assert (listed["approval"]["run_id"], listed["approval"]["task_id"]) == ("asks", "update.check")


def test_the_end_of_a_drivers_log_and_who_may_read_it(page: Page, site: Site, app: Any) -> None:
    assert page.codes(LOG) == [401, 403, 403, 200, 200]
    log = Path(app.folder.path("deployments/v1/driver-1.log"))
    log.write_text("".join(f"line {n} {'x' * 3000}\n" for n in range(500)))
    launched = Launch(epoch=1, host="a-worker", pid=None, log=str(log), launched_at=clock.now())
    app.set_launch("v1", launched)  # the root is shared
    found = page.get(LOG, "editor")
    assert (found["deployment"], found["host"], found["path"], found["note"]) == ("v1", "a-worker", str(log), None)
    assert [line[:8] for line in (found["lines"][0], found["lines"][-1])] == ["line 300", "line 499"]
    assert len(found["lines"]) == 200 and max(map(len, found["lines"])) == 2000

    site.connect(storage_options=json.dumps({"secret": "hunter2-hunter2"}))
    application = Application(file="x.py", params={"api_token": "t0k3n-t0k3n", "input": "/data"})
    app.create_deployment(spec("v2", application=application))
    log = Path(app.folder.path("deployments/v2/driver-1.log"))
    log.write_text("uses hunter2-hunter2 and t0k3n-t0k3n, at s3://me:pa55@bucket/in, reads /data\n")
    app.set_launch("v2", Launch(epoch=1, host="here", pid=None, log=str(log), launched_at=clock.now()))
    [line] = page.get(LOG.replace("v1", "v2"), "editor")["lines"]
    assert line == "uses *** and (hidden), at s3://***@bucket/in, reads /data", "no secret that is known"


def test_the_session_cookie_is_enough_and_an_expired_session_is_none(page: Page, app: Any) -> None:
    from airflow.api_fastapi.app import get_auth_manager
    from airflow.api_fastapi.auth.managers.base_auth_manager import COOKIE_NAME_JWT_TOKEN
    from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser

    cookie = {"Cookie": f"{COOKIE_NAME_JWT_TOKEN}={page.tokens['viewer']}"}
    assert page.client.get("/api/apps", headers=cookie).status_code == 200
    assert page.client.post(f"{SNAPSHOTS}/s1/verify", headers={**JSON, **cookie}).status_code == 403
    user = SimpleAuthManagerUser(username="old", role="admin")
    old = get_auth_manager().generate_jwt(user, expiration_time_in_seconds=-3600)
    assert page.client.get("/api/apps", headers={"Authorization": f"Bearer {old}"}).status_code == 401


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
        ({"Origin": "null"}, 403),
        ({"Content-Type": "text/plain"}, 415),
        ({"Origin": "http://testserver", "Sec-Fetch-Site": "same-origin"}, 202),
    ],
)
def test_another_site_cannot_have_a_browser_act(page: Page, app: Any, headers: dict[str, str], code: int) -> None:
    answer = page.ask("POST", f"{SNAPSHOTS}/s1/verify", "editor", headers={**JSON, **headers})
    assert answer.status_code == code, answer.text


def test_what_the_page_knows_of_its_user_and_what_it_may_start(page: Page) -> None:
    strategies = {
        s.name: {"name": s.name, "summary": STRATEGY_SUMMARIES[s.name], "runs_beside": s.runs_beside}
        for s in STRATEGIES.values()
    }
    for user, may in (("viewer", False), ("editor", True)):
        me = page.get("/api/me", user)
        assert (me["user"], me["may_edit"], me["restart_dag_id"]) == (user, may, "stream_restart")
        assert (me["may_trigger"]["stream_update"], me["may_trigger"]["stream_restart"]) == (may, may)
        told = me["strategies"]
        assert told[0]["name"] == DEFAULT_STRATEGY and {s["name"]: s for s in told} == strategies


def test_a_root_that_takes_long_is_shown_as_it_was(page: Page, app: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """5,000 apps took more than the ten seconds that a request waits: the page said that the root cannot be reached."""
    go_on, read = threading.Event(), overview.each_glance
    before = page.get("/api/apps")
    text = page.ask("GET", "/metrics").text
    assert before["total"] == 1 and before["connections"][0]["error"] is None
    monkeypatch.setattr(root_requests, "PATIENCE", 0.01)
    monkeypatch.setattr(StreamUpdateClient, "each_glance", lambda client: go_on.wait(60) and read(client.context))
    monkeypatch.setattr(StreamUpdateClient, "metrics", lambda client: go_on.wait(60) and [{"apps": b"new\n"}])
    try:
        for _ in range(2):
            assert page.get("/api/apps")["apps"] == before["apps"]
            assert page.ask("GET", "/metrics").text == text
    finally:
        go_on.set()
    deadline = time.monotonic() + 60
    while "\nnew\n" not in page.ask("GET", "/metrics").text:
        assert time.monotonic() < deadline


def test_the_first_list_of_a_large_root_shows_what_was_read(
    page: Page, site: Site, app: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It took more than the ten seconds that a request waits: the first list after a start was an error."""
    deploy(Registry(str(site.root)).app("another"))
    first, go_on, samples = threading.Event(), threading.Event(), metrics.Metrics._by_app

    def slowly(client: StreamUpdateClient) -> Iterator[Any]:
        for found in overview.each_glance(client.context):
            yield found
            first.set()
            assert go_on.wait(60)

    monkeypatch.setattr(root_requests, "PATIENCE", 0.5)

    def slow_samples(reading: metrics.Metrics) -> Iterator[list[metrics.Sample]]:
        for found in samples(reading):
            yield found
            assert go_on.wait(60)

    monkeypatch.setattr(StreamUpdateClient, "each_glance", slowly)
    monkeypatch.setattr(metrics.Metrics, "_by_app", slow_samples)
    try:
        text = page.ask("GET", "/metrics").text
        assert "streamupdate_complete 0.0\n" in text and "\nstreamupdate_apps " not in text
        assert text.count("streamupdate_updates_total{app=") == len(Outcome)  # those of one app
        shown = page.get("/api/apps")
        assert first.is_set() and shown["total"] == 1 == len(shown["apps"])
        assert shown["connections"][0]["error"] == {"type": "Stale", "message": "its apps are being read: 1 so far"}
    finally:
        go_on.set()
    monkeypatch.setattr(root_requests, "PATIENCE", 60)
    whole, text = page.get("/api/apps"), page.ask("GET", "/metrics").text
    assert whole["total"] == 2 and whole["connections"][0]["error"] is None
    assert "streamupdate_complete 1.0\n" in text and "streamupdate_apps 2.0\n" in text


def test_the_list_comes_page_by_page(page: Page, site: Site, app: Any) -> None:
    for name in ("alpha", "beta", "gamma"):
        deploy(Registry(str(site.root)).app(name))
    whole = page.get("/api/apps")
    names = [listed["app"] for listed in whole["apps"]]
    assert whole["total"] == 4 and len(names) == 4
    assert [a["app"] for a in page.get("/api/apps?limit=2&offset=1")["apps"]] == names[1:3]
    found = page.get("/api/apps?search=ALPH")
    assert found["total"] == 1 and [a["app"] for a in found["apps"]] == ["alpha"]
    assert page.ask("GET", "/api/apps?limit=-1").status_code == 422


def test_secrets_are_masked(page: Page, site: Site, app: Any) -> None:
    secret = "hunter2-hunter2"
    site.connect(storage_options=json.dumps({"secret": secret, "endpoint": "x"}))
    application = Application(
        file="application/v1.py",
        params={"input": f"s3://me:{secret}@bucket/in", "api_token": "t0k3n-t0k3n", "note": f"uses {secret}"},
        conf={"spark.hadoop.fs.s3a.secret.key": "k3y-k3y", "spark.sql.shuffle.partitions": "2"},
        env_vars={"DB_PASSWORD": "pa55-pa55", "URL": "jdbc://u:pw-pw@host/x"},
    )
    app.create_deployment(spec("v2", application=application))
    set_status(app, "v2", status(error=f"cannot log in with {secret}"))
    set_status(app, "v1", status("failed", error=f"no access with {secret} at s3://me:pa55-pa55@bucket"))
    [need] = page.get("/api/apps")["apps"][0]["needs"]
    assert need["kind"] == "failed" and "no access with" in need["reason"]
    text = page.ask("GET", APP).text + need["reason"]
    for word in (secret, "t0k3n-t0k3n", "k3y-k3y", "pa55-pa55", "pw-pw"):
        assert word not in text
    shown = page.get(APP)["deployments"][1]["application"]
    assert shown["conf"]["spark.sql.shuffle.partitions"] == "2"
    assert shown["params"]["input"].endswith("@bucket/in")


def test_a_secret_is_masked_as_an_error_quotes_it(page: Page, site: Site, app: Any) -> None:
    """And a parameter of a megabyte, which once held the GIL for minutes, neither freezes nor floods the page."""
    secret = 'hun"ter2/x\ny'
    params = {"db_pass": secret, "note": "s3a://u:p," * 100_000}
    app.create_deployment(spec("v2", application=Application(file="application/v1.py", params=params)))
    quoted = f"{secret!r} {json.dumps(secret)} {quote(secret)} password=other-1 Bearer other-2"
    set_status(app, "v1", status("failed", error=quoted))
    answer = page.ask("GET", APP)
    assert answer.status_code == 200 and len(answer.text) < 100_000
    told = json.loads(answer.text)["status"]["error"]
    assert told == "'(hidden)' \"(hidden)\" (hidden) password=(hidden) Bearer (hidden)"


def test_nothing_of_a_document_is_markup(page: Page, app: Any) -> None:
    hostile = "<img src=x onerror=alert(1)>"
    app.create_deployment(spec("v2", application=Application(file="x.py", params={"note": hostile})))
    answer = page.ask("GET", APP)
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["x-content-type-options"] == "nosniff"
    policy = answer.headers["content-security-policy"]
    assert "script-src 'self'" in policy and "unsafe" not in policy
    assert answer.json()["deployments"][1]["application"]["params"]["note"] == hostile
    told = page.ask("GET", f"/api/apps/{hostile.replace('/', '')}/flights")
    assert (told.status_code, told.headers["content-type"]) == (404, "application/json")


@pytest.mark.parametrize("path", ["/assets/../api.py", "/assets/..%2f..%2fapi.py", "/assets/%2e%2e", "/assets/none.js"])
def test_only_the_pages_own_files_are_served(page: Page, path: str) -> None:
    assert page.ask("GET", path).status_code == 404


def test_errors_are_json_with_what_to_do(page: Page, site: Site, app: Any) -> None:
    def told(path: str, method: str = "GET", **more: Any) -> tuple[int, str]:
        answer = page.ask(method, path, "editor", **more)
        return answer.status_code, answer.json()["error"]["type"]

    assert told("/api/apps/streamupdate_default/none") == (404, "NotFoundError")
    assert told("/api/apps/other/flights") == (404, "NotFoundError")
    assert told("/api/apps/streamupdate_default/none/history") == (404, "NotFoundError")
    assert told(f"{HISTORY}?seconds=0") == told(f"{HISTORY}?seconds=1e9") == (422, "InvalidInputError")
    assert told("/metrics?conn_id=other") == (404, "NotFoundError")
    assert told(SNAPSHOTS, "POST", json={"name": "no/name"}) == (422, "InvalidInputError")
    assert told(SNAPSHOTS, "POST", json={"name": "s1"}) == (409, "AlreadyExistsError")
    assert told(f"{SNAPSHOTS}/none/verify", "POST", headers=JSON) == (404, "NotFoundError")
    set_status(app, "v1", status("cancelled"))
    assert told(SNAPSHOTS, "POST", json={"name": "s3"}) == (409, "NotRunningError")
    whole = app.folder.read("deployments/v1/spec.json")
    app.folder.write("deployments/v1/spec.json", b"{")
    assert told(APP) == (500, "CorruptError")
    [listed] = page.get("/api/apps")["apps"]
    assert listed["state"] == "unreadable" and "spec.json" in listed["error"]["message"]
    app.folder.write("deployments/v1/spec.json", whole)


@pytest.mark.parametrize(
    ("connection", "type_", "words"),
    [
        ({"conn_type": "streamupdate"}, "InvalidInputError", "has no root"),
        ({"conn_type": "streamupdate", "extra": {"root": "nope://x"}}, "InvalidInputError", "nope"),
        ({"conn_type": "streamupdate", "extra": {"root": "/dev/null/x"}}, "StorageError", "/dev/null"),
    ],
)
def test_a_broken_connection_hides_no_other(
    page: Page, site: Site, app: Any, connection: dict[str, Any], type_: str, words: str
) -> None:
    site.define("broken", **connection)
    found = page.get("/api/apps")
    assert [listed["app"] for listed in found["apps"]] == ["flights"]
    errors = {c["conn_id"]: c["error"] for c in found["connections"]}
    assert errors["streamupdate_default"] is None
    assert errors["broken"]["type"] == type_ and words in errors["broken"]["message"]


def test_a_root_that_does_not_answer_is_given_up_and_what_nobody_waits_for_is_not_begun() -> None:
    """It is asked once; a delete that was told to have failed is not done minutes later."""
    requests, over, begun = RootRequests(seconds=0.5), threading.Event(), list[int]()

    def work(number: int) -> int:
        begun.append(number)
        over.wait()
        return number

    with ThreadPoolExecutor(41) as pool:
        asked = [pool.submit(requests.ask, "a", n, f"app {n}", lambda n=n: work(n)) for n in (0, *range(40))]
        errors = [each.exception(60) for each in asked]
    assert {type(error) for error in errors} == {WaitTimeoutError} and "did not answer within" in str(errors[0])
    assert requests.ask("b", "y", "app y", lambda: 7) == 7, "another root"
    waiting = requests.start("a", begun[0], lambda: -1)
    over.set()
    assert waiting.result(30) == begun[0]
    with pytest.raises(ZeroDivisionError):
        requests.ask("a", "last", "app last", lambda: 1 / 0)
    assert len(begun) == AT_ONCE


def test_a_snapshot_that_was_asked_for_is_the_drivers_to_take(page: Page, app: Any) -> None:
    assert page.ask("POST", SNAPSHOTS, "editor", json={"name": "by-hand"}).status_code == 202
    [command] = CommandBox(app.deployment_folder("v1"), 1).pending()
    assert (command.kind, command.snapshot, command.cancel) == ("snapshot", "by-hand", False)
    assert [page.ask("GET", f"{SNAPSHOTS}/{name}").status_code for name in ("by-hand", "s1")] == [202, 200]


def test_an_update_is_shown_with_its_run_to_those_who_may_see_it(page: Page, app: Any) -> None:
    app.set_update(_update(outcome="promoted"))
    app.set_current(Current(deployment="v1", epoch=1))
    with _run("stream_update", "by-hand", {"app": "flights", "deployment": "v2"}):
        [run] = page.get(APP)["runs"]
        shown = [run[field] for field in ("dag_id", "run_id", "deployment", "state")]
        assert shown == ["stream_update", "by-hand", "v2", "success"]
        assert "flights" in page.get("/api/context?dag_id=stream_update")["apps"]
        assert page.get("/api/context?dag_id=stream_update&run_id=by-hand")["apps"] == ["flights"]
        assert page.get("/api/context?dag_id=stream_update&run_id=another")["apps"] == []
        assert page.get("/api/context?dag_id=other")["apps"] == []


def test_a_check_is_shown_with_its_report(page: Page, app: Any) -> None:
    report = {"app": "flights", "source": "deployment v1", "outcome": "compatible", "items": []}
    conf = {"app": "flights", "application": "x", "check_only": True}
    with _run("stream_update", "a-check", {"report": report}, conf=conf, task="update.check"):
        [request] = page.get(APP)["requests"]
    assert (request["check_only"], request["report"], request["rehearsal"]) == (True, report, None)


def _update(**more: Any) -> UpdateRecord:
    return UpdateRecord(app="flights", old="v1", new="v2", started_at="2026-11-21T10:00:00+00:00", **more)


class _run:
    """A DAG run in the database, whose step `plan` left XComs."""

    def __init__(self, dag_id: str, run_id: str, xcoms: dict[str, Any] | None = None, **more: Any) -> None:
        self.dag_id, self.run_id, self.xcoms = dag_id, run_id, xcoms or {}
        self.state, self.task = more.get("state", "success"), more.get("task", "update.plan")
        self.conf = more.get("conf", {"app": "flights", "application": "x"})

    def __enter__(self) -> None:
        from airflow.dag_processing.bundles.manager import DagBundlesManager
        from airflow.models.xcom import XComModel
        from airflow.utils.session import create_session
        from airflow_site import DAG_BAG, REPOSITORY, SYNC_BAG, part_of_airflow

        DagBundlesManager().sync_bundles_to_db()
        bag = part_of_airflow(*DAG_BAG)(str(REPOSITORY / "dags" / f"{self.dag_id}.py"))
        part_of_airflow(*SYNC_BAG)(bag, "dags-folder", None)
        from airflow.models.dagrun import DagRun
        from airflow.models.serialized_dag import SerializedDagModel
        from airflow.utils.state import DagRunState
        from airflow.utils.types import DagRunTriggeredByType, DagRunType

        with create_session() as session:
            dag = SerializedDagModel.get(self.dag_id, session=session).dag
            now = datetime.datetime.now(datetime.timezone.utc)
            run: DagRun = dag.create_dagrun(
                run_id=self.run_id,
                run_after=now,
                run_type=DagRunType.MANUAL,
                triggered_by=DagRunTriggeredByType.TEST,
                state=DagRunState(self.state),
                session=session,
                conf=self.conf,
            )
            if self.state == "queued":
                run.queued_at = now
            session.flush()
            for key, value in self.xcoms.items():
                XComModel.set(
                    key=key, value=value, dag_id=self.dag_id, task_id=self.task, run_id=run.run_id, session=session
                )

    def __exit__(self, *_: object) -> None:
        from airflow.models.dagrun import DagRun
        from airflow.utils.session import create_session

        with create_session() as session:
            session.query(DagRun).filter_by(dag_id=self.dag_id, run_id=self.run_id).delete()


def test_the_plugin_is_one_to_airflow() -> None:
    from airflow.api_fastapi.core_api.datamodels.plugins import ExternalViewResponse
    from airflow_site import VALID_PLUGIN, part_of_airflow

    from airflow_provider_streamupdate.plugins.streaming_apps import StreamingAppsPlugin

    assert part_of_airflow(*VALID_PLUGIN)(StreamingAppsPlugin)
    views = [ExternalViewResponse(**view) for view in StreamingAppsPlugin.external_views]
    assert [view.destination for view in views] == ["nav", "dag", "dag_run", "task_instance"]
    assert [view.name for view in views] == ["Streams", *["Streaming apps"] * 3]
    assert len({view.url_route for view in views}) == len(views)


def test_what_a_verification_finds_is_shown(page: Page, app: Any) -> None:
    some = next(path for path in Path(app.folder.path("objects")).rglob("*") if path.is_file())
    some.unlink()  # the other snapshot has a link to the same bytes
    for name in ("s1", "s2"):
        assert page.ask("POST", f"{SNAPSHOTS}/{name}/verify", "editor", headers=JSON).status_code == 202

    def found() -> list[Any] | None:
        verified = [s["verified"] for s in page.get(APP)["snapshots"]]
        return verified if all(verified) else None

    assert sorted(bool(v["problem"]) for v in wait_for(found, "the verifications", 30)) == [False, True]


WWW = REPOSITORY / "airflow_provider_streamupdate" / "plugins" / "www"
DIST = WWW / "dist"


def test_what_is_built_is_of_these_sources() -> None:
    digest = runpy.run_path(str(REPOSITORY / "scripts" / "www_digest.py"))["digest"]
    built = (DIST / "sources.sha256").read_text().strip()
    assert built == digest(), "the sources changed since the last build: run make www and commit what it writes"


def test_the_page_refers_to_files_that_are_there_and_to_no_other_site() -> None:
    page = (DIST / "index.html").read_text()
    referred = re.findall(r'(?:src|href)="([^"]+)"', page)
    assert len(referred) >= 3
    assert all((DIST / path).is_file() for path in referred), referred
    assert "<script>" not in page and "<style" not in page, "its policy allows none"


def test_the_sources_never_write_markup_from_values() -> None:
    for source in (WWW / "src").rglob("*.ts*"):
        text = source.read_text()
        for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "dangerouslySetInnerHTML", "document.write"):
            assert word not in text, f"{Path(source).name}: {word}"
