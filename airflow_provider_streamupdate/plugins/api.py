"""The page's application: its files and its API. docs/ui.md lists the routes and who may use them."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Hashable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
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

from ..control.attention.need import Need, approval, rank, with_approval
from ..control.client import StreamUpdateClient
from ..control.metrics import content_type_of
from ..control.overview import Glance, needs_of, summary
from ..control.review.review import review_document
from ..control.update.strategies import STRATEGIES
from ..core import errors
from ..core.errors import StreamUpdateError
from ..core.registry.update import DEFAULT_STRATEGY, STRATEGY_SUMMARIES
from ..core.serde import to_dict
from ..hooks.settings import DEFAULT_CONN_ID
from .connections import Installations
from .guard import User, editor, may, reader, restart_dag_id, rollback_dag_id, trusted, update_dag_id
from .looks import PATIENCE, Looks
from .masking import masked, masked_code
from .runs import approvals, asked_for, missing, requested, update_runs

log = logging.getLogger(__name__)
T = TypeVar("T")

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
    """The body of a request to delete an app. name: the app's, as a person typed it"""

    name: str
    keep_snapshots: bool = False


def create_app() -> FastAPI:
    """Return the application that the plugin mounts."""
    app = FastAPI(title="Streaming apps", docs_url=None, redoc_url=None, openapi_url=None)
    installations, looks = Installations(), Looks()
    verifier = ThreadPoolExecutor(1, thread_name_prefix="verify-snapshot")  # it reads every byte: one at a time
    _handle_errors(app)

    def ask(conn_id: str, what: str, key: Hashable, request: Callable[[StreamUpdateClient], T]) -> T:
        """Return a client's answer; WaitTimeoutError when its root does not answer in time."""
        return looks.look(conn_id, key, what, lambda: request(installations.client(conn_id)))

    @app.middleware("http")
    async def headers(request: Request, call_next: Any) -> Response:
        response: Response = await call_next(request)
        for name, value in HEADERS.items():
            response.headers.setdefault(name, value)
        response.headers.setdefault("Cache-Control", "no-store")
        return response

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
        dags = (update_dag_id(), rollback_dag_id(), restart_dag_id())
        return JSONResponse(
            {
                "user": user.get_name(),
                "may_edit": may(request, user, "PUT", update_dag_id()),
                "may_trigger": {dag_id: may(request, user, "POST", dag_id, DagAccessEntity.RUN) for dag_id in dags},
                "missing_dags": missing(dags),
                "strategies": [
                    {"name": s.name, "summary": STRATEGY_SUMMARIES[s.name], "runs_beside": s.runs_beside}
                    for s in sorted(STRATEGIES.values(), key=lambda s: s.name != DEFAULT_STRATEGY)
                ],
                "update_dag_id": update_dag_id(),
                "rollback_dag_id": rollback_dag_id(),
                "restart_dag_id": restart_dag_id(),
            }
        )

    @app.get("/api/apps")
    def list_apps(user: Reader, limit: Count = LISTED, offset: Count = 0, search: str = "") -> Response:
        """Return the apps that need somebody first, the most urgent first, then by name: `limit` of them from `offset`,
        of those whose name has `search` in it, and how many there are."""
        began = time.monotonic()
        found = installations.all()
        started = {
            i.conn_id: looks.start_recent(i.conn_id, ("list", i.client), partial(_listed_apps, i.conn_id, i.client))
            for i in found
            if i.client is not None
        }
        connections, apps, waiting = [], list[ListedApp](), approvals(user)
        for installation in found:
            conn_id, error, notes = installation.conn_id, installation.error, list[str]()
            if conn_id in started:
                try:
                    key, what = ("list", installation.client), f"connection {conn_id}"
                    answer = looks.wait_recent(conn_id, key, started[conn_id], what, began)
                    wanted = [app for app in answer.value if search.lower() in app.name.lower()]
                    apps += [app.with_approval(waiting) for app in wanted]
                    if not answer.whole:
                        notes.append(f"its apps are being read: {len(answer.value)} so far")
                    elif answer.age > max(PATIENCE, answer.seconds):
                        notes.append(f"its {len(answer.value)} apps are shown as they were {answer.age:.0f} s ago")
                except StreamUpdateError as problem:
                    error = problem
            told = masked(_document(error)) if error else None
            if notes:
                told = {"type": "Stale", "message": "; ".join(notes)}
            connections.append({"conn_id": conn_id, "root": masked(installation.root), "error": told})
        apps.sort(key=lambda app: (app.rank, app.conn_id))
        page = apps[offset : offset + limit]
        return JSONResponse({"connections": connections, "apps": [app.document for app in page], "total": len(apps)})

    @app.get("/api/apps/{conn_id}/{name}")
    def one_app(conn_id: str, name: str, user: Reader) -> Response:
        document = ask(conn_id, f"app {name}", name, lambda client: masked(client.app_document(name)))
        runs = [run for run in update_runs(user) if run["app"] == name]
        requests = requested(user, (update_dag_id(), rollback_dag_id(), restart_dag_id()), name, conn_id)
        return JSONResponse({"conn_id": conn_id, **document, **masked({"runs": runs, "requests": requests})})

    @app.get("/metrics")
    def metrics(request: Request, _: Reader, conn_id: str = DEFAULT_CONN_ID) -> Response:
        """Return all apps of a connection as metrics, in the format that the request accepts."""
        content_type = content_type_of(request.headers.get("accept", ""))
        began, client = time.monotonic(), installations.client(conn_id)
        key = ("metrics", content_type, client)
        future = looks.start_recent(conn_id, key, lambda: [client.metrics(content_type)])
        [text] = looks.wait_recent(conn_id, key, future, "its metrics", began).value
        return Response(text, headers={"Content-Type": content_type})

    @app.get("/api/apps/{conn_id}/{name}/history")
    def history(conn_id: str, name: str, _: Reader, seconds: float = 3600.0) -> Response:
        """Return what the app did in the last so many seconds, for charts."""
        key = name, seconds, "history"
        return JSONResponse(ask(conn_id, f"the history of {name}", key, lambda client: client.history(name, seconds)))

    @app.get("/api/apps/{conn_id}/{name}/updates/{update}")
    def one_update(conn_id: str, name: str, update: str, _: Reader) -> Response:
        """Return what an update changed: settings, agreements, the hours before and after."""
        key = name, update, "review"
        return JSONResponse(
            ask(
                conn_id,
                f"update {update} of {name}",
                key,
                lambda client: masked(review_document(client.review(name, update))),
            )
        )

    @app.get("/api/apps/{conn_id}/{name}/updates/{update}/code")
    def code_of_update(conn_id: str, name: str, update: str, _: Trusted) -> Response:
        """Return how the code of an update's versions differs. Code may hold secrets that nobody can recognise."""
        key = name, update, "code"
        return JSONResponse(
            ask(
                conn_id,
                f"the code of {update}",
                key,
                lambda client: masked_code(to_dict(client.code_of_update(name, update))),
            )
        )

    @app.get("/api/apps/{conn_id}/{name}/deployments/{deployment}/log")
    def log_tail(conn_id: str, name: str, deployment: str, _: Trusted) -> Response:
        """Return the last lines of the deployment's newest driver's log, or where that log is."""
        key = name, deployment, "log"
        found = ask(conn_id, f"the log of {deployment}", key, lambda client: client.driver_log(name, deployment))
        return JSONResponse(masked(to_dict(found)))

    @app.get("/api/context")
    def context(request: Request, user: Reader, dag_id: str, run_id: str | None = None) -> Response:
        """Return the apps that a DAG, or one run of it, updates."""
        if not may(request, user, "GET", dag_id, DagAccessEntity.RUN):
            raise HTTPException(403, f"you may not read DAG {dag_id}")
        runs = update_runs(user, dag_id, run_id)
        apps = {run["app"] for run in runs}
        if not apps and run_id and (app := asked_for(dag_id, run_id)):
            apps = {app}
        return JSONResponse({"apps": sorted(apps), "runs": runs})

    @app.post("/api/apps/{conn_id}/{name}/snapshots", status_code=202)
    def take_snapshot(conn_id: str, name: str, body: NewSnapshot, user: Editor) -> Response:
        """Ask the driver for a snapshot. The driver takes it asynchronously; poll it with GET."""
        key = name, body.name, "take"
        ask(conn_id, f"app {name}", key, lambda client: client.begin_snapshot(name, body.name))
        log.info("%s asked for snapshot %s of %s", user.get_name(), body.name, name)
        return JSONResponse({"app": name, "name": body.name}, 202)

    @app.get("/api/apps/{conn_id}/{name}/snapshots/{snapshot}")
    def one_snapshot(conn_id: str, name: str, snapshot: str, _: Reader) -> Response:
        """Answer 200 when the snapshot is complete, 202 while it is under way, an error when it failed."""
        key = name, snapshot, "poll"
        found = ask(conn_id, f"snapshot {snapshot}", key, lambda client: client.poll_snapshot(name, snapshot))
        return JSONResponse({"app": name, "name": snapshot, "complete": found is not None}, 200 if found else 202)

    @app.post("/api/apps/{conn_id}/{name}/snapshots/{snapshot}/verify", status_code=202)
    def verify(conn_id: str, name: str, snapshot: str, user: Editor) -> Response:
        """Begin the verification; its result is stored beside the snapshot."""
        key = name, snapshot, "read"
        ask(conn_id, f"snapshot {snapshot}", key, lambda client: client.snapshot(name, snapshot))

        def work() -> None:
            try:
                installations.client(conn_id).verify_snapshot(name, snapshot)
            except StreamUpdateError as error:
                log.error("verification of snapshot %s of %s: %s", snapshot, name, error)

        verifier.submit(work)
        log.info("%s has snapshot %s of %s verified", user.get_name(), snapshot, name)
        return JSONResponse({"app": name, "name": snapshot}, 202)

    @app.delete("/api/apps/{conn_id}/{name}/snapshots/{snapshot}")
    def delete(conn_id: str, name: str, snapshot: str, user: Editor) -> Response:
        key = name, snapshot, "delete"
        freed = ask(conn_id, f"snapshot {snapshot}", key, lambda client: client.delete_snapshot(name, snapshot))
        log.info("%s deleted snapshot %s of %s", user.get_name(), snapshot, name)
        return JSONResponse({"app": name, "name": snapshot, "bytes_freed": freed})

    @app.delete("/api/apps/{conn_id}/{name}")
    def delete_app(conn_id: str, name: str, body: DeletedAppName, user: Editor) -> Response:
        """Delete a cancelled app. What takes longer than a request may goes on; asked again, it is completed."""
        if body.name != name:
            raise HTTPException(422, f"the name that was typed is not {name}; nothing was deleted")
        key = name, body.keep_snapshots, "delete-app"
        log.info("%s deletes app %s", user.get_name(), name)
        deleted = ask(conn_id, f"app {name}", key, lambda client: client.delete_app(name, body.keep_snapshots))
        return JSONResponse(to_dict(deleted))

    return app


