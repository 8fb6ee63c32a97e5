"""The page's application: its files and its API. docs/ui.md lists the routes and who may use them."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Hashable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from html import escape
from pathlib import Path
from typing import Annotated, Any, TypeVar

import attrs
from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity
from fastapi import Depends, FastAPI, HTTPException, Query, Request
from fastapi.responses import FileResponse, HTMLResponse, JSONResponse, Response
from pydantic import BaseModel
from starlette.exceptions import HTTPException as StarletteHTTPException

from ..control.attention import Need, rank, with_approval
from ..control.client import StreamUpdateClient
from ..control.metrics import content_type_of, text_of
from ..control.overview import needs_of, summary
from ..control.review.review import review_document
from ..control.status import Glance
from ..control.update.strategies import STRATEGIES
from ..core import errors
from ..core.errors import StreamUpdateError
from ..core.registry.update import DEFAULT_STRATEGY, STRATEGY_SUMMARIES
from ..core.serde import to_dict
from ..hooks.settings import DEFAULT_CONN_ID
from .airflow_database import of_runs, unread
from .connections import Installation, Installations
from .guard import DAGS, User, dag_id_for, editor, may, reader, trusted
from .masking import masked, masked_code
from .root_requests import PATIENCE, Answer, RootRequests

log = logging.getLogger(__name__)
T = TypeVar("T")

NO_RUNS: list[dict[str, Any]] = []
LISTED = 10_000  # apps in an answer, unless fewer are asked for
DIST = Path(__file__).with_name("www") / "dist"
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; frame-ancestors 'self'; base-uri 'none'; form-action 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
}
# The HTTP status of a StreamUpdateError: the first that matches.
STATUS: tuple[tuple[type[StreamUpdateError], int], ...] = (
    (errors.NotFoundError, 404),
    (errors.InvalidInputError, 422),
    (errors.StorageError, 503),
    (errors.WaitTimeoutError, 504),
    (errors.CorruptError, 500),
    (StreamUpdateError, 409),
)
Count = Annotated[int, Query(ge=0)]
Reader = Annotated[Any, Depends(reader)]
Editor = Annotated[Any, Depends(editor)]
Trusted = Annotated[Any, Depends(trusted)]


class NewSnapshot(BaseModel):
    """The body of a request for a snapshot."""

    name: str


class DeletedAppName(BaseModel):
    """The body of a request to delete an app."""

    name: str  # the app's, as a person typed it
    keep_snapshots: bool = False


class Roots:
    """The connections that the page shows, and requests to their roots."""

    def __init__(self) -> None:
        self.installations = Installations()
        self.requests = RootRequests()

    def ask(self, conn_id: str, what: str, key: Hashable, request: Callable[[StreamUpdateClient], T]) -> T:
        """Return a client's answer; raise WaitTimeoutError when its root does not answer in time."""
        return self.requests.ask(conn_id, key, what, lambda: request(self.installations.client(conn_id)))


def create_app() -> FastAPI:
    """Return the application that the plugin mounts."""
    app = FastAPI(title="Streaming apps", docs_url=None, redoc_url=None, openapi_url=None)
    roots = Roots()
    _handle_errors(app)

    @app.middleware("http")
    async def headers(request: Request, call_next: Any) -> Response:
        response: Response = await call_next(request)
        for name, value in HEADERS.items():
            response.headers.setdefault(name, value)
        response.headers.setdefault("Cache-Control", "no-store")
        return response

    _add_page(app)
    _add_lists(app, roots)
    _add_app_reads(app, roots)
    _add_snapshot_actions(app, roots)
    return app


