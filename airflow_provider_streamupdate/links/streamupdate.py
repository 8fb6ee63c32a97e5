"""Links on a task's page. The operator pushes a link's address to XCom under the link's `value_key`."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import XCom
from airflow.sdk import BaseOperatorLink

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import TaskInstanceKey
    from airflow.sdk import BaseOperator


class _PushedLink(BaseOperatorLink):
    value_key = ""

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        """Return the pushed address; empty (a greyed-out button) when the operator pushed none."""
        return XCom.get_value(ti_key=ti_key, key=self.value_key) or ""


class SparkUiLink(_PushedLink):
    """The driver's Spark UI."""

    name = "Spark UI"
    value_key = "spark_ui"


class DriverLogLink(_PushedLink):
    """The driver's log file."""

    name = "Driver log"
    value_key = "driver_log"


class CompatibilityReportLink(_PushedLink):
    """The compatibility report under the root."""

    name = "Compatibility report"
    value_key = "report_link"


def file_link(path: str | None) -> str | None:
    """Return a path as an address: ``file://`` for a local path, the URI itself for any other.

    A browser opens ``file://`` only on the same machine, and only when the user pastes it.
    """
    if not path or "://" in path:
        return path
    return PurePosixPath(path).as_uri() if path.startswith("/") else path


def push_link(context: Any, link: type[_PushedLink], address: str | None) -> None:
    """Set the address of `link` for this task; nothing without an address."""
    if address:
        context["ti"].xcom_push(key=link.value_key, value=address)
