"""What the forms of the DAGs suggest."""

from __future__ import annotations

import warnings
from typing import Any

from airflow.configuration import conf

from .core.errors import InvalidInputError
from .core.names import check_name


def suggested_apps() -> dict[str, Any]:
    """For a Param: the names in ``[streamupdate] apps``, to choose from; any other may be entered. Nothing without it.

    They are a setting because Airflow parses a DAG's file every half minute and before each task: read from the root,
    they would cost a request each time, and a root that hangs would take the DAG away.
    """
    names = [name.strip() for name in conf.get("streamupdate", "apps", fallback="").split(",")]
    known = [name for name in dict.fromkeys(names) if name and _usable(name)]
    return {"examples": known} if known else {}


def _usable(name: str) -> bool:
    """A name that no app can have is left out, and Airflow shows why beside the DAGs: one must not take them away."""
    try:
        check_name("app", name)
    except InvalidInputError as error:
        warnings.warn(f"[streamupdate] apps: {error}", stacklevel=3)
        return False
    return True