def _add_page(app: FastAPI) -> None:
    """Add the page's files, and what the page knows of its user and of a DAG."""

    @app.get("/")
    def page(_: Reader) -> Response:
        if not (DIST / "index.html").exists():
            raise HTTPException(500, f"the page's files are missing under {DIST}; install the package again")
        return FileResponse(DIST / "index.html", headers={"Cache-Control": "no-cache"})

    @app.get("/assets/{name}")
    def asset(name: str, _: User) -> Response:
        files = {path.name: path for path in (DIST / "assets").glob("*")}
        if name not in files:
            raise HTTPException(404, f"there is no file {name!r}")
        return FileResponse(files[name], headers={"Cache-Control": "private, max-age=86400"})

    @app.get("/api/me")
    def me(request: Request, user: Reader) -> Response:
        dags = {purpose: dag_id_for(purpose) for purpose in DAGS}
        return JSONResponse(
            {
                "user": user.get_name(),
                "may_edit": may(request, user, "PUT", dags["update"]),
                "may_trigger": {
                    dag_id: may(request, user, "POST", dag_id, DagAccessEntity.RUN) for dag_id in dags.values()
                },
                "missing_dags": of_runs(lambda runs: runs.missing(dags.values()), []),
                "strategies": [
                    {"name": s.name, "summary": STRATEGY_SUMMARIES[s.name], "runs_beside": s.runs_beside}
                    for s in sorted(STRATEGIES.values(), key=lambda s: s.name != DEFAULT_STRATEGY)
                ],
                **{f"{purpose}_dag_id": dag for purpose, dag in dags.items()},
            }
        )

    @app.get("/api/context")
    def context(request: Request, user: Reader, dag_id: str, run_id: str | None = None) -> Response:
        """Return the apps that a DAG, or one run of it, updates."""
        if not may(request, user, "GET", dag_id, DagAccessEntity.RUN):
            raise HTTPException(403, f"you may not read DAG {dag_id}")
        runs = of_runs(lambda runs: runs.update_runs(user, dag_id, run_id), NO_RUNS)
        apps = {run["app"] for run in runs}
        if not apps and run_id and (app := of_runs(lambda runs: runs.asked_for(dag_id, run_id), None)):
            apps = {app}
        return JSONResponse({"apps": sorted(apps), "runs": runs})


def _add_lists(app: FastAPI, roots: Roots) -> None:
    """Add the list of all apps, and their metrics."""

    @app.get("/api/apps")
    def list_apps(user: Reader, limit: Count = LISTED, offset: Count = 0, search: str = "") -> Response:
        """Return the apps that need a person first, the most urgent first, then by name.

        The answer has `limit` of them from `offset` on, of those whose name contains `search`, and how many there are.
        """
        began = time.monotonic()
        installations = roots.installations.all()
        started = {i.conn_id: _start_list(roots, i) for i in installations if i.client is not None}
        connections, apps = [], list[ListedApp]()
        waiting = of_runs(lambda runs: runs.approvals(user), NO_RUNS)
        for installation in installations:
            conn_id, error, answer = installation.conn_id, installation.error, None
            if conn_id in started:
                try:
                    key, what = ("list", installation.client), f"connection {conn_id}"
                    answer = roots.requests.wait_recent(conn_id, key, started[conn_id], what, began)
                except StreamUpdateError as problem:
                    error = problem
            found = answer.value if answer else []
            apps += [app.with_approval(waiting) for app in found if search.lower() in app.name.lower()]
            problem_shown = masked(_document(error)) if error else _staleness(answer) if answer else None
            connections.append({"conn_id": conn_id, "root": masked(installation.root), "error": problem_shown})
        if missing := unread():
            connections.append({"conn_id": "Airflow", "root": None, "error": {"type": "Unread", "message": missing}})
        apps.sort(key=lambda app: (app.rank, app.conn_id))
        page = apps[offset : offset + limit]
        return JSONResponse({"connections": connections, "apps": [app.document for app in page], "total": len(apps)})

    @app.get("/metrics")
    def metrics(request: Request, _: Reader, conn_id: str = DEFAULT_CONN_ID) -> Response:
        """Return all apps of a connection as metrics, in the format that the request accepts."""
        content_type = content_type_of(request.headers.get("accept", ""))
        began, client = time.monotonic(), roots.installations.client(conn_id)
        future = roots.requests.start_recent(conn_id, ("metrics", client), client.metrics)
        answer = roots.requests.wait_recent(conn_id, ("metrics", client), future, "its metrics", began)
        text = text_of(answer.value, content_type, answer.whole)
        return Response(text, headers={"Content-Type": content_type})


def _start_list(roots: Roots, installation: Installation) -> Future[Answer[list[ListedApp]]]:
    conn_id, client = installation.conn_id, installation.client
    assert client is not None
    return roots.requests.start_recent(conn_id, ("list", client), partial(_listed_apps, conn_id, client))


def _staleness(answer: Answer[list[ListedApp]]) -> dict[str, str] | None:
    """Return what is missing of a list that is still being read, or how old it is."""
    if not answer.whole:
        return {"type": "Stale", "message": f"its apps are being read: {len(answer.value)} so far"}
    if answer.age <= max(PATIENCE, answer.seconds):
        return None
    return {"type": "Stale", "message": f"its {len(answer.value)} apps are shown as they were {answer.age:.0f} s ago"}


