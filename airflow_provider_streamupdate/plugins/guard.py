"""Authorization of requests, by Airflow's own authentication and permissions.

Users who may read the update DAG (`[streamupdate] update_dag_id`) may look; users who may edit it may act. A request
that changes something must also come from the page itself or from no browser at all, since Airflow's session is a
cookie.
"""

from __future__ import annotations

from typing import Annotated, Any
from urllib.parse import urlsplit

from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity
from airflow.api_fastapi.core_api.security import get_user, requires_access_dag
from airflow.configuration import conf
from fastapi import Depends, HTTPException, Request

User = Annotated[Any, Depends(get_user)]  # 401 without a session, 403 with one that is not valid


DAGS = ("update", "rollback", "restart")  # what the page starts them for; the first one's permissions count


def dag_id_for(purpose: str) -> str:
    """Return the DAG that the page starts for one of `DAGS`."""
    return str(conf.get("streamupdate", f"{purpose}_dag_id", fallback=f"stream_{purpose}"))


def may(request: Request, user: Any, method: Any, dag_id: str, entity: DagAccessEntity | None = None) -> bool:
    """Return whether Airflow permits the user this method on a DAG, or on an entity of it."""
    try:
        requires_access_dag(method, entity, dag_id)(request, user)
    except HTTPException as refusal:
        if refusal.status_code != 403:
            raise
        return False
    return True


def reader(request: Request, user: User) -> Any:
    """Refuse (403) users who may not read the update DAG."""
    return _allowed(request, user, "GET")


def editor(request: Request, user: User) -> Any:
    """Refuse (403) users who may not edit the update DAG, and requests from another site's page."""
    _same_site(request)
    return _allowed(request, user, "PUT")


def trusted(request: Request, user: User) -> Any:
    """Refuse (403) users who may not edit the update DAG: a driver's log is not for all who may look."""
    return _allowed(request, user, "PUT")


def _allowed(request: Request, user: Any, method: str) -> Any:
    dag_id = dag_id_for("update")
    if not may(request, user, method, dag_id):
        verb = "read" if method == "GET" else "edit"
        raise HTTPException(403, f"you may not {verb} DAG {dag_id}; ask your Airflow administrator for that permission")
    return user


def _same_site(request: Request) -> None:
    """Refuse requests from other sites.

    A browser states where a request comes from, and asks before it sends JSON to another site (CORS).
    """
    headers = request.headers
    if headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        raise HTTPException(403, "the request comes from another site")
    own = {headers.get("host"), urlsplit(conf.get("api", "base_url", fallback="")).netloc} - {""}
    if (origin := headers.get("origin")) is not None and urlsplit(origin).netloc not in own:
        raise HTTPException(403, f"the request comes from {origin}")
    if headers.get("content-type", "").partition(";")[0].strip() != "application/json":
        raise HTTPException(415, "send JSON (Content-Type: application/json)")