@attrs.frozen
class ListedApp:
    """An app of the list. rank: what it is sorted by; update: the deployment that an update under way brings in"""

    conn_id: str
    name: str
    rank: Any
    document: Mapping[str, Any]
    needs: tuple[Need, ...] = ()
    update: str | None = None

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
        needs = with_approval(self.needs, approval(run["deployment"], run["since"]))
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
    def known(request: Request, error: StreamUpdateError) -> Response:
        status = next(code for kind, code in STATUS if isinstance(error, kind))
        return _told(request, status, masked(_document(error)))

    @app.exception_handler(StarletteHTTPException)
    def refused(request: Request, error: StarletteHTTPException) -> Response:
        return _told(request, error.status_code, {"type": "HTTPException", "message": str(error.detail)})

    @app.exception_handler(Exception)
    def unknown(request: Request, error: Exception) -> Response:
        log.exception("%s %s", request.method, request.url.path)
        message = f"unexpected error {type(error).__name__}; see the log of the API server"
        return _told(request, 500, {"type": type(error).__name__, "message": message})


def _told(request: Request, status: int, error: dict[str, str]) -> Response:
    """Return the error as JSON for the API, or as an HTML page for a browser."""
    inside = request.scope["path"].removeprefix(request.scope.get("root_path", ""))
    if inside.strip("/"):
        return JSONResponse({"error": error}, status, headers=HEADERS)
    text = "Log in to Airflow to see this page." if status == 401 else error["message"]
    html = f"<!doctype html><title>Streaming apps</title><h1>Streaming apps</h1><p>{escape(text)}</p>"
    return HTMLResponse(html, status, headers=HEADERS)
