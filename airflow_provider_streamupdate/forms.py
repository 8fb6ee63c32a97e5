"""What the forms of the DAGs suggest."""

from __future__ import annotations

from typing import Any

from airflow.configuration import conf


def suggested_apps() -> dict[str, Any]:
    """For a Param: the names in ``[streamupdate] apps``, to choose from; any other may be entered. Nothing without it.

    They are a setting because Airflow parses a DAG's file every half minute and before each task: read from the root,
    they would cost a request each time, and a root that hangs would take the DAG away.
    """
    names = [name.strip() for name in conf.get("streamupdate", "apps", fallback="").split(",")]
    known = [name for name in dict.fromkeys(names) if name]
    return {"examples": known} if known else {}