def _add_app_reads(app: FastAPI, roots: Roots) -> None:
    """Add what is read of one app."""

    @app.get("/api/apps/{conn_id}/{name}")
    def one_app(conn_id: str, name: str, user: Reader) -> Response:
        document = roots.ask(conn_id, f"app {name}", name, lambda client: masked(client.app_document(name)))
        runs = [run for run in of_runs(lambda runs: runs.update_runs(user), NO_RUNS) if run["app"] == name]
        dag_ids = [dag_id_for(purpose) for purpose in DAGS]
        requests = of_runs(lambda runs: runs.requested(user, dag_ids, name, conn_id), NO_RUNS)
        return JSONResponse({"conn_id": conn_id, **document, **masked({"runs": runs, "requests": requests})})

    @app.get("/api/apps/{conn_id}/{name}/history")
    def history(conn_id: str, name: str, _: Reader, seconds: float = 3600.0) -> Response:
        """Return what the app did in the last so many seconds, for charts."""
        key, what = (name, seconds, "history"), f"the history of {name}"
        return JSONResponse(roots.ask(conn_id, what, key, lambda client: client.history(name, seconds)))

    @app.get("/api/apps/{conn_id}/{name}/updates/{update}")
    def one_update(conn_id: str, name: str, update: str, _: Reader) -> Response:
        """Return what an update changed: settings, agreements, the hours before and after."""
        key, what = (name, update, "review"), f"update {update} of {name}"
        review = roots.ask(conn_id, what, key, lambda client: masked(review_document(client.review(name, update))))
        return JSONResponse(review)

    @app.get("/api/apps/{conn_id}/{name}/updates/{update}/code")
    def code_of_update(conn_id: str, name: str, update: str, _: Trusted) -> Response:
        """Return how the code of an update's versions differs. Code may hold secrets that nobody can recognise."""
        key, what = (name, update, "code"), f"the code of {update}"
        code = roots.ask(conn_id, what, key, lambda client: masked_code(to_dict(client.code_of_update(name, update))))
        return JSONResponse(code)

    @app.get("/api/apps/{conn_id}/{name}/deployments/{deployment}/log")
    def log_tail(conn_id: str, name: str, deployment: str, _: Trusted) -> Response:
        """Return the last lines of the deployment's newest driver's log, or where that log is."""
        key, what = (name, deployment, "log"), f"the log of {deployment}"
        end = roots.ask(conn_id, what, key, lambda client: client.driver_log(name, deployment))
        return JSONResponse(masked(to_dict(end)))

    @app.get("/api/apps/{conn_id}/{name}/snapshots/{snapshot}")
    def one_snapshot(conn_id: str, name: str, snapshot: str, _: Reader) -> Response:
        """Answer 200 when the snapshot is complete, 202 while it is under way, an error when it failed."""
        key, what = (name, snapshot, "poll"), f"snapshot {snapshot}"
        taken = roots.ask(conn_id, what, key, lambda client: client.poll_snapshot(name, snapshot))
        return JSONResponse({"app": name, "name": snapshot, "complete": taken is not None}, 200 if taken else 202)


def _add_snapshot_actions(app: FastAPI, roots: Roots) -> None:
    """Add what changes an app without a DAG: its snapshots are taken, verified and deleted, and it is deleted."""
    verifier = ThreadPoolExecutor(1, thread_name_prefix="verify-snapshot")  # it reads every byte: one at a time

    @app.post("/api/apps/{conn_id}/{name}/snapshots", status_code=202)
    def take_snapshot(conn_id: str, name: str, body: NewSnapshot, user: Editor) -> Response:
        """Ask the driver for a snapshot. The driver takes it asynchronously; poll it with GET."""
        key = name, body.name, "take"
        roots.ask(conn_id, f"app {name}", key, lambda client: client.begin_snapshot(name, body.name))
        log.info("%s requested snapshot %s of %s", user.get_name(), body.name, name)
        return JSONResponse({"app": name, "name": body.name}, 202)

    @app.post("/api/apps/{conn_id}/{name}/snapshots/{snapshot}/verify", status_code=202)
    def verify(conn_id: str, name: str, snapshot: str, user: Editor) -> Response:
        """Begin the verification; its result is stored beside the snapshot."""
        key = name, snapshot, "read"
        roots.ask(conn_id, f"snapshot {snapshot}", key, lambda client: client.snapshot(name, snapshot))

        def work() -> None:
            try:
                roots.installations.client(conn_id).verify_snapshot(name, snapshot)
            except StreamUpdateError as error:
                log.error("verification of snapshot %s of %s: %s", snapshot, name, error)

        verifier.submit(work)
        log.info("%s requested a verification of snapshot %s of %s", user.get_name(), snapshot, name)
        return JSONResponse({"app": name, "name": snapshot}, 202)

    @app.delete("/api/apps/{conn_id}/{name}/snapshots/{snapshot}")
    def delete(conn_id: str, name: str, snapshot: str, user: Editor) -> Response:
        key = name, snapshot, "delete"
        freed = roots.ask(conn_id, f"snapshot {snapshot}", key, lambda client: client.delete_snapshot(name, snapshot))
        log.info("%s deleted snapshot %s of %s", user.get_name(), snapshot, name)
        return JSONResponse({"app": name, "name": snapshot, "bytes_freed": freed})

    @app.delete("/api/apps/{conn_id}/{name}")
    def delete_app(conn_id: str, name: str, body: DeletedAppName, user: Editor) -> Response:
        """Delete a cancelled app. If it takes longer than a request may, it goes on; the same request completes it."""
        if body.name != name:
            raise HTTPException(422, f"the name that was typed is not {name}; nothing was deleted")
        key = name, body.keep_snapshots, "delete-app"
        log.info("%s deletes app %s", user.get_name(), name)
        deleted = roots.ask(conn_id, f"app {name}", key, lambda client: client.delete_app(name, body.keep_snapshots))
        return JSONResponse(to_dict(deleted))


