"""Results as plain dicts: XCom refuses a provider's own classes, and a trigger's event must be JSON."""

from __future__ import annotations

from typing import Any

from ..state.rehearsal import RehearsalReport
from ..state.report import CompatibilityReport
from ..state.serde import to_dict
from ..state.snapshot import Snapshot


def snapshot_dict(snapshot: Snapshot) -> dict[str, Any]:
    """What a DAG may want of a snapshot, without its list of files."""
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


def report_dict(report: CompatibilityReport) -> dict[str, Any]:
    """The report, with its outcome spelled out."""
    return {
        **to_dict(report),
        "compatible": report.compatible,
        "outcome": report.outcome,
        "problems": report.problems,
    }


def rehearsal_dict(report: RehearsalReport) -> dict[str, Any]:
    """The report, with its outcome spelled out."""
    return {
        **to_dict(report),
        "compatibility": report_dict(report.compatibility),
        "passed": report.passed,
        "outcome": report.outcome,
        "problems": report.problems,
    }
