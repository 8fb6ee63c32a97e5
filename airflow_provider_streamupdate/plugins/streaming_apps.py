"""The plugin (entry point `airflow.plugins`): where the page appears in Airflow's UI, and what serves it.

Every Airflow process loads plugins, workers too, so this module imports very little. The application is created on the
API server's first request to it.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import urlsplit

from airflow.configuration import conf
from airflow.plugins_manager import AirflowPlugin

log = logging.getLogger(__name__)

NAME = "Streaming apps"
NAV_NAME = "Streams"  # Airflow's navigation cuts what is wider than its 64 pixels
PREFIX = "/streamupdate"
Asgi = Callable[[Any, Any, Any], Awaitable[None]]


class LazyApplication:
    """An ASGI application that is created on the first request."""

    def __init__(self) -> None:
        self._made: Asgi | None = None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if self._made is None:
            self._made = _application()
        await self._made(scope, receive, send)


def _application() -> Asgi:
    """Return the page's application; where this Airflow lacks what it asks for who may see it, one that says so."""
    try:
        from .api import create_app

        return create_app()
    except ImportError as error:
        from airflow import __version__
        from starlette.responses import PlainTextResponse

        log.exception("the page %s does not know Airflow %s", NAME, __version__)
        return PlainTextResponse(
            f"This page does not know Airflow {__version__} ({error}): upgrade airflow-provider-streamupdate. "
            "Operators, DAGs and commands do not need the page.",
            503,
        )


def _view(destination: str, route: str, query: str = "", name: str = NAME) -> dict[str, Any]:
    base = urlsplit(conf.get("api", "base_url", fallback="")).path.rstrip("/")
    icons = f"{base}{PREFIX}/assets"
    return {
        "name": name,
        "href": f"{base}{PREFIX}/{query}",
        "destination": destination,
        "url_route": route,
        "icon": f"{icons}/icon.svg",
        "icon_dark_mode": f"{icons}/icon-dark.svg",
    }


class StreamingAppsPlugin(AirflowPlugin):
    """The navigation entry, and a tab each on the page of a DAG, a DAG run and a task instance."""

    name = "streamupdate"
    fastapi_apps = [{"app": LazyApplication(), "url_prefix": PREFIX, "name": NAME}]  # noqa: RUF012
    external_views = [  # noqa: RUF012
        _view("nav", "streaming-apps", name=NAV_NAME),
        _view("dag", "streaming-app", "?dag_id={DAG_ID}"),
        _view("dag_run", "streaming-app-run", "?dag_id={DAG_ID}&run_id={RUN_ID}"),
        _view("task_instance", "streaming-app-task", "?dag_id={DAG_ID}&run_id={RUN_ID}&task_id={TASK_ID}"),
    ]
