"""Convert results to plain dicts: XCom refuses a provider's own classes, and a trigger's event must be JSON.

Both go into Airflow's database.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

from ..control.operations.snapshots.collect import Collected
from ..control.report_data import Report, report_data
from ..core.checkpoint.snapshot import Snapshot
from ..core.serde import to_dict

_REFUSED = re.compile("[\x00\ud800-\udfff]")  # an app's expressions and its driver's log may hold them


def plain(value: Any) -> Any:
    """Return the value as plain dicts, lists, strings and numbers.

    Values that PostgreSQL, unlike SQLite, refuses in JSON are replaced: NUL and halves of surrogate pairs by U+FFFD,
    numbers that are not finite by None.
    """
    return _storable(to_dict(value))


def plain_dict(value: Any) -> dict[str, Any]:
    """Return a record, which becomes a dict; see `plain`."""
    return {**plain(value)}


def _storable(value: Any) -> Any:
    if isinstance(value, str):
        return _REFUSED.sub("\ufffd", value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {_storable(key): _storable(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_storable(item) for item in value]
    return value


def snapshot_dict(snapshot: Snapshot) -> dict[str, Any]:
    """Return a snapshot for a DAG, without its list of files."""
    return {
        "name": snapshot.name,
        "app": snapshot.app,
        "deployment": snapshot.deployment,
        "created_at": snapshot.created_at,
        "kind": snapshot.kind,
        "size": snapshot.size,
        "bytes_new": snapshot.bytes_new,
        "batches": {name: query.batch for name, query in snapshot.queries.items()},
    }


def collected_dict(collected: Collected) -> dict[str, Any]:
    """Return what was freed and what was kept, each with its reason, and the bytes in total."""
    return {**plain_dict(collected), "bytes": collected.bytes}


def push_report(ti: Any, report: Report, show: Callable[[str], None]) -> dict[str, Any]:
    """Show a report, and leave it in XCom: as plain data under ``report``, as text under ``report_markdown``.

    Return the data.
    """
    data, markdown = plain_dict(report_data(report)), report.to_markdown()
    show(markdown)
    ti.xcom_push(key="report", value=data)
    ti.xcom_push(key="report_markdown", value=plain(markdown))
    return data
