"""Make an application from the values that DAG authors give."""

from __future__ import annotations

from typing import Any

from ..core.registry.application import Application
from .references import resolve_references
from .templated_values import optional_text, text_list, text_map

APPLICATION_FIELDS = ("application", "py_files", "files", "app_params", "conf", "env_vars")


def application_from(
    application: Any,
    py_files: Any = None,
    files: Any = None,
    app_params: Any = None,
    conf: Any = None,
    env_vars: Any = None,
) -> Application:
    """Return an Application from the values that DAG authors give, which may refer to connections and variables; see
    ApplicationOperator."""
    return Application(
        file=optional_text(application) or "",
        py_files=text_list(py_files, "py_files"),
        files=text_list(files, "files"),
        params=resolve_references(text_map(app_params, "app_params"), "app_params"),
        conf=resolve_references(text_map(conf, "conf"), "conf"),
        env_vars=resolve_references(text_map(env_vars, "env_vars"), "env_vars"),
    )