@attrs.frozen
class ListedApp:
    """An app of the list."""

    conn_id: str
    name: str
    rank: Any  # sort key
    document: Mapping[str, Any]
    needs: tuple[Need, ...] = ()
    update: str | None = None  # the deployment that an update under way brings in

    @classmethod
    def of(cls, conn_id: str, app: str, found: Glance | StreamUpdateError) -> ListedApp:
        """Return an app as it is listed. What it needs somebody for may hold a driver's error, so that is masked."""
        needs, update = needs_of(app, found), getattr(found, "last_update", None)
        shown = {"conn_id": conn_id, **_shown(summary(app, found)), "needs": masked(to_dict(needs)) if needs else []}
        under_way = update.new if update is not None and update.outcome is None else None
        return cls(conn_id, app, rank(app, needs), shown, needs, under_way)

    def with_approval(self, waiting: list[dict[str, Any]]) -> ListedApp:
        """Add the run in which a person is to approve its update, if there is one."""
        runs = (run for run in waiting if (run["app"], run["deployment"]) == (self.name, self.update))
        run = next(runs, None) if self.update is not None else None
        if run is None:
            return self
        needs = with_approval(self.needs, run["deployment"], run["since"])
        shown = {key: run[key] for key in ("dag_id", "run_id", "task_id", "since")}
        document = {**self.document, "needs": masked(to_dict(needs)), "approval": shown}
        return attrs.evolve(self, rank=rank(self.name, needs), document=document, needs=needs)


def _listed_apps(conn_id: str, client: StreamUpdateClient) -> Iterator[ListedApp]:
    return (ListedApp.of(conn_id, app, glance) for app, glance in client.each_glance())


def _shown(document: dict[str, Any]) -> dict[str, Any]:
    """Mask the error, which may contain a path. Names, numbers and times need no masking, which is slow."""
    return {**document, "error": masked(document["error"])} if "error" in document else document


def _document(error: BaseException) -> dict[str, str]:
    return {"type": type(error).__name__, "message": str(error)}


def _handle_errors(app: FastAPI) -> None:
    @app.exception_handler(StreamUpdateError)
    def handle_known(request: Request, error: StreamUpdateError) -> Response:
        status = next(code for kind, code in STATUS if isinstance(error, kind))
        return _error_response(request, status, masked(_document(error)))

    @app.exception_handler(StarletteHTTPException)
    def handle_refusal(request: Request, error: StarletteHTTPException) -> Response:
        return _error_response(request, error.status_code, {"type": "HTTPException", "message": str(error.detail)})

    @app.exception_handler(Exception)
    def handle_unknown(request: Request, error: Exception) -> Response:
        log.exception("%s %s", request.method, request.url.path)
        message = f"unexpected error {type(error).__name__}; see the log of the API server"
        return _error_response(request, 500, {"type": type(error).__name__, "message": message})


def _error_response(request: Request, status: int, error: dict[str, str]) -> Response:
    """Return the error as JSON for the API, or as an HTML page for a browser."""
    inside = request.scope["path"].removeprefix(request.scope.get("root_path", ""))
    if inside.strip("/"):
        return JSONResponse({"error": error}, status, headers=HEADERS)
    text = "Log in to Airflow to see this page." if status == 401 else error["message"]
    html = f"<!doctype html><title>Streaming apps</title><h1>Streaming apps</h1><p>{escape(text)}</p>"
    return HTMLResponse(html, status, headers=HEADERS)
