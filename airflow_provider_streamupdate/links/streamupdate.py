"""Links on a task's page. A link's address is what the operator pushed to XCom under the link's
`value_key`.
"""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperatorLink
from airflow.sdk.execution_time.xcom import XCom

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import TaskInstanceKey
    from airflow.sdk import BaseOperator


class _PushedLink(BaseOperatorLink):
    value_key = ""

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        """The pushed address; empty (a greyed-out button) when the operator had none."""
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
    """A path as an address: ``file://`` for a local one (a browser opens it only on the same machine and when
    the user pastes it), the URI itself for any other."""
    if not path or "://" in path:
        return path
    return PurePosixPath(path).as_uri() if path.startswith("/") else path


def push_link(context: Any, link: type[_PushedLink], address: str | None) -> None:
    """Give `link` its address for this task."""
    if address:
        context["ti"].xcom_push(key=link.value_key, value=address)
